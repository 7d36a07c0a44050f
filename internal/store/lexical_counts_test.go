package store_test

import (
	"github.com/sluice-rag/sluice/internal/retrieval/plan"

	"github.com/sluice-rag/sluice/internal/retrieval/run"

	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// counts returns the counts of terms as p sees them.
func counts(t *testing.T, x *search.Index, f *fixture, p schema.Principal, most int, terms ...string) map[string]int {
	t.Helper()
	q := lexical.TermQuery{Unit: schema.UnitSection, Terms: terms, Settings: lexical.Defaults, Groups: p.Groups}
	s, err := x.Open(t.Context(), p.Tenant, f.collection, q)
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.Counts(q, most)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCountsAreOfWhatTheAskerSees compares them with a count over the texts, with several segments,
// deleted documents and documents with any labels.
func TestCountsAreOfWhatTheAskerSees(t *testing.T) {
	f := setUp(t, store.Options{})
	x := newIndex(f)
	r := rand.New(rand.NewPCG(7, 7))
	terms := []string{"heron", "crane", "stork", "egret"}
	var all []*written
	for batch := range 6 {
		var list []*written
		for i := range 20 {
			w := &written{name: fmt.Sprint(batch, "-", i), title: terms[r.IntN(4)]}
			var sections []string
			for range 1 + r.IntN(4) {
				var passages []string
				for range 1 + r.IntN(3) {
					passages = append(passages, terms[r.IntN(4)])
				}
				sections = append(sections, strings.Join(passages, "/"))
			}
			w.body = strings.Join(sections, "|")
			if n := r.IntN(3); n > 0 {
				w.labels = []string{[]string{"hr", "legal"}[n-1]}
			}
			list = append(list, w)
		}
		f.write(t, f.a, f.collection, list...)
		all = append(all, list...)
	}
	for range 20 {
		i := r.IntN(len(all))
		if err := f.DeleteDocument(t.Context(), f.a, all[i].id); err != nil {
			t.Fatal(err)
		}
		all = slices.Delete(all, i, i+1)
	}
	for _, groups := range [][]string{nil, {"hr"}, {"legal"}, {"hr", "legal"}, {"other"}} {
		want := map[string]int{"albatross": 0}
		for _, w := range all {
			if len(w.labels) > 0 && !slices.Contains(groups, w.labels[0]) {
				continue
			}
			for _, section := range strings.Split(w.body, "|") {
				for _, term := range terms {
					if strings.Contains(section, term) {
						want[term]++
					}
				}
			}
		}
		for _, most := range []int{1, 5, 1000} {
			got := counts(t, x, f, f.reader(groups...), most, append(slices.Clone(terms), "albatross", "heron")...)
			for term, n := range want {
				if got[term] != min(n, most) {
					t.Errorf("groups %v: %d sections have %s, want %d, at most %d", groups, got[term], term, n, most)
				}
			}
		}
	}
}

// TestSpellingTellsNothingOfHiddenText: the output for a key's words is the same whether or not
// documents that it may not see contain them.
func TestSpellingTellsNothingOfHiddenText(t *testing.T) {
	f := setUp(t, store.Options{})
	f.write(t, f.a, f.collection, &written{name: "open", body: "heron"},
		&written{name: "secret", body: "garrison|garrison/heron", labels: []string{"legal"}})
	catalogue, err := plan.LoadCatalogue(fstest.MapFS{"p.yaml": {Data: []byte("name: p\nstages:\n- spell\n- lexical\n- proximity\n")}}, "p")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := run.NewEngine(catalogue, retrieval.Sources{Lexical: newIndex(f), Texts: f.SearchStore})
	if err != nil {
		t.Fatal(err)
	}
	score := regexp.MustCompile(`[0-9]+\.[0-9]+`)
	searchNotes := func(p schema.Principal, question string) (notes string) {
		t.Helper()
		r, err := engine.Run(t.Context(), wire.SearchQuery{Principal: p, Query: schema.Query{Collection: f.collection, Text: question, Explain: true}})
		if err != nil {
			t.Fatal(err)
		}
		for _, stage := range r.Trace {
			notes += fmt.Sprintln(stage.Stage, stage.Unit, stage.In, stage.Out, stage.Why, stage.Statistics, len(stage.Kept), len(stage.Dropped))
		}
		return score.ReplaceAllString(notes, "score") // scores may depend on all text
	}
	// A word, and a misspelling of it, that only a hidden document has, and ones that no document
	// has.
	for _, pair := range [][2]string{{"garrison", "bollards"}, {"garrsion", "bolalrds"}, {"heron garrison", "heron bollards"}} {
		hidden, missing := searchNotes(f.reader(), pair[0]), searchNotes(f.reader(), pair[1])
		if hidden != missing {
			t.Errorf("%q and %q are told apart:\n%s%s", pair[0], pair[1], hidden, missing)
		}
	}
	if notes := searchNotes(f.reader("legal"), "garrsion"); !strings.Contains(notes, "1 words are in no document; 1 are taken for others") {
		t.Errorf("who may see the word is told:\n%s", notes)
	}
}
