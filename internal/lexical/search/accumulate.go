package search

import (
	"math/bits"

	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

// The scores of a window's units, summed term by term.

// runs are units with a term's frequencies in them, from consecutive postings.
type runs struct {
	units, frequencies [segment.BlockSize + 1]uint32
	n                  int
}

// add adds postings by their units. The first ones may belong to the last run.
func (r *runs) add(unitOf, slots, frequencies []uint32) {
	at, unit, sum := r.n-1, exhausted, uint32(0)
	if at >= 0 {
		unit, sum = r.units[at], r.frequencies[at]
	}
	frequencies = frequencies[:len(slots)]
	for i, slot := range slots {
		next := unitOf[slot]
		if next != unit {
			at++
			sum = 0
		}
		unit = next
		sum += frequencies[i]
		r.units[at], r.frequencies[at] = unit, sum
	}
	r.n = at + 1
}

// keepLast removes all runs but the last.
func (r *runs) keepLast() {
	r.units[0], r.frequencies[0] = r.units[r.n-1], r.frequencies[r.n-1]
	r.n = 1
}

// addAll adds a term's scores to all units that have it.
func (w *window) addAll(c *cursor) {
	r := &w.runs
	r.n = 0
	for c.at < len(c.blocks) && c.blocks[c.at].First < w.stop && c.unpack() {
		from, to := c.within(w.slot, w.stop)
		slots, frequencies := c.buffer.Slots[from:to], c.buffer.Frequencies[from:to]
		if w.unitOf == nil {
			w.add(c.weight, slots, frequencies)
		} else if r.add(w.unitOf, slots, frequencies); r.n > 1 {
			// The last run may continue in the next block.
			w.add(c.weight, r.units[:r.n-1], r.frequencies[:r.n-1])
			r.keepLast()
		}
		if !c.pass(to) {
			break
		}
	}
	w.add(c.weight, r.units[:r.n], r.frequencies[:r.n])
}

// pass moves past the current block's postings before to, and reports whether those were all.
func (c *cursor) pass(to int) (all bool) {
	if c.pos = to; to < c.buffer.N {
		return false
	}
	c.nextBlock()
	return true
}

// add adds a term's scores to units.
func (w *window) add(weight float64, units, frequencies []uint32) {
	scorer, base, lengths := w.s.scorer, w.base, w.lengths[w.base:w.end]
	frequencies = frequencies[:len(units)]
	for i, unit := range units {
		at := unit - base
		w.scores[at%windowUnits] += scorer.score(weight, frequencies[i], lengths[at])
		w.found[at%windowUnits/64] |= 1 << (at % 64)
	}
}

// addFound adds a term's scores to the found units that have it.
func (w *window) addFound(c *cursor) {
	r := &w.runs
	r.n = 0
	for at := w.nextFound(0); at < w.end-w.base; {
		first, end := w.directory.Slots(w.s.zoom, w.base+at)
		if !c.seekBlock(first) {
			return
		}
		b := &c.blocks[c.at]
		if b.First >= w.stop {
			return
		}
		if b.First >= end {
			at = w.nextFound(w.unit(b.First) - w.base)
			continue
		}
		if !c.unpackSlots() {
			return
		}
		from, to := c.within(first, w.stop)
		if w.unitOf == nil {
			w.addPostings(c, from, to)
		} else {
			c.unpack()
			r.add(w.unitOf, c.buffer.Slots[from:to], c.buffer.Frequencies[from:to])
		}
		all := c.pass(to)
		last := w.unit(b.Last) - w.base
		if w.unitOf != nil {
			if all && c.at < len(c.blocks) && w.unit(c.blocks[c.at].First)-w.base == last && w.has(last) {
				// The last run continues.
				w.addRuns(c.weight, r.units[:r.n-1], r.frequencies[:r.n-1])
				r.keepLast()
				at = last
				continue
			}
			w.addRuns(c.weight, r.units[:r.n], r.frequencies[:r.n])
			r.n = 0
		}
		if !all {
			return
		}
		at = w.nextFound(last + 1)
	}
}

// addPostings adds scores to the found units from a range of the current block's postings, whose
// slots are units.
func (w *window) addPostings(c *cursor, from, to int) {
	scorer, weight, base, lengths := w.s.scorer, c.weight, w.base, w.lengths[w.base:w.end]
	for i, unit := range c.buffer.Slots[from:to] {
		at := unit - base
		if w.found[at%windowUnits/64]>>(at%64)&1 != 0 {
			w.scores[at%windowUnits] += scorer.score(weight, c.frequency(from+i), lengths[at])
		}
	}
}

// addRuns adds a term's scores to those of the units that are found.
func (w *window) addRuns(weight float64, units, frequencies []uint32) {
	scorer, base, lengths := w.s.scorer, w.base, w.lengths[w.base:w.end]
	for i, unit := range units {
		at := unit - base
		if w.found[at%windowUnits/64]>>(at%64)&1 != 0 {
			w.scores[at%windowUnits] += scorer.score(weight, frequencies[i], lengths[at])
		}
	}
}

// has reports whether a unit, counted from base, is found.
func (w *window) has(at uint32) bool { return w.found[at%windowUnits/64]>>(at%64)&1 != 0 }

// nextFound returns the first found unit at or after at; the window's length if there is none.
func (w *window) nextFound(at uint32) uint32 {
	n := w.end - w.base
	for at < n {
		if word := w.found[at/64] >> (at % 64); word != 0 {
			return at + uint32(bits.TrailingZeros64(word))
		}
		at = at&^63 + 64
	}
	return n
}
