package run_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/schema"
)

// flippingPlan is a plan that uses every source.
const flippingPlan = `
- lexical: {unit: cluster, k: 5}
- hybrid: {of: [{lexical: {unit: document}}, {lexical: {}}, {dense: {}}]}
- dedupe: {cosine: 0.9}
- limit: {k: 3}
`

// reading is a plan whose stages have models read.
const reading = `
- lexical: {unit: document, k: 5}
- score: {}
- zoom: {to: passage}
- score: {weight: 0.5}
- fuse: {keep: 0}
- relate: {k: 1}
- dedupe: {cosine: 0.9}
- reduce: {most: 3}
`

// rebuilt segments the document of a corpus again: passages of the same numbers have other text,
// and the vectors and the index rank others first.
func rebuilt(c *scriptedCorpus) {
	c.flips++
	c.documents[0].sections = [][]string{{"Text n 0 0. ", "Text n 0 1. ", "Text n 0 2. "}}
	for p := range 3 {
		c.dense[passage(0, 0, p)], c.lexical[passage(0, 0, p)] = float64(1+p)/4, float64(1+p)
		c.vectors[passage(0, 0, p)] = []float32{float32(p)}
	}
}

func flippingCorpus() *scriptedCorpus {
	c := corpus([]int{2})
	c.clusters[section(0, 0)] = clusterID(0)
	c.byCluster[clusterID(0)] = 1
	c.lexical = map[lexical.Ref]float64{doc(0): 1, passage(0, 0, 0): 2, passage(0, 0, 1): 1}
	c.dense = map[lexical.Ref]float64{passage(0, 0, 0): 0.9, passage(0, 0, 1): 0.5}
	c.vectors = map[lexical.Ref][]float32{passage(0, 0, 0): {1}, passage(0, 0, 1): {0}}
	c.readers = everyOp(func(text string) float32 { return float32(len(text)) / 100 })
	c.links = scriptedLinks{passage(0, 0, 0): {{To: passage(0, 0, 1), Weight: 0.5}}}
	return c
}

// TestARunSeesOneGeneration: whenever another generation becomes live, the result is entirely from
// the old one or entirely from the new one.
func TestARunSeesOneGeneration(t *testing.T) {
	for _, plan := range []string{flippingPlan, reading} {
		old := flippingCorpus()
		before := places(old.run(t, plan))
		fresh := flippingCorpus()
		rebuilt(fresh)
		after := places(fresh.run(t, plan))
		if slices.Equal(before, after) || len(before) == 0 || old.calls < 6 {
			t.Fatalf("%d calls found %v and, of the new generation, %v: nothing to tell apart", old.calls, before, after)
		}
		for at := range old.calls {
			c := flippingCorpus()
			c.called = func(n int) {
				if n == at {
					rebuilt(c)
				}
			}
			if got := places(c.run(t, plan)); !slices.Equal(got, after) {
				t.Errorf("flipped before call %d, it found %v, not %v (runs of generations %v)", at, got, after, c.places)
			}
		}
	}
}

func TestARunGivesUpOnACorpusThatFlipsForEver(t *testing.T) {
	c := flippingCorpus()
	c.called = func(int) { c.flips++ }
	_, err := c.tryRun(t, flippingPlan)
	var flipped *retrieval.GenerationError
	if !errors.As(err, &flipped) || !errors.Is(err, schema.ErrUnavailable) || len(c.places) != 3 {
		t.Errorf("after %d runs: %v, not a GenerationError after 3", len(c.places), err)
	}
}

// An index of another generation than the run's is opened again even if it finds nothing: the terms
// were made for the old one's language.
func TestAnIndexOfAnotherGenerationIsNotSearched(t *testing.T) {
	c := corpus([]int{1})
	c.called = func(n int) {
		if n == 1 { // between the place and the index
			c.flips++
		}
	}
	if c.run(t, "- lexical\n"); !slices.Equal(c.places, []int{1, 2}) {
		t.Errorf("runs were of generations %v", c.places)
	}
}
