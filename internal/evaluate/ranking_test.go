package evaluate

import (
	"math"
	"testing"
)

// near compares a value with one computed by hand, to within 1e-9.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.IsNaN(got) != math.IsNaN(want) || math.Abs(got-want) > 1e-9 {
		t.Errorf("%s is %.12f; by hand it is %.12f", what, got, want)
	}
}

func TestRankingMeasuresByHand(t *testing.T) {
	log3 := math.Log2(3) // the discount of rank 2; that of rank 3 is 2, of rank 4 log2 5
	log5 := math.Log2(5)
	for _, c := range []struct {
		name      string
		documents []string
		relevant  map[string]int
		want      map[string]float64
	}{
		{"one relevant, first", []string{"a", "b", "c"}, map[string]int{"a": 1}, map[string]float64{
			"ndcg@1": 1, "ndcg@10": 1, "hit@1": 1, "mrr@10": 1, "document_recall@1": 1, "document_precision@1": 1, "document_precision@3": 1. / 3, "document_precision@5": 0.2, "document_recall@100": 1}},
		{"one relevant, third", []string{"a", "b", "c"}, map[string]int{"c": 1}, map[string]float64{
			"ndcg@1": 0, "ndcg@3": 0.5, "ndcg@10": 0.5, "hit@1": 0, "hit@3": 1, "mrr@1": 0, "mrr@10": 1. / 3, "document_recall@1": 0, "document_recall@3": 1, "document_precision@3": 1. / 3}},
		{"nothing relevant found", []string{"a", "b"}, map[string]int{"z": 1}, map[string]float64{
			"ndcg@10": 0, "hit@100": 0, "mrr@10": 0, "document_recall@100": 0, "document_precision@5": 0}},
		{"nothing found", nil, map[string]int{"z": 2}, map[string]float64{
			"ndcg@10": 0, "hit@100": 0, "mrr@10": 0, "document_recall@100": 0, "document_precision@1": 0}},
		{"nothing relevant exists", []string{"a"}, nil, map[string]float64{
			"ndcg@10": math.NaN(), "hit@1": math.NaN(), "mrr@10": math.NaN(), "document_recall@10": math.NaN(), "document_precision@1": math.NaN()}},
		// Gains are linear: grade 3 at rank 2 and 1 at rank 3 give 3/log2(3) + 1/2; the best order
		// gives 3 + 1/log2(3).
		{"graded", []string{"x", "three", "one"}, map[string]int{"three": 3, "one": 1}, map[string]float64{
			"ndcg@1": 0, "ndcg@3": (3/log3 + 0.5) / (3 + 1/log3), "ndcg@10": (3/log3 + 0.5) / (3 + 1/log3), "hit@3": 1, "mrr@3": 0.5, "document_recall@3": 1, "document_precision@3": 2. / 3}},
		// The ideal ranking stops at k too: with three relevant documents nDCG@1 needs one.
		{"more relevant than k", []string{"one", "two", "x", "three"}, map[string]int{"one": 1, "two": 2, "three": 3}, map[string]float64{
			"ndcg@1": 1. / 3, "ndcg@3": (1 + 2/log3) / (3 + 2/log3 + 0.5), "ndcg@10": (1 + 2/log3 + 3/log5) / (3 + 2/log3 + 0.5),
			"document_recall@1": 1. / 3, "document_recall@3": 2. / 3, "document_precision@3": 2. / 3, "document_precision@5": 0.6, "document_recall@5": 1}},
		// Fewer than k found: the empty ranks lower precision, not recall.
		{"fewer than k", []string{"a"}, map[string]int{"a": 1, "b": 1}, map[string]float64{
			"ndcg@10": 1 / (1 + 1/log3), "document_precision@1": 1, "document_precision@5": 0.2, "document_recall@5": 0.5, "hit@5": 1}},
		// A document ranks by its best candidate. Its repetitions are ignored, and take no rank.
		{"the same document again", []string{"a", "a", "a", "b"}, map[string]int{"b": 1}, map[string]float64{
			"ndcg@3": 1 / log3, "mrr@10": 0.5, "hit@1": 0, "hit@3": 1, "document_precision@3": 1. / 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := observation{ranking: newRanking(c.documents, c.relevant)}
			all := map[string]measure{}
			for _, m := range measures(nil) {
				all[m.name] = m
			}
			for name, want := range c.want {
				m, ok := all[name]
				if !ok {
					t.Fatalf("there is no measure %s", name)
				}
				near(t, name, m.of(&o), want)
			}
		})
	}
}

// If no document is known to be relevant the gain is 0.
func TestNothingKnownIsNoGain(t *testing.T) {
	near(t, "nDCG", NDCG([]string{"a"}, nil, 10), 0)
	near(t, "recall", newRanking([]string{"a"}, nil).recall(10), 0)
}

// With equal scores the plan's order counts, whatever the documents' ids are.
func TestTiesKeepTheOrderOfThePlan(t *testing.T) {
	relevant := map[string]int{"m": 1}
	near(t, "mrr with m first", newRanking([]string{"m", "a", "z"}, relevant).mrr(10), 1)
	near(t, "mrr with m second", newRanking([]string{"a", "m", "z"}, relevant).mrr(10), 0.5)
}

func TestInformationEfficiencyMultipliesMeans(t *testing.T) {
	// Two questions: recall@1 1 and 0, precision@1 1 and 0. The means are 0.5 and 0.5, so IE@1 is
	// 0.25, not 0.5.
	means := map[string]float64{"document_recall@1": 0.5, "document_precision@1": 0.5, "document_recall@3": 0.75, "document_precision@3": 1. / 3, "document_recall@5": 1, "document_precision@5": 0.4}
	combined(means, nil)
	near(t, "document_ie@1", means["document_ie@1"], 0.25)
	near(t, "document_ie@3", means["document_ie@3"], 0.25)
	near(t, "document_ie@5", means["document_ie@5"], 0.4)
	near(t, "document_recall_sum", means["document_recall_sum"], 2.25)
	near(t, "document_precision_sum", means["document_precision_sum"], 0.5+1./3+0.4)
	near(t, "document_ie_sum", means["document_ie_sum"], 0.9)
	if _, known := means["passage_ie_sum"]; known {
		t.Error("there are sums of figures that nobody took")
	}
	// SAKI-RAG's table 2 has 50.96 for Meta-Chunking-PPL on Dragonball, from the percentages of its
	// table 17.
	means = map[string]float64{"passage_recall@1": .2675, "passage_precision@1": .6867, "passage_recall@3": .4593, "passage_precision@3": .3808, "passage_recall@5": .5553, "passage_precision@5": .2720}
	combined(means, nil)
	if got := math.Round(means["passage_ie_sum"]*1e4) / 100; got != 50.96 {
		t.Errorf("the published recalls and precisions give IE %.2f; the paper has 50.96", got)
	}
}

func TestPercentiles(t *testing.T) {
	values := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}
	near(t, "p50 of 1..20", percentile(values, 50), 10)
	near(t, "p95 of 1..20", percentile(values, 95), 19)
	near(t, "p100 of 1..20", percentile(values, 100), 20)
	near(t, "p50 of one", percentile([]float64{7}, 50), 7)
	near(t, "p95 of none", percentile(nil, 95), 0)
}
