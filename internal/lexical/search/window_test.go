package search

// Searches that skip whole blocks, windows or segments, compared with the oracle. Blocks have the
// real size, and there is enough text to skip.

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/schema"
)

var nested = []schema.Unit{schema.UnitPassage, schema.UnitSection, schema.UnitDocument}

// randomDocuments returns documents with words that are frequent, rare, or frequent in a few
// places. Many passages have the same terms and the same length.
func randomDocuments(r *rand.Rand, s *corpus, documents int) (docs []segment.VersionText) {
	for range documents {
		doc := segment.VersionText{Entry: s.id(0), Version: s.id(uint8(r.IntN(256))), Title: []string{"title"}}
		if r.IntN(3) == 0 {
			doc.Labels = []string{groups[r.IntN(2)]}
		}
		for range 1 + r.IntN(3) {
			var section [][]string
			for range 1 + r.IntN(6) {
				passage := slices.Repeat([]string{"filler"}, r.IntN(4)*3)
				for word, times := range map[string]int{"often": 2, "half": 2, "some": 8, "few": 40, "rare": 300} {
					if r.IntN(times) == 0 {
						passage = append(passage, slices.Repeat([]string{word}, 1+r.IntN(3)/2)...)
					}
				}
				if r.IntN(200) == 0 {
					passage = append(passage, slices.Repeat([]string{"rare"}, 9)...)
				}
				section = append(section, passage)
			}
			doc.Sections = append(doc.Sections, section)
		}
		docs = append(docs, doc)
	}
	return docs
}

var wordyQueries = [][]string{
	{"often"}, {"rare"}, {"rare", "often"}, {"few", "half", "often"}, {"some", "few", "rare", "often", "half"},
	{"rare", "rare", "title"}, {"absent", "some"},
}

// check compares the results of some queries with the oracle, first without cached statistics and
// then with them. It returns how many blocks were skipped.
func (s *corpus) check(t *testing.T, q lexical.TermQuery, k ...int) (pruned int) {
	t.Helper()
	known := NewStatisticsCache()
	for _, q.Terms = range wordyQueries {
		for _, q.Unit = range nested {
			want, st := s.oracle.ranking(q)
			for _, q.K = range k {
				v := s.view(q)
				v.Statistics = known
				got, err := v.Search(q)
				if err != nil {
					t.Fatal(err)
				}
				if why := diffHits(want, st, q.K, got); why != "" {
					t.Errorf("%d %ss of %q for %q, %d segments: %s", q.K, q.Unit, q.Terms, q.Groups, len(s.segments), why)
				}
				pruned += got.Pruned
			}
		}
	}
	return pruned
}

func TestWhatIsPassedOverIsNotAmongTheBest(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	s := newCorpus(t, segment.DefaultLayout)
	docs := randomDocuments(r, s, 2000)
	s.add(docs...)
	// The last k is more than there are units.
	if pruned := s.check(t, lexical.TermQuery{}, 1, 10, 100, 50_000); pruned < 200 {
		t.Errorf("%d blocks were passed over: too few to tell", pruned)
	}
	s.check(t, lexical.TermQuery{Settings: lexical.Settings{K1: 2, B: 0}}, 10)
}

func TestDeadEntriesInBlocksThatArePassedOver(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	s := newCorpus(t, segment.DefaultLayout)
	s.add(randomDocuments(r, s, 1500)...)
	// The documents that score best are dead, so that bounds are of missing units, and so is every
	// fourth of the others.
	best, _ := s.oracle.search(lexical.TermQuery{Unit: schema.UnitDocument, Terms: []string{"rare", "few"}})
	slices.SortFunc(best, func(a, b lexical.Hit) int { return -compareFloats(a.Score, b.Score) })
	removed := map[uuid.UUID]bool{}
	for _, h := range best[:20] {
		removed[h.Ref.Version] = true
	}
	for i := len(s.oracle.documents) - 1; i >= 0; i-- {
		if removed[s.oracle.documents[i].Version] || r.IntN(4) == 0 {
			s.markDead(i)
		}
	}
	s.check(t, lexical.TermQuery{Groups: []string{"green"}}, 1, 10, 100)
}

func TestManySegmentsFindWhatOneFinds(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	s := newCorpus(t, segment.DefaultLayout)
	for i := range 40 {
		s.add(randomDocuments(r, s, 1+i*i/20)...) // of different sizes
	}
	for i := 0; i < len(s.oracle.documents); i += 7 {
		s.markDead(i)
	}
	s.check(t, lexical.TermQuery{Groups: []string{"red"}}, 1, 10, 100)
}

