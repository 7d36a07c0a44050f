package run_test

import (
	"math"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema"
)

// Terms of the field identity begin with a byte that distinguishes them from words.
func identityQueries(c *scriptedCorpus) (out []lexical.TermQuery) {
	for _, q := range c.queries {
		if len(q.Terms) > 0 && q.Terms[0][0] == 1 {
			out = append(out, q)
		}
	}
	return out
}

func TestTheFieldOfIdentityIsSearchedByNames(t *testing.T) {
	c := corpus([]int{1}, []int{1})
	c.lexical[doc(1)] = 3
	got := c.run(t, "- lexical: {unit: document, field: identity}")
	want(t, "documents", places(got), []string{"b"})
	queries := identityQueries(c)
	if len(queries) != 1 || queries[0].Unit != schema.UnitDocument || queries[0].Settings != (lexical.Settings{K1: 1.2}) {
		t.Fatalf("asked with %+v", c.queries)
	}
	if got.Candidates[0].Scores["lexical.identity"] != 3 {
		t.Errorf("scores are %v", got.Candidates[0].Scores)
	}
}

// A name that many documents have weighs little, even if no document has a rarer one.
func TestACommonNameWeighsLessThanTheBest(t *testing.T) {
	plan := "- hybrid: {k: 9, of: [{lexical: {unit: document, field: identity, weight: 2}}]}"
	full := lexical.IDF(7, 1) // of the seven units that the script counts
	for _, best := range []float64{full / 4, full, 4 * full} {
		c := corpus([]int{1}, []int{1})
		c.lexical[doc(0)], c.lexical[doc(1)] = best, best/2
		got := c.run(t, plan)
		share := min(1, best/full)
		for i, place := range []string{"a/0/0", "b/0/0"} {
			expected := 2 * share / float64(i+1)
			if p := got.Candidates[i]; places(got)[i] != place || math.Abs(p.Score-expected) > 1e-9 {
				t.Errorf("best score %g: candidate %d is %s with %g, want %s with %g", best, i, places(got)[i], p.Score, place, expected)
			}
		}
	}
}

// The passages of a document that the question names are candidates even if passages of others are
// better.
func TestANamedDocumentIsSearchedByItself(t *testing.T) {
	c := corpus([]int{5}, []int{2}, []int{1})
	for p := range 5 {
		c.lexical[passage(0, 0, p)] = 10 + float64(p)
	}
	c.lexical[passage(1, 0, 1)] = 1
	c.lexical[doc(0)], c.lexical[doc(1)] = 0.1, 5
	got := c.run(t, "- hybrid: {k: 9, depth: 2, of: [{lexical: {unit: document, field: identity, weight: 9}}, {lexical: {weight: 1}}]}")
	want(t, "the first", places(got)[0], "b/0/1")
}

func TestOnlyAPlanThatSearchesByNamesLooksThemUp(t *testing.T) {
	c := corpus([]int{1})
	c.lexical[doc(0)] = 1
	for plan, want := range map[string]bool{"- lexical: {unit: document}": false, "- lexical: {unit: document, field: identity}": true,
		"- hybrid: {unit: document, of: [{lexical: {unit: document}}, {lexical: {unit: document, field: identity}}]}": true} {
		c.opened = nil
		c.run(t, plan)
		if len(c.opened) == 0 || slices.ContainsFunc(c.opened[0].Terms, func(s string) bool { return s[0] == 1 }) != want {
			t.Errorf("%s opens the index with %+v", plan, c.opened)
		}
	}
}
