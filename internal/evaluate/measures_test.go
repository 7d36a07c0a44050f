package evaluate

import (
	"math"
	"slices"
	"testing"
)

// TestContextRecallLooksAtTheContextAlone: an answer that was found but is not in the context does
// not count, and a question without answers has no value.
func TestContextRecallLooksAtTheContextAlone(t *testing.T) {
	found := Found{Passages: passages("nothing here", "it is seven", "mud")}
	of := func(q judged, context ...int) float64 {
		f := found
		f.Context = context
		o := observe(&q, &f)
		for _, m := range measures(nil) {
			if m.name == "context_ar" {
				return m.of(&o)
			}
		}
		t.Fatal("there is no context_ar")
		return 0
	}
	seven := judged{answers: answerTokens([]string{"seven"})}
	for name, x := range map[string]struct {
		got, want float64
	}{
		"in the context":     {of(seven, 0, 1), 1},
		"first of it":        {of(seven, 1), 1},
		"found and left out": {of(seven, 0, 2), 0},
		"an empty context":   {of(seven), 0},
	} {
		if x.got != x.want {
			t.Errorf("%s: %v, want %v", name, x.got, x.want)
		}
	}
	if got := of(judged{}, 0, 1); !math.IsNaN(got) {
		t.Errorf("without answers it is %v", got)
	}
}

// TestCutoffs: answers are measured at the cutoffs of FunnelRAG's and SAKI-RAG's tables, and at
// further ones up to the number of passages that a search returns.
func TestCutoffs(t *testing.T) {
	names := func(more ...int) (out []string) {
		for _, m := range measures(more) {
			out = append(out, m.name)
		}
		return out
	}
	for _, name := range []string{"ar@1", "ar@3", "ar@4", "ar@5", "ar@10", "passage_recall@1", "passage_recall@3", "passage_recall@5", "passage_recall@10", "entropy@4", "ndcg@10"} {
		if !slices.Contains(names(), name) {
			t.Errorf("%s is not taken", name)
		}
	}
	all := names(MaxPassages, MaxPassages+1)
	for name, want := range map[string]bool{"ar@100": true, "passage_recall@100": true, "ar@101": false, "passage_recall@101": false, "ndcg@101": true} {
		if slices.Contains(all, name) != want {
			t.Errorf("%s: taken %t", name, !want)
		}
	}
	for more, want := range map[int]int{10: 0, 11: MaxPassages, MaxPassages: MaxPassages, MaxPassages + 1: 0} {
		if got := breadth([]int{more}); got != want {
			t.Errorf("for a cutoff of %d, %d passages are asked for, not %d", more, got, want)
		}
	}
}