// TestTiesComeInTheOrderOfTheirNames has thousands of units with the same score, in blocks with the
// same bounds. The first by id must be found.
func TestTiesComeInTheOrderOfTheirNames(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 10))
	s := newCorpus(t, segment.DefaultLayout)
	for range 3 {
		var docs []segment.VersionText
		for range 1000 {
			docs = append(docs, segment.VersionText{Entry: s.id(0), Version: s.id(uint8(r.IntN(256))), Sections: [][][]string{{{"often", "some"}}, {{"some", "often"}}}})
		}
		s.add(docs...)
	}
	s.check(t, lexical.TermQuery{}, 1, 7, 100, 2500)
}

func TestThresholds(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 12))
	for _, k := range []int{1, 2, 10, 100, 5000} {
		for _, different := range []int{1, 3, 1000, 1 << 40} {
			t.Run(fmt.Sprintf("k=%d,scores=%d", k, different), func(t *testing.T) {
				var kept top
				kept.reset(k, score(different))
				kept.ordered = func(a, b foundUnit) int { return int(a.unit) - int(b.unit) }
				var all []foundUnit
				for _, unit := range r.Perm(20_000) {
					p := foundUnit{score: score(1 + r.IntN(different)), unit: uint32(unit)}
					all = append(all, p)
					if p.score >= kept.threshold {
						kept.add(p)
					}
				}
				kept.sort()
				slices.SortFunc(all, func(a, b foundUnit) int {
					if a.score != b.score {
						return int(b.score - a.score)
					}
					return int(a.unit) - int(b.unit)
				})
				if !slices.Equal(kept.units, all[:k]) {
					t.Errorf("%d places, not the best", len(kept.units))
				}
			})
		}
	}
}

// TestListsThatAreNotRemembered has lists with more blocks than are copied, and more lists than fit
// into the cache.
func TestListsThatAreNotRemembered(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(13, 14))
	s := newCorpus(t, segment.Layout{Block: 4, Target: 256, Limit: 384, Room: 64})
	s.add(randomDocuments(r, s, 200)...)
	s.add(randomDocuments(r, s, 3)...)
	s.check(t, lexical.TermQuery{}, 10)
	v := s.view(lexical.TermQuery{Terms: []string{"often", "rare"}})
	live := newLiveEntries(v)
	for term, large := range map[string]bool{"often": true, "rare": false} {
		lists, err := v.findTerm(term, live)
		if err != nil {
			t.Fatal(err)
		}
		if got := lists.lists[0].large; got != large {
			t.Errorf("the list of %s is large: %t", term, got)
		}
	}
	c := NewStatisticsCache()
	for i := range 3 * maxTermLists / 100_000 {
		c.cacheLists(fmt.Sprint(i), &termLists{packed: make([]byte, 100_000)})
		if got := c.Bytes(); got > maxTermLists {
			t.Fatalf("%d bytes are remembered", got)
		}
	}
	if got := c.Bytes(); got == 0 || got != c.termBytes {
		t.Errorf("%d bytes are counted, %d of terms", got, c.termBytes)
	}
}

// TestKnownListsNeedNoPages searches views that have only the pages of terms whose lists are not
// cached.
func TestKnownListsNeedNoPages(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(15, 16))
	s := newCorpus(t, segment.Layout{Block: 4, Target: 256, Limit: 384, Room: 64})
	s.add(randomDocuments(r, s, 200)...)
	s.add(randomDocuments(r, s, 20)...)
	q := lexical.TermQuery{Unit: schema.UnitSection, Terms: []string{"often", "few", "absent"}, K: 10}
	v := s.view(q)
	v.Statistics = NewStatisticsCache()
	if known, missing := v.Statistics.cachedLists(q.Terms); len(known) > 0 || !slices.Equal(missing, q.Terms) {
		t.Fatalf("%d terms are known before the first search, and not %q", len(known), missing)
	}
	if _, err := v.Search(q); err != nil {
		t.Fatal(err)
	}
	known, missing := v.Statistics.cachedLists(q.Terms)
	if len(known) != 2 || !slices.Equal(missing, []string{"often"}) { // it has too many blocks
		t.Fatalf("%d terms are known, and not %q", len(known), missing)
	}
	less := s.view(lexical.TermQuery{Terms: missing})
	less.lists, less.Statistics = known, v.Statistics
	clear(less.Statistics.terms) // as if other lists had been cached meanwhile
	got, err := less.Search(q)
	if err != nil {
		t.Fatal(err)
	}
	if why := s.oracle.diff(q, got); why != "" {
		t.Error(why)
	}
}
