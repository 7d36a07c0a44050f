package search

// The best places so far, and the score that another one has to reach.

import (
	"math"
	"math/bits"
	"slices"
)

const (
	// levels is how many levels of scores are told apart while places are
	// collected.
	levels = 1024
	// surplus is how many places more than twice the wanted ones are collected
	// before the worst are let go of.
	surplus = 1024
)

// foundUnit is a unit that is found: of a segment, or a cluster by its number.
type foundUnit struct {
	score   score
	segment int32
	unit    uint32
}

// top collects the best places. It counts them by level of score rather than
// keep them in order: the score to beat is that of the lowest level that is
// needed to have enough.
type top struct {
	k     int
	units []foundUnit
	// ordered is the order of ties.
	ordered func(a, b foundUnit) int
	// threshold is the score below which nothing is kept.
	threshold score

	shift   int            // a level is so many bits of a score
	level   int            // the lowest that is needed
	reached int            // places at it and above
	last    foundUnit      // the worst of the k best when some were let go of last; zero: never
	counts  [levels]uint32 // places by level
}

// reset begins to collect the k best of places of at most some score.
func (t *top) reset(k int, highest score) {
	t.k, t.units, t.threshold = k, t.units[:0], 0
	t.shift = max(0, bits.Len64(uint64(highest))-bits.Len(levels-1))
	t.level, t.reached, t.last = 0, 0, foundUnit{}
	clear(t.counts[:])
	if k == 0 {
		t.threshold = math.MaxInt64
	}
}

// add takes a place that has the least score or more.
func (t *top) add(p foundUnit) {
	if p.score == t.last.score && t.ordered(t.last, p) < 0 {
		return
	}
	if len(t.units) >= 2*t.k+surplus {
		t.prune()
		if p.score < t.threshold {
			return
		}
	}
	t.units = append(t.units, p)
	t.count(p)
	t.raiseThreshold()
}

func (t *top) count(p foundUnit) {
	level := min(int(p.score>>t.shift), levels-1)
	t.counts[level]++
	if level >= t.level {
		t.reached++
	}
}

// raiseThreshold leaves out the levels that are not needed.
func (t *top) raiseThreshold() {
	if t.reached < t.k {
		return
	}
	for t.reached-int(t.counts[t.level]) >= t.k {
		t.reached -= int(t.counts[t.level])
		t.level++
	}
	t.threshold = max(t.threshold, score(t.level)<<t.shift)
}

// prune lets go of all but the k best.
func (t *top) prune() {
	t.sort()
	t.last = t.units[len(t.units)-1]
	t.threshold = max(t.threshold, t.last.score)
	t.level, t.reached = 0, 0
	clear(t.counts[:])
	for _, p := range t.units {
		t.count(p)
	}
	t.raiseThreshold()
}

// sort keeps the k best, best first.
func (t *top) sort() {
	t.units = slices.DeleteFunc(t.units, func(p foundUnit) bool { return p.score < t.threshold })
	slices.SortFunc(t.units, func(a, b foundUnit) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return t.ordered(a, b)
	})
	t.units = t.units[:min(len(t.units), t.k)]
}
