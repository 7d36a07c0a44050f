package plans_test

import (
	"fmt"
	"reflect"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluice-rag/sluice/plans"
)

// plan is a file as it is written.
type plan struct {
	Segmentation map[string]any
	Stages       []yaml.Node
	Feedback     map[string]any
	Answer       map[string]any
}

// parameters are those of a plan's n-th stage of a kind, from 1.
func (p plan) parameters(t *testing.T, kind string, n int) map[string]any {
	t.Helper()
	for i := range p.Stages {
		s := &p.Stages[i]
		if s.Kind == yaml.ScalarNode && s.Value == kind {
			if n--; n == 0 {
				return map[string]any{}
			}
		}
		var stage map[string]map[string]any
		if s.Kind != yaml.MappingNode || s.Decode(&stage) != nil {
			continue
		}
		if of, ok := stage[kind]; ok {
			if n--; n == 0 {
				return of
			}
		}
	}
	t.Fatalf("there is no stage %s", kind)
	return nil
}

// TestPlansHaveThePapersConstants: what a paper states is what the plan of its name says, unless a
// line here says why not.
func TestPlansHaveThePapersConstants(t *testing.T) {
	for name, constants := range map[string][]struct {
		stage string // or a member of the plan
		n     int    // of the stages of the kind, from 1; 0: a member
		field string
		want  any
	}{
		"sage": { // algorithm 2; section VI; N of figures 8 and 9
			{"segmentation", 0, "by", "segmenter"},
			{"dense", 1, "unit", "passage"}, {"dense", 1, "k", 15}, {"score", 1, "by", "relevance"}, {"score", 1, "depth", 15},
			{"gradient", 1, "min_k", 7}, {"gradient", 1, "by", "fall"}, {"gradient", 1, "g", 0.3}, {"gradient", 1, "score", "relevance"},
			{"feedback", 0, "least", 9}, {"feedback", 0, "rounds", 3}, {"feedback", 0, "of", "gradient"},
		},
		"funnelrag": { // K of section 3.2, N from 8 to 12, lr and H of section 3.4
			{"lexical", 1, "unit", "cluster"}, {"lexical", 1, "k", 80}, {"zoom", 1, "to", "section"},
			{"score", 1, "by", "relevance"}, {"score", 1, "keep", 12}, {"zoom", 2, "to", "passage"}, {"fuse", 1, "lr", 4}, {"limit", 1, "k", 4},
		},
		"saki": { // algorithm 1, at k = 5
			{"segmentation", 0, "by", "sentences"}, {"dense", 1, "unit", "passage"}, {"relate", 1, "k", 3}, {"score", 1, "by", "relevance"}, {"judge", 1, "by", "filter"}, {"threshold", 1, "at", 1}, {"threshold", 1, "score", "judge"}, {"limit", 1, "k", 5},
		},
		"chunkrag": { // algorithm 1; section 3; dedupe's 0.9 in the scale of the pack's vectors
			{"segmentation", 0, "by", "similarity"}, {"rewrite", 1, "", nil}, {"hybrid", 1, "unit", "passage"}, {"hybrid", 1, "method", "weighted"}, {"dedupe", 1, "cosine", "calibrated"},
			{"judge", 1, "by", "critique"}, {"threshold", 1, "score", "judge"}, {"threshold", 1, "epsilon", 1e-4}, {"score", 1, "model", "reranker"}, {"order", 1, "method", "ends"},
		},
		"fitrag": { // section 4; s_n is TriviaQA's
			{"hybrid", 1, "unit", "passage"}, {"hybrid", 1, "k", 100}, {"score", 1, "by", "prefer_sum"}, {"score", 1, "depth", 100},
			{"skip-retrieval", 1, "s_l", 0.04}, {"skip-retrieval", 1, "s_n", 0.67}, {"limit", 1, "k", 10},
			{"reduce", 1, "depth", 10}, {"reduce", 1, "sentences", 3}, {"reduce", 1, "stride", 1}, {"answer", 0, "prompt", "explain"},
		},
		// What the plans of no paper have from one.
		"funnel-lite": { // FunnelRAG's K and N
			{"lexical", 1, "unit", "cluster"}, {"lexical", 1, "k", 80}, {"zoom", 1, "to", "section"}, {"hybrid", 1, "unit", "section"}, {"hybrid", 1, "k", 12},
			{"zoom", 2, "to", "passage"}, {"hybrid", 2, "unit", "passage"},
		},
		"hybrid": {{"dedupe", 1, "cosine", 0.9}},                                                             // ChunkRAG, algorithm 1
		"sluice": {{"gradient", 1, "min_k", 7}, {"gradient", 1, "g", 0.3}},                                   // SAGE, section VII
		"bm25":   {{"lexical", 1, "unit", "document"}, {"lexical", 1, "k1", 1.2}, {"lexical", 1, "b", 0.75}}, // as in the literature
	} {
		t.Run(name, func(t *testing.T) {
			data, err := plans.FS.ReadFile(name + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			var p plan
			if err := yaml.Unmarshal(data, &p); err != nil {
				t.Fatal(err)
			}
			members := map[string]map[string]any{"segmentation": p.Segmentation, "feedback": p.Feedback, "answer": p.Answer}
			for _, c := range constants {
				of := members[c.stage]
				if c.n > 0 {
					of = p.parameters(t, c.stage, c.n)
				}
				if got := of[c.field]; !reflect.DeepEqual(got, c.want) {
					t.Errorf("%s %s: %v, want %v", c.stage, c.field, fmt.Sprint(got), c.want)
				}
			}
		})
	}
	// BM25 and embeddings weigh the same (ChunkRAG, section 3.3).
	var p plan
	data, err := plans.FS.ReadFile("chunkrag.yaml")
	if err != nil || yaml.Unmarshal(data, &p) != nil {
		t.Fatal(err)
	}
	half := map[string]any{"unit": "passage", "weight": 0.5}
	want := []any{map[string]any{"lexical": half}, map[string]any{"dense": half}}
	if of := p.parameters(t, "hybrid", 1)["of"]; !reflect.DeepEqual(of, want) {
		t.Errorf("chunkrag's hybrid is of %v", of)
	}
}
