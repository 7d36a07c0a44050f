package run_test

import (
	"math"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema/wire"
)

// Every term has the same idf here, so that the features can be computed by hand: three sections of
// three terms, in four sentences.
func TestProximityReadsTheBest(t *testing.T) {
	c := corpus([]int{1}, []int{1}, []int{1}, []int{1})
	for d, text := range []string{"Foxes brown. Quick.", "Quick brown foxes.", "Lions, tigers, bears.", "Quick brown foxes and quick brown foxes."} {
		c.documents[d].sections[0][0] = text
		c.lexical[passage(d, 0, 0)] = 2 - 0.2*float64(d)
	}
	ask := func(q *wire.SearchQuery) { q.Text = "quick brown foxes" }
	got := c.run(t, "- lexical: {unit: passage}\n- proximity: {depth: 3, ordered: 1, coverage: 0.6, sentence: 0.9}", ask)
	type features struct{ ordered, coverage, sentence, score float64 }
	saturated := func(length, average float64) float64 { return 1 / (1 + 1.2*(0.25+0.75*length/average)) }
	for i, expected := range []struct {
		document string
		features
	}{
		{"b", features{saturated(3, 3), 1, saturated(3, 2.25), 0.9 + saturated(3, 3) + 0.6 + 0.9*saturated(3, 2.25)}},
		{"a", features{0, 1, saturated(2, 2.25) * 2 / 3, 1 + 0.6 + 0.9*saturated(2, 2.25)*2/3}},
		{"c", features{0, 0, 0, 0.8}},
		{"d", features{0, 0, 0, 0.7}}, // as good as b, and below the depth
	} {
		have := got.Candidates[i]
		want := []float64{expected.ordered, expected.coverage, expected.sentence, expected.score}
		for j, x := range []float64{have.Scores["ordered"], have.Scores["coverage"], have.Scores["sentence"], have.Score} {
			if math.Abs(x-want[j]) > 1e-9 {
				t.Errorf("rank %d: feature %d is %g, want %g", i+1, j, x, want[j])
			}
		}
		if have.ExternalID != expected.document {
			t.Errorf("rank %d is %s, want %s", i+1, have.ExternalID, expected.document)
		}
	}
	if why := got.Trace[1].Why; !strings.Contains(why, "read 3 sections") {
		t.Errorf("it says %q", why)
	}
}

func TestProximityPassesOverWhatIsGone(t *testing.T) {
	c := corpus([]int{1}, []int{1})
	c.lexical[passage(0, 0, 0)], c.lexical[passage(1, 0, 0)] = 2, 1
	c.documents[0].deleted = true
	want(t, "candidates", places(c.run(t, "- lexical: {unit: passage}\n- proximity")), []string{"b/0/0"})
	// An empty result and a question without a word are not errors.
	c = corpus([]int{1})
	want(t, "nothing", len(c.run(t, "- lexical: {unit: passage}\n- proximity").Candidates), 0)
	c.dense[passage(0, 0, 0)] = 0.5
	want(t, "stop words", places(c.run(t, "- dense\n- proximity", func(q *wire.SearchQuery) { q.Text = "and of the" })), []string{"a/0/0"})
}
