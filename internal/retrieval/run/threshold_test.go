package run_test

import (
	"strings"
	"testing"
)

func TestThreshold(t *testing.T) {
	for _, x := range []struct {
		name, stage string
		scores      []float64
		kept        int
		why         string
	}{
		{"the mean", "{}", []float64{0.9, 0.8, 0.3, 0.2}, 2, "at least 0.55, their mean"},
		{"a score that is the mean", "{}", []float64{3, 2, 1}, 2, "at least 2, their mean"},
		{"scores that hardly differ", "{}", []float64{0.508, 0.501, 0.5, 0.499}, 1, "one standard deviation"},
		{"scores that differ enough for another epsilon", "{epsilon: 0.000001}", []float64{0.508, 0.501, 0.5, 0.499}, 1, "at least 0.502, their mean"},
		{"less than a deviation above the mean", "{}", []float64{0.506, 0.503, 0.5, 0.499}, 1, "at least 0.5047, their mean and one standard deviation"},
		{"a variance just above the usual epsilon", "{}", []float64{0.520976, 0.5}, 1, "at least 0.5105, their mean"}, // 1.1e-4
		{"a variance that is epsilon is not under it", "{epsilon: 0.25}", []float64{1, 0}, 1, "at least 0.5, their mean"},
		{"two that are better by the same", "{}", []float64{0.508, 0.508, 0.5, 0.5, 0.5, 0.5}, 2, "one standard deviation"},
		{"equal scores", "{}", []float64{0.5, 0.5, 0.5}, 3, "at least 0.5"},
		{"equal scores whose sum is rounded", "{}", []float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, 6, "at least 0.1"},
		{"one candidate", "{}", []float64{-3}, 1, "at least -3"},
		{"what the plan says", "{at: 0.5}", []float64{0.9, 0.5, 0.49}, 2, "at least 0.5, as the plan says"},
		{"a threshold of 0, which is reached and missed", "{at: 0}", []float64{1, 0, -1}, 2, "at least 0, as the plan says"},
		{"nothing has it", "{at: 7}", []float64{0.9, 0.5}, 1, "so the best one stays"},
		{"nothing has it, and none may be left", "{at: 7, empty: true}", []float64{0.9, 0.5}, 0, "at least 7"},
	} {
		got := ranked(x.scores).run(t, "- dense\n- threshold: "+x.stage)
		why := got.Trace[1].Why
		if strings.Contains(why, "pass") {
			t.Errorf("%s: all have the score: %s", x.name, why)
		}
		if len(got.Context) != x.kept || len(got.Candidates) != len(x.scores) || !strings.Contains(why, x.why) {
			t.Errorf("%s: %d of %d are kept, want %d (%s)", x.name, len(got.Context), len(got.Candidates), x.kept, why)
		}
	}
}

func TestThresholdByANamedScore(t *testing.T) {
	c := ranked([]float64{9, 8, 7, 6})
	for p, x := range []float64{0.1, 5, 4.9, 0.2} {
		c.lexical[passage(0, 0, p)] = x
	}
	got := c.run(t, "- lexical\n- dense\n- threshold: {score: lexical.passage}")
	if len(got.Context) != 2 || got.Candidates[got.Context[0]].Scores["lexical.passage"] != 5 || got.Candidates[got.Context[1]].Scores["lexical.passage"] != 4.9 {
		t.Errorf("the context is %v (%s)", got.Context, got.Trace[2].Why)
	}
}
