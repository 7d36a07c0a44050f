package search

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/schema"
)

// TestConcurrentPartsFindWhatOneFinds divides searches, several at a time, of several segments.
func TestConcurrentPartsFindWhatOneFinds(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(23, 24))
	s := newCorpus(t, segment.Layout{Block: 4, Target: 256, Limit: 384, Room: 64})
	for _, n := range []int{300, 40, 5} {
		s.add(randomDocuments(r, s, n)...)
	}
	for range 30 {
		s.markDead(r.IntN(len(s.oracle.documents)))
	}
	var searches sync.WaitGroup
	defer searches.Wait()
	for _, unit := range []schema.Unit{schema.UnitPassage, schema.UnitSection, schema.UnitDocument} {
		for parts := 1; parts <= 5; parts++ {
			q := lexical.TermQuery{Unit: unit, Terms: []string{"often", "few", "rare", "absent"}, K: 1 + 15*(parts%2)}
			v := s.view(q)
			v.parts = parts
			searches.Go(func() {
				for range 3 {
					got, err := v.Search(q)
					why := fmt.Sprint(err)
					if err == nil {
						why = s.oracle.diff(q, got)
					}
					if why != "" {
						t.Errorf("%s in %d parts: %s", unit, parts, why)
					}
				}
			})
		}
	}
}

// TestPartsShareTheirThreshold: it is that of the k best units of all parts, in steps of a level.
func TestPartsShareTheirThreshold(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(21, 22))
	const k, highest = 50, 1 << 40
	var shared sharedLevels
	parts := make([]top, 3)
	var all []score
	for i := range parts {
		p := &parts[i]
		p.reset(k, highest)
		p.ordered, p.shared = func(a, b foundUnit) int { return cmp.Compare(a.unit, b.unit) }, &shared
	}
	for unit := range uint32(3000) {
		p := &parts[unit%3]
		n := score(r.Int64N(highest))
		all = append(all, n)
		if n >= p.threshold {
			p.add(foundUnit{score: n, unit: unit})
		}
	}
	slices.SortFunc(all, func(a, b score) int { return cmp.Compare(b, a) })
	for i := range parts {
		p := &parts[i]
		own := p.threshold
		for range shareEvery {
			p.share()
		}
		want := all[k-1] >> p.shift << p.shift
		if p.threshold != want || own >= want {
			t.Errorf("part %d: the threshold is %d, and was %d; want %d, of the best %d of all", i, p.threshold, own, want, k)
		}
	}
}
