package run_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/retrieval/run"
	"github.com/sluice-rag/sluice/schema"
)

// words is a plan without models.
const words = `
- lexical: {unit: passage, k: 5}
- limit: {k: 3}
`

// newSteadyCorpus is a corpus with a passage, and a search of it by the plan words that returns the
// number of calls of sources.
func newSteadyCorpus(t *testing.T) (c *scriptedCorpus, search func() (run.Result, int)) {
	t.Helper()
	c = corpus([]int{2})
	c.revision = 7
	c.lexical = map[lexical.Ref]float64{passage(0, 0, 0): 2}
	e := c.engine(t, words)
	q := query()
	q.Documents, q.Explain = 0, false
	return c, func() (run.Result, int) {
		t.Helper()
		before := c.calls
		found, err := e.Run(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return found, c.calls - before
	}
}

// TestASteadyCollectionIsAskedOnce: if two loads of a collection's state agreed, a search loads
// only the texts.
func TestASteadyCollectionIsAskedOnce(t *testing.T) {
	c, search := newSteadyCorpus(t)
	for i, want := range []int{3, 3, 1, 1} { // place, index and texts; then texts
		if _, calls := search(); calls != want {
			t.Errorf("search %d made %d calls, not %d", i+1, calls, want)
		}
	}
	c.lexical = nil
	if found, calls := search(); calls != 1 || len(found.Candidates) != 0 {
		t.Errorf("a search that finds nothing made %d calls and found %d, not 1 and 0: it must ask whether there is nothing", calls, len(found.Candidates))
	}
}

// TestWhatHasChangedIsSearchedAnew: a search does not use an outdated state, whether the cache or
// the storage has the new one.
func TestWhatHasChangedIsSearchedAnew(t *testing.T) {
	for name, remembers := range map[string]bool{"memory is out of date": false, "another search has loaded it": true} {
		t.Run(name, func(t *testing.T) {
			c, search := newSteadyCorpus(t)
			for range 3 {
				search()
			}
			c.lexical = map[lexical.Ref]float64{passage(0, 0, 1): 2}
			if c.revision++; remembers {
				c.remembered = c.revision
			}
			opened := len(c.opened)
			found, _ := search()
			if len(found.Candidates) != 1 || len(c.opened) != opened+1 {
				t.Fatalf("found %d candidates and opened the index %d times, not 1 and once", len(found.Candidates), len(c.opened)-opened)
			}
			for i, want := range []int{3, 1} { // loaded once, then twice
				if _, calls := search(); calls != want {
					t.Errorf("search %d after the change made %d calls, not %d", i+1, calls, want)
				}
			}
		})
	}
}

// TestARebuiltCollectionIsNotTakenForGranted: whenever the generation changes while a search
// assumes another one, the search finds what a first search of the new one finds.
func TestARebuiltCollectionIsNotTakenForGranted(t *testing.T) {
	fresh := flippingCorpus()
	rebuilt(fresh)
	want := places(fresh.run(t, flippingPlan))
	for at := range 20 {
		c := flippingCorpus()
		c.revision = 7
		e := c.engine(t, flippingPlan)
		for range 2 {
			if _, err := e.Run(t.Context(), query()); err != nil {
				t.Fatal(err)
			}
		}
		first := c.calls
		c.called = func(n int) {
			if n == first+at {
				rebuilt(c)
				c.revision++
			}
		}
		found, err := e.Run(t.Context(), query())
		if c.called = nil; err != nil {
			t.Fatal(err)
		}
		if c.flips == 0 {
			if at < 3 {
				t.Fatalf("a search made %d calls: nothing to tell", at)
			}
			return
		}
		if got := places(found); !slices.Equal(got, want) {
			t.Errorf("changed before call %d, it found %v, not %v", at, got, want)
		}
	}
}

// TestAskersOfOtherGroupsTakeNothingForGranted: the state cached for one principal's groups is not
// used for other groups.
func TestAskersOfOtherGroupsTakeNothingForGranted(t *testing.T) {
	c := corpus([]int{2})
	c.revision = 7
	c.lexical = map[lexical.Ref]float64{passage(0, 0, 0): 2}
	e := c.engine(t, words)
	q := query()
	for range 3 {
		if _, err := e.Run(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	asked := len(c.places)
	q.Principal = schema.Principal{Groups: []string{"staff"}}
	if _, err := e.Run(t.Context(), q); err != nil || len(c.places) != asked+1 {
		t.Errorf("another asker's search gave %v and asked for the place %d times, not once", err, len(c.places)-asked)
	}
}

// TestAChangedCollectionIsUnavailable: callers that see the error may retry.
func TestAChangedCollectionIsUnavailable(t *testing.T) {
	if err := error(&retrieval.ChangedError{}); !errors.Is(err, schema.ErrUnavailable) {
		t.Errorf("%v is not unavailable", err)
	}
}
