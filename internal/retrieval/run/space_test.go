package run_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/schema"
)

// townCorpus are passages that words and vectors rank differently.
func townCorpus() *scriptedCorpus {
	c := corpus([]int{2, 1}, []int{1}, []int{1})
	for r, x := range map[lexical.Ref]float64{
		passage(0, 0, 0): 1, passage(0, 0, 1): 3, passage(0, 1, 0): 2, passage(1, 0, 0): 2.5,
		section(0, 0): 4, section(1, 0): 5, doc(0): 6, doc(1): 7,
	} {
		c.lexical[r] = x
	}
	for i, r := range []lexical.Ref{passage(2, 0, 0), passage(0, 0, 0), passage(0, 1, 0), passage(1, 0, 0), passage(0, 0, 1)} {
		c.dense[r] = 0.9 - 0.1*float64(i)
	}
	return c
}

// TestVectorsOfAnotherSpaceAreNotCompared: a collection with another encoder's vectors is searched
// by BM25, and the trace says so.
func TestVectorsOfAnotherSpaceAreNotCompared(t *testing.T) {
	for name, c := range map[string]struct {
		stages, same string // what gives the same ranking in a collection of the question's space
		reported     bool
	}{
		"vectors alone":             {"- dense", "- lexical", true},
		"of larger units":           {"- dense: {unit: document}", "- lexical: {unit: document}", true},
		"behind others":             {"- lexical: {unit: section}\n- zoom: {to: passage}\n- dense", "- lexical: {unit: section}\n- zoom: {to: passage}\n- lexical", true},
		"with words":                {"- hybrid: {of: [{lexical: {}}, {dense: {weight: 9}}]}", "- hybrid: {of: [{lexical: {}}]}", true},
		"with words of other units": {"- hybrid: {of: [{lexical: {unit: section}}, {dense: {weight: 9}}]}", "- hybrid: {of: [{lexical: {unit: section}}]}", true},
		"without words":             {"- hybrid: {of: [{dense: {}}]}", "- hybrid: {of: [{lexical: {}}]}", true},
		"by ranks":                  {"- hybrid: {method: rrf, of: [{lexical: {}}, {dense: {weight: 9}}]}", "- hybrid: {method: rrf, of: [{lexical: {}}]}", true},
		"words alone":               {"- lexical", "- lexical", false},
	} {
		t.Run(name, func(t *testing.T) {
			same := townCorpus()
			wanted := same.run(t, c.same)
			other := townCorpus()
			other.space = "other"
			got := other.run(t, c.stages)
			want(t, "what it finds", places(got), places(wanted))
			want(t, "searches by vectors", len(other.nearest), 0)
			reported := got.Trace[0].Stage == schema.StageVectors && strings.Contains(got.Trace[0].Why, "space other") &&
				strings.Contains(got.Trace[0].Why, "space scripted") && strings.Contains(got.Trace[0].Why, "sluice collections rebuild")
			if reported != c.reported {
				t.Errorf("the trace says %+v", got.Trace)
			}
		})
	}
}

// TestASpaceThatChangesMeanwhileIsAnError: the source of vectors checks the space again.
func TestASpaceThatChangesMeanwhileIsAnError(t *testing.T) {
	c := townCorpus()
	c.called = func(calls int) {
		if calls == 1 { // after the run has read the state
			c.space = "other"
		}
	}
	_, err := c.tryRun(t, "- dense")
	var space *retrieval.SpaceError
	if !errors.As(err, &space) || !strings.Contains(err.Error(), "sluice collections rebuild") {
		t.Errorf("got %v", err)
	}
}
