package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// report returns a report of two plans.
func report(dataset string) schema.EvaluationReport {
	plan := func(name string, ndcg float64) schema.EvaluatedPlan {
		return schema.EvaluatedPlan{Plan: name, Metrics: map[string]float64{"ndcg@10": ndcg}, Intervals: map[string]schema.Interval{"ndcg@10": {Low: ndcg - 0.1, High: ndcg + 0.1}},
			Tokens: 812.25, Millis: schema.Latency{P50: 4.5, P95: 9, Mean: 5}, Stages: []schema.StageLatency{{Stage: "lexical", Latency: schema.Latency{P50: 1, P95: 2, Mean: 1.5}}}}
	}
	return schema.EvaluationReport{Dataset: dataset, Split: "test", Documents: 4, Queries: 2, Parallel: 2, Limit: 2, Seed: 1<<64 - 1,
		Plans:       []schema.EvaluatedPlan{plan("naive", 0.7), plan("sluice", 0.8)},
		Differences: []schema.EvaluationDifference{{Metric: "ndcg@10", Plan: "sluice", Against: "naive", Difference: 0.1, Interval: schema.Interval{Low: 0.02, High: 0.18}, P: 0.01}}}
}

// figures returns the results for each question of a report.
func figures() schema.EvaluationFigures {
	one := 1.0
	return schema.EvaluationFigures{Queries: []string{"q1", "q2"}, Plans: []schema.PlanFigures{
		{Plan: "naive", Metrics: map[string][]*float64{"ndcg@10": {&one, nil}}}, {Plan: "sluice", Metrics: map[string][]*float64{"ndcg@10": {&one, &one}}}}}
}

func TestEvaluations(t *testing.T) {
	f := setUp(t, store.Options{})
	ranAt := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	n := schema.NewEvaluation{Name: "before", Notes: "no change", RanAt: ranAt, Reports: []schema.EvaluationReport{report("qed"), report("tales")},
		Figures: []schema.EvaluationFigures{figures(), {Queries: []string{}, Plans: []schema.PlanFigures{}}}}
	made, err := f.CreateEvaluation(t.Context(), f.a, n)
	if err != nil {
		t.Fatal(err)
	}
	if !made.RanAt.Equal(ranAt) || made.Key != f.a.Key || !made.Figures || made.Reports != nil || len(made.Datasets) != 2 || made.CreatedAt.IsZero() {
		t.Errorf("made %+v", made)
	}
	got, err := f.Evaluation(t.Context(), f.a, made.ID)
	if err != nil || !reflect.DeepEqual(got.Reports, n.Reports) || got.Notes != n.Notes {
		t.Errorf("read %+v, %v", got, err)
	}
	want := schema.EvaluatedDataset{Dataset: "qed", Split: "test", Documents: 4, Queries: 2, Plans: []string{"naive", "sluice"}}
	if !reflect.DeepEqual(got.Datasets[0], want) {
		t.Errorf("its dataset is %+v", got.Datasets[0])
	}
	before := one[time.Time](t, f, f.a, `SELECT now()`)
	bare, err := f.CreateEvaluation(t.Context(), f.a, schema.NewEvaluation{Name: "after", Reports: []schema.EvaluationReport{report("qed")}})
	if err != nil || bare.Figures || bare.RanAt.Before(before) {
		t.Fatalf("made %+v, %v", bare, err)
	}
	both, of, err := f.EvaluationPair(t.Context(), f.a, [2]uuid.UUID{made.ID, bare.ID})
	if err != nil || both[0].ID != made.ID || both[1].Name != "after" || !reflect.DeepEqual(of[0], n.Figures) || of[1] != nil {
		t.Errorf("the pair is %+v with %+v, %v", both, of, err)
	}

	list, next, err := f.Evaluations(t.Context(), f.a, schema.EvaluationQuery{PageQuery: schema.PageQuery{Limit: 1}})
	if err != nil || len(list) != 1 || list[0].ID != bare.ID || list[0].Reports != nil || next == "" {
		t.Fatalf("the first page is %+v, %q, %v", list, next, err)
	}
	list, next, err = f.Evaluations(t.Context(), f.a, schema.EvaluationQuery{PageQuery: schema.PageQuery{Limit: 1, Cursor: next}})
	if err != nil || len(list) != 1 || list[0].ID != made.ID || !list[0].Figures || next != "" {
		t.Fatalf("the last page is %+v, %q, %v", list, next, err)
	}
	list, _, err = f.Evaluations(t.Context(), f.a, schema.EvaluationQuery{Dataset: "tales"})
	if err != nil || len(list) != 1 || list[0].ID != made.ID {
		t.Errorf("of a dataset are %+v, %v", list, err)
	}

	// Another tenant's evaluations do not exist.
	if list, _, err := f.Evaluations(t.Context(), f.b, schema.EvaluationQuery{}); err != nil || len(list) != 0 {
		t.Errorf("another tenant lists %+v, %v", list, err)
	}
	_, showing := f.Evaluation(t.Context(), f.b, made.ID)
	_, _, pairing := f.EvaluationPair(t.Context(), f.b, [2]uuid.UUID{made.ID, bare.ID})
	for _, err := range []error{showing, pairing, f.DeleteEvaluation(t.Context(), f.b, made.ID)} {
		if !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("to another tenant it is %v", err)
		}
	}
	if err := f.DeleteEvaluation(t.Context(), f.a, made.ID); err != nil {
		t.Error(err)
	}
	if err := f.DeleteEvaluation(t.Context(), f.a, made.ID); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if _, _, err := f.EvaluationPair(t.Context(), f.a, [2]uuid.UUID{bare.ID, made.ID}); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("compared with one that is gone: %v", err)
	}
}

