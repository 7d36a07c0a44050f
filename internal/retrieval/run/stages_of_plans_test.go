package run_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestGradientTakesAnyScoreOfTheStagesBefore: candidates have every score that their stage
// declares.
func TestGradientTakesAnyScoreOfTheStagesBefore(t *testing.T) {
	for stages, names := range map[string][]string{
		"- hybrid: {of: [lexical, {dense: {unit: section}}, {lexical: {unit: cluster}}]}\n- proximity\n": {"hybrid", "lexical.passage", "dense.section", "lexical.cluster", "coverage", "ordered", "proximity", "sentence"},
		"- lexical: {unit: document}\n- zoom: {to: passage, per: 2}\n":                                   {"lexical.document", "lexical.passage"},
		"- dense: {unit: document}\n- zoom: {to: section}\n- lexical: {unit: section}\n":                 {"dense.document", "lexical.section"},
		"- lexical\n- relate\n- score\n- fuse\n- reduce\n":                                               {"lexical.passage", "link", "relevance", "has_answer", "llm_prefer", "score", "fuse", "prefer_sum"},
	} {
		for _, name := range names {
			c := corpus([]int{2})
			c.lexical = map[lexical.Ref]float64{doc(0): 1, section(0, 0): 1, passage(0, 0, 0): 1}
			c.dense[passage(0, 0, 0)] = 1
			c.readers = everyOp(func(string) float32 { return 1 })
			c.links = scriptedLinks{passage(0, 0, 0): {{To: passage(0, 0, 1), Weight: 0.5}}}
			got := c.run(t, stages+"- gradient: {score: "+name+"}")
			if len(got.Candidates) == 0 {
				t.Fatalf("%s found nothing", stages)
			}
			if _, ok := got.Candidates[0].Scores[name]; !ok {
				t.Errorf("%s: no score %s, only %v", stages, name, got.Candidates[0].Scores)
			}
		}
	}
}

func TestThePlanSaysWhenTheCollectionIsCutOtherwise(t *testing.T) {
	c := ranked(figure9)
	const stages = "- dense\nsegmentation: {by: sentences, sentences: 3}"
	want(t, "of a segmentation that is not known", len(c.run(t, stages).Trace), 1)
	c.segmentation = schema.Segmentation{By: schema.BySentences, Sentences: 3, MaxTokens: 400}
	want(t, "as it is meant", len(c.run(t, stages).Trace), 1)
	c.segmentation = schema.Segmentation{By: schema.BySegmenter}
	want(t, "a plan that takes any", len(c.run(t, "- dense").Trace), 1)
	got := c.run(t, stages)
	want(t, "what it finds", len(got.Candidates), len(figure9))
	if r := got.Trace[0]; len(got.Trace) != 2 || r.Stage != "segmentation" || !strings.Contains(r.Why, "cut by segmenter,coarse_tokens=400") ||
		!strings.Contains(r.Why, "meant for sentences,sentences=3,max_tokens=400") {
		t.Errorf("it says %+v", got.Trace)
	}
}

// TestAQueryBringsAPlan: the query's plan runs instead of the engine's, under its own name.
func TestAQueryBringsAPlan(t *testing.T) {
	c := ranked(figure9)
	got := c.run(t, "- dense", func(q *wire.SearchQuery) {
		q.Plan, q.PlanText = "p", "name: brought\nstages:\n- dense\n- limit: {k: 2}"
	})
	want(t, "the plan", got.Plan, "brought")
	want(t, "what it chose", len(got.Context), 2)
	_, err := c.tryRun(t, "- dense", func(q *wire.SearchQuery) { q.PlanText = "name: brought\nstages:\n- dense: {k: 0}" })
	var field *schema.FieldError
	if !errors.As(err, &field) || field.Field != "stages[0].dense.k" {
		t.Errorf("a wrong one gave %v", err)
	}
}
