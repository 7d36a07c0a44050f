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
	// spare is how many places more than twice the wanted ones are collected
	// before the worst are let go of.
	spare = 1024
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
	k      int
	places []foundUnit
	// ordered is the order of ties.
	ordered func(a, b foundUnit) int
	// least is the score below which nothing is kept.
	least score

	shift  int            // a level is so many bits of a score
	level  int            // the lowest that is needed
	enough int            // places at it and above
	last   foundUnit      // the worst of the k best when some were let go of last; zero: never
	counts [levels]uint32 // places by level
}

// start begins to collect the k best of places of at most some score.
func (t *top) start(k int, highest score) {
	t.k, t.places, t.least = k, t.places[:0], 0
	t.shift = max(0, bits.Len64(uint64(highest))-bits.Len(levels-1))
	t.level, t.enough, t.last = 0, 0, foundUnit{}
	clear(t.counts[:])
	if k == 0 {
		t.least = math.MaxInt64
	}
}

// offer takes a place that has the least score or more.
func (t *top) offer(p foundUnit) {
	if p.score == t.last.score && t.ordered(t.last, p) < 0 {
		return
	}
	if len(t.places) >= 2*t.k+spare {
		t.cut()
		if p.score < t.least {
			return
		}
	}
	t.places = append(t.places, p)
	t.count(p)
	t.raise()
}

func (t *top) count(p foundUnit) {
	level := min(int(p.score>>t.shift), levels-1)
	t.counts[level]++
	if level >= t.level {
		t.enough++
	}
}

// raise leaves out the levels that are not needed.
func (t *top) raise() {
	if t.enough < t.k {
		return
	}
	for t.enough-int(t.counts[t.level]) >= t.k {
		t.enough -= int(t.counts[t.level])
		t.level++
	}
	t.least = max(t.least, score(t.level)<<t.shift)
}

// cut lets go of all but the k best.
func (t *top) cut() {
	t.sort()
	t.last = t.places[len(t.places)-1]
	t.least = max(t.least, t.last.score)
	t.level, t.enough = 0, 0
	clear(t.counts[:])
	for _, p := range t.places {
		t.count(p)
	}
	t.raise()
}

// sort keeps the k best, best first.
func (t *top) sort() {
	t.places = slices.DeleteFunc(t.places, func(p foundUnit) bool { return p.score < t.least })
	slices.SortFunc(t.places, func(a, b foundUnit) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return t.ordered(a, b)
	})
	t.places = t.places[:min(len(t.places), t.k)]
}
