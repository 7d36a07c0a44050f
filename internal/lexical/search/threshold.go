package search

// The best units so far, and the score that another one has to reach.

import (
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
)

const (
	// levels is how many levels of scores are counted.
	levels = 1024
	// maxSurplus is how many units more than 2k are collected before all but the k best are
	// dropped.
	maxSurplus = 1024
)

// foundUnit is a unit of a segment, or a cluster by its number, with its score.
type foundUnit struct {
	score   score
	segment int32
	unit    uint32
}

// top collects the k best units. It counts them by level of score instead of keeping a heap: the
// threshold is the lowest level at and above which there are k units.
type top struct {
	k     int
	units []foundUnit
	// ordered is the order of ties.
	ordered func(a, b foundUnit) int
	// threshold is the score below which units are dropped.
	threshold score
	// shared has what the parts of a search know together, each with its own best units; nil when
	// there is one part.
	shared *sharedLevels
	shares int // calls of share

	shift   int            // from a score to its level
	level   int            // of the threshold
	reached int            // units at level and above
	last    foundUnit      // the worst of the k best at the last prune; zero: none
	counts  [levels]uint32 // units by level
}

// reset prepares for the k best of units that score at most highest.
func (t *top) reset(k int, highest score) {
	t.k, t.units, t.threshold = k, t.units[:0], 0
	t.shift = max(0, bits.Len64(uint64(highest))-bits.Len(levels-1))
	t.level, t.reached, t.last = 0, 0, foundUnit{}
	clear(t.counts[:])
	if k == 0 {
		t.threshold = math.MaxInt64
	}
}

// add adds a unit that scores the threshold or more.
func (t *top) add(p foundUnit) {
	if p.score == t.last.score && t.ordered(t.last, p) < 0 {
		return
	}
	if len(t.units) >= 2*t.k+maxSurplus {
		t.prune()
		if p.score < t.threshold {
			return
		}
	}
	t.units = append(t.units, p)
	t.count(p)
	if t.shared != nil {
		t.shared[t.levelOf(p)].Add(1)
	}
	t.raiseThreshold()
}

func (t *top) levelOf(p foundUnit) int { return min(int(p.score>>t.shift), levels-1) }

func (t *top) count(p foundUnit) {
	level := t.levelOf(p)
	t.counts[level]++
	if level >= t.level {
		t.reached++
	}
}

// raiseThreshold raises the threshold to the highest level that leaves k units.
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

// prune drops all but the k best.
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

// sharedLevels counts the units that all parts of a search have added, by level of score.
type sharedLevels [levels]atomic.Uint32

// shareEvery is after how many windows a part reads the levels of all.
const shareEvery = 16

// share raises the threshold to the highest level at and above which all parts together have k
// units. It is called for each window.
func (t *top) share() {
	if t.shared == nil {
		return
	}
	if t.shares++; t.shares%shareEvery != 0 {
		return
	}
	reached, lowest := 0, int(t.threshold>>t.shift)
	for level := levels - 1; level > lowest; level-- {
		if reached += int(t.shared[level].Load()); reached >= t.k {
			t.threshold = score(level) << t.shift
			return
		}
	}
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
