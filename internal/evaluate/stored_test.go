package evaluate

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// graded ranks the relevant document first for the questions for which hit is true, and second for
// others.
func graded(hit func(plan, question string) bool) *scripted {
	return &scripted{found: func(plan, question string) Found {
		if hit(plan, question) {
			return Found{Documents: []string{"gold"}, Millis: 10}
		}
		return Found{Documents: []string{"dirt", "gold"}, Millis: 30}
	}}
}

// evaluated runs a plan, and returns its stored form under the name p.
func evaluated(t *testing.T, d *Dataset, s *scripted, plan string) (schema.Evaluation, []schema.EvaluationFigures) {
	t.Helper()
	r, err := Run(t.Context(), d, s, Options{Plans: []string{plan}, Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	summary, figures := schema.EvaluationReport(r.Summary()), r.Figures()
	summary.Plans[0].Plan, figures.Plans[0].Plan = "p", "p"
	n := schema.NewEvaluation{Reports: []schema.EvaluationReport{summary}, Figures: []schema.EvaluationFigures{figures}}
	if err := n.Check(); err != nil {
		t.Fatal(err)
	}
	var sent schema.EvaluationFigures // as it goes to the server and back
	if data, err := json.Marshal(figures); err != nil || json.Unmarshal(data, &sent) != nil {
		t.Fatal(err)
	}
	return schema.Evaluation{Reports: n.Reports}, []schema.EvaluationFigures{sent}
}

func metricOf(t *testing.T, c schema.EvaluationComparison, name string) schema.MetricComparison {
	t.Helper()
	if len(c.Datasets) != 1 || len(c.Datasets[0].Plans) != 1 {
		t.Fatalf("compared are %+v", c.Datasets)
	}
	for _, m := range c.Datasets[0].Plans[0].Metrics {
		if m.Metric == name {
			return m
		}
	}
	t.Fatalf("%s was not compared", name)
	return schema.MetricComparison{}
}

// Two evaluations of the same questions are compared like two plans of one evaluation: by the same
// resamples of the same differences.
func TestStoredEvaluationsAreComparedAsPlansAre(t *testing.T) {
	s := graded(func(plan, question string) bool {
		var n int
		_, _ = fmt.Sscanf(question, "question %d", &n)
		return n%3 > 0 || plan == "a" && n%4 > 0
	})
	d := questions(60)
	r, err := Run(t.Context(), d, s, Options{Plans: []string{"b", "a"}, Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	a, ofA := evaluated(t, d, s, "a")
	b, ofB := evaluated(t, d, s, "b")
	compared := Compare(a, b, ofA, ofB)
	for _, want := range r.Summary().Differences {
		got := metricOf(t, compared, want.Metric)
		if got.Questions != 60 || got.Interval == nil || got.P == nil {
			t.Fatalf("%s was compared as %+v", want.Metric, got)
		}
		near(t, want.Metric, got.Difference, want.Difference)
		near(t, want.Metric+" low", got.Interval.Low, want.Interval.Low)
		near(t, want.Metric+" high", got.Interval.High, want.Interval.High)
		near(t, want.Metric+" p", *got.P, want.P)
	}
	if ms := metricOf(t, compared, "ms"); !ms.Lower || ms.Interval == nil || ms.Interval.High >= 0 || ms.Difference >= 0 {
		t.Errorf("the faster one's time was compared as %+v", ms)
	}
	if p50 := metricOf(t, compared, "ms_p50"); p50.Interval != nil || p50.Questions != 0 {
		t.Errorf("a percentile has no question by question: %+v", p50)
	}
	same := metricOf(t, Compare(a, a, ofA, ofA), "hit@1")
	if same.Difference != 0 || *same.P != 1 || *same.Interval != (schema.Interval{}) {
		t.Errorf("an evaluation and itself: %+v", same)
	}
	back := metricOf(t, Compare(b, a, ofB, ofA), "hit@1")
	near(t, "the other way", back.Difference, -metricOf(t, compared, "hit@1").Difference)
}

// If the evaluations asked different questions, the common ones are compared. Their order and
// number may differ.
func TestStoredEvaluationsAreComparedOnTheQuestionsOfBoth(t *testing.T) {
	s := graded(func(plan, question string) bool { return plan == "a" || question == "question 2" })
	few, many := questions(10), questions(30)
	few.Queries = few.Queries[2:5]
	few.Queries[0], few.Queries[2] = few.Queries[2], few.Queries[0]
	a, ofA := evaluated(t, few, s, "a")
	b, ofB := evaluated(t, many, s, "b")
	got := metricOf(t, Compare(a, b, ofA, ofB), "hit@1")
	near(t, "value", got.Value, 1)
	near(t, "against, of questions 2 to 4 alone", got.Against, 1./3)
	if got.Questions != 3 || got.Interval == nil {
		t.Errorf("compared %+v", got)
	}
	// A question without a value is ignored.
	ofA[0].Plans[0].Metrics["hit@1"][0] = nil
	if got := metricOf(t, Compare(a, b, ofA, ofB), "hit@1"); got.Questions != 2 || math.Abs(got.Against-0.5) > 1e-9 {
		t.Errorf("with a value missing, compared %+v", got)
	}
	// Without values by question, only the means are compared.
	if got := metricOf(t, Compare(a, b, nil, ofB), "hit@1"); got.Questions != 0 || got.Interval != nil || got.Value != 1 {
		t.Errorf("without figures, compared %+v", got)
	}
	// Plans that only one evaluation has are not compared.
	b.Reports[0].Plans[0].Plan = "q"
	if got := Compare(a, b, ofA, ofB); len(got.Datasets) != 1 || len(got.Datasets[0].Plans) != 0 {
		t.Errorf("other plans were compared: %+v", got)
	}
	b.Reports[0].Split = "dev"
	if got := Compare(a, b, ofA, ofB); len(got.Datasets) != 0 {
		t.Errorf("other splits were compared: %+v", got)
	}
}

func BenchmarkCompareStored(b *testing.B) {
	r, err := Run(b.Context(), questions(1204), graded(func(plan, question string) bool { return len(question)%2 == 0 || plan == "a" }),
		Options{Plans: []string{"a", "b", "c", "d"}, Parallel: 1})
	if err != nil {
		b.Fatal(err)
	}
	stored := schema.Evaluation{Reports: []schema.EvaluationReport{schema.EvaluationReport(r.Summary())}}
	figures, others := []schema.EvaluationFigures{r.Figures()}, []schema.EvaluationFigures{r.Figures()}
	for _, p := range others[0].Plans {
		for _, values := range p.Metrics {
			none := 0.0
			values[0] = &none
		}
	}
	for b.Loop() {
		Compare(stored, stored, figures, others)
	}
}