func TestEvaluationsThatAreWrongAreNamedByTheirField(t *testing.T) {
	f := setUp(t, store.Options{})
	for _, c := range []struct {
		field string
		spoil func(n *schema.NewEvaluation)
	}{
		{"name", func(n *schema.NewEvaluation) { n.Name = "" }},
		{"name", func(n *schema.NewEvaluation) { n.Name = "a\x00b" }},
		{"notes", func(n *schema.NewEvaluation) { n.Notes = strings.Repeat("x", 10_001) }},
		{"reports", func(n *schema.NewEvaluation) { n.Reports = nil }},
		{"reports", func(n *schema.NewEvaluation) { n.Reports[0].Plans[0].Segmentation = "by \x00" }},
		{"reports[1].dataset", func(n *schema.NewEvaluation) { n.Reports[1].Dataset = "qed" }},
		{"reports[0].plans[1].plan", func(n *schema.NewEvaluation) { n.Reports[0].Plans[1].Plan = "naive" }},
		{"reports[1].plans[0].metrics", func(n *schema.NewEvaluation) { n.Reports[1].Plans[0].Metrics["No metric"] = 1 }},
		{"reports[0].plans[0].intervals", func(n *schema.NewEvaluation) { n.Reports[0].Plans[0].Intervals["hit@1"] = schema.Interval{Low: 1} }},
		{"reports[0].differences[0].against", func(n *schema.NewEvaluation) { n.Reports[0].Differences[0].Against = "other" }},
		{"figures", func(n *schema.NewEvaluation) { n.Figures = n.Figures[:1] }},
		{"figures[0].queries[1]", func(n *schema.NewEvaluation) { n.Figures[0].Queries[1] = "q1" }},
		{"figures[1].plans[1].plan", func(n *schema.NewEvaluation) { n.Figures[1].Plans[1].Plan = "naive" }},
		{"figures[0].plans[0].metrics.ndcg@10", func(n *schema.NewEvaluation) { n.Figures[0].Plans[0].Metrics["ndcg@10"] = nil }},
		{"figures", func(n *schema.NewEvaluation) {
			many := schema.EvaluationFigures{Plans: []schema.PlanFigures{{Plan: "naive", Metrics: map[string][]*float64{}}}}
			for i := range schema.MaxEvaluationFigures/2 + 1 {
				many.Queries = append(many.Queries, fmt.Sprint(i))
			}
			many.Plans[0].Metrics["a"], many.Plans[0].Metrics["b"] = make([]*float64, len(many.Queries)), make([]*float64, len(many.Queries))
			n.Figures[0] = many
		}},
	} {
		n := schema.NewEvaluation{Name: "n", Reports: []schema.EvaluationReport{report("qed"), report("tales")}, Figures: []schema.EvaluationFigures{figures(), figures()}}
		c.spoil(&n)
		var field *schema.FieldError
		if _, err := f.CreateEvaluation(t.Context(), f.a, n); !errors.As(err, &field) || field.Field != c.field {
			t.Errorf("%s: %v", c.field, err)
		}
	}
	if _, _, err := f.Evaluations(t.Context(), f.a, schema.EvaluationQuery{PageQuery: schema.PageQuery{Cursor: "x"}}); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("a cursor of nobody's: %v", err)
	}
	// Backslashes before u0000 are not U+0000.
	n := schema.NewEvaluation{Name: "n", Reports: []schema.EvaluationReport{report(`qed\u0000`)}}
	if _, err := f.CreateEvaluation(t.Context(), f.a, n); err != nil {
		t.Error(err)
	}
}

func TestATenantKeepsSoManyEvaluations(t *testing.T) {
	f := setUp(t, store.Options{})
	execAs(t, f, f.a, `INSERT INTO evaluations (tenant_id, id, name, key_id, ran_at, datasets, reports)
		SELECT current_setting('sluice.tenant')::uuid, gen_random_uuid(), 'n', gen_random_uuid(), now(), '[]', '[]' FROM generate_series(1, 500)`)
	n := schema.NewEvaluation{Name: "n", Reports: []schema.EvaluationReport{report("qed")}}
	if _, err := f.CreateEvaluation(t.Context(), f.a, n); !errors.Is(err, schema.ErrQuota) {
		t.Errorf("one more than may be: %v", err)
	}
	if _, err := f.CreateEvaluation(t.Context(), f.b, n); err != nil {
		t.Errorf("another tenant's first: %v", err)
	}
}
