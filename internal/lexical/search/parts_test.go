package search

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

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
