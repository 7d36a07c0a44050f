package lexical

// The search of nested units, by windows (MaxScore of Turtle and Flood 1995,
// with the block maxima of Ding and Suel 2011). Over a window of units the
// blocks bound what each term can add. Terms that together cannot reach the
// score to beat are only looked up for units that the others found; when no
// terms are left, the window is passed over.

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
)

const (
	// minWindow is how many units a window spans at least: with fewer its bounds
	// cost more than they save.
	minWindow = 128
	// chunkSize is how many units are scored at a time.
	chunkSize = 2048
)

// window is the room of one search.
type window struct {
	scores  [chunkSize]score
	touched [chunkSize / 64]uint64

	s         *search
	segment   int32
	directory *Directory
	lengths   []uint32
	live      []*cursor // by rising bound in the window
	sums      []score   // bound of the first so many of live
	mixed     bool      // units in a range may be invisible
}

var windows = sync.Pool{New: func() any { return new(window) }}

// search offers the units of a segment.
func (w *window) search(s *search, segment int, live []*cursor) {
	w.s, w.segment = s, int32(segment)
	w.directory = s.view.Segments[segment].Directory
	w.lengths = w.directory.lengths[s.zoom]
	w.live = append(w.live[:0], live...)
	var ranges []span
	ranges, w.mixed = s.scopes[segment].ranges(w.directory, s.zoom)
	essential := 0
	for _, r := range ranges {
		for unit := r.first; unit < r.end && len(w.live) > 0; {
			unit, essential = w.next(unit, r.end, essential)
		}
	}
	w.s, w.directory, w.lengths = nil, nil, nil
	clear(w.live)
}

// next scores a window that begins with unit and ends before limit. It returns
// the window's end and how many terms it only looked up.
func (w *window) next(unit, limit uint32, lookedUp int) (end uint32, nowLookedUp int) {
	s := w.s
	slot, _ := w.directory.slotRange(s.zoom, unit)
	end = limit
	// The window is one of the terms that were not only looked up before, or of the highest one.
	lookedUp = min(lookedUp, len(w.live)-1)
	kept := w.live[:0]
	for i, c := range w.live {
		b := c.seekBlock(slot)
		if b == nil {
			continue
		}
		kept = append(kept, c)
		if i < lookedUp {
			continue
		}
		if first := c.unit(b.first); first > unit+minWindow {
			end = min(end, first)
		} else {
			end = min(end, max(c.unit(b.last)+1, unit+minWindow))
		}
	}
	w.live = kept
	for _, c := range w.live {
		c.highest = c.windowBound(s.scorer, end)
	}
	slices.SortFunc(w.live, func(a, b *cursor) int { return cmp.Compare(a.highest, b.highest) })
	w.sums = append(w.sums[:0], 0)
	least := s.top.least()
	lookedUp = 0
	for i, c := range w.live {
		sum := w.sums[i] + c.highest
		w.sums = append(w.sums, sum)
		if sum < least || c.highest == 0 {
			lookedUp = i + 1
		}
	}
	if lookedUp < len(w.live) {
		w.score(unit, end, lookedUp)
	}
	return end, lookedUp
}

// unit is the unit of a slot.
func (c *cursor) unit(slot uint32) uint32 {
	if c.unitOf == nil {
		return slot
	}
	return c.unitOf[slot]
}

// windowBound is what the term adds at most to a unit from the current block's
// on, before end.
func (c *cursor) windowBound(s scorer, end uint32) score {
	highest := score(0)
	part, at := c.part, c.at
	for part < len(c.parts) {
		l := c.parts[part]
		b := &l.blocks[at]
		if c.unit(b.first) >= end {
			break
		}
		highest = max(highest, c.blockBound(s, l, b))
		if at++; at == len(l.blocks) {
			part++
			at = 0
		}
	}
	return highest
}

// currentBound is the bound of the current block b.
func (c *cursor) currentBound(s scorer, b *block) score {
	if c.bounded != b {
		c.bounded, c.bound = b, c.blockBound(s, c.parts[c.part], b)
	}
	return c.bound
}

// blockBound is what the term adds at most to a unit of a block.
func (c *cursor) blockBound(s scorer, l *list, b *block) score {
	bounds := l.bounds[b.frontiers[c.zoom]:b.frontiers[c.zoom+1]]
	if len(bounds) == 0 {
		return s.limit(c.weight)
	}
	highest := score(0)
	for _, p := range bounds {
		highest = max(highest, s.above(c.weight, p))
	}
	return highest
}

// score scores the units of a window, a chunk at a time.
func (w *window) score(unit, end uint32, lookedUp int) {
	d, z := w.directory, w.s.zoom
	for unit < end {
		// Begin with the first unit that there is.
		slot, _ := d.slotRange(z, unit)
		first := exhausted
		for _, c := range w.live[lookedUp:] {
			if at := c.seek(slot); at != exhausted {
				first = min(first, c.unit(at))
			}
		}
		if first >= end {
			return
		}
		unit = first
		stop := min(end, unit+chunkSize)
		_, stopSlot := d.slotRange(z, stop-1)
		for _, c := range w.live[lookedUp:] {
			if c.unitOf == nil {
				w.addPassages(c, unit, stopSlot)
			} else {
				w.addUnits(c, unit, stopSlot)
			}
		}
		w.offer(unit, lookedUp)
		unit = stop
	}
}

// addPassages adds a term's scores of the passages before stop.
func (w *window) addPassages(c *cursor, base, stop uint32) {
	scorer, weight := w.s.scorer, c.weight
	for c.seek(base) < stop && c.unpack() {
		p := &c.buffer
		i := c.pos
		for ; i < p.n && p.slots[i] < stop; i++ {
			unit := p.slots[i]
			length := w.lengths[unit]
			if length == titleTerms {
				continue
			}
			at := unit - base
			w.scores[at] += scorer.score(weight, p.frequencies[i], length)
			w.touched[at/64] |= 1 << (at % 64)
		}
		if i < p.n {
			c.pos = i
			return
		}
		c.nextBlock()
	}
}

// addUnits adds a term's scores of the sections or documents whose slots are
// before stop.
func (w *window) addUnits(c *cursor, base, stop uint32) {
	scorer, weight := w.s.scorer, c.weight
	first, _ := w.directory.slotRange(w.s.zoom, base)
	for {
		slot := c.seek(first)
		if slot >= stop {
			return
		}
		unit := c.unitOf[slot]
		var end uint32
		_, end = w.directory.slotRange(w.s.zoom, unit)
		frequency := c.sum(slot, end)
		first = end
		length := w.lengths[unit]
		if length == titleTerms || frequency == 0 {
			continue
		}
		at := unit - base
		w.scores[at] += scorer.score(weight, frequency, length)
		w.touched[at/64] |= 1 << (at % 64)
	}
}

// offer completes the scores of the chunk's units and offers them.
func (w *window) offer(base uint32, lookedUp int) {
	s := w.s
	least := s.top.least()
	for i, word := range w.touched {
		if word == 0 {
			continue
		}
		w.touched[i] = 0
		for ; word != 0; word &= word - 1 {
			at := i*64 + bits.TrailingZeros64(word)
			total := w.scores[at]
			w.scores[at] = 0
			unit := base + uint32(at)
			if total+w.sums[lookedUp] < least || w.mixed && !w.visible(unit) {
				continue
			}
			s.result.Scored++
			if w.complete(unit, &total, least, lookedUp) {
				s.top.offer(place{total, w.segment, unit})
				least = s.top.least()
			}
		}
	}
}

// complete adds the terms that are looked up to a unit's score, and says
// whether that can still be among the best.
func (w *window) complete(unit uint32, total *score, least score, lookedUp int) bool {
	first, end := w.directory.slotRange(w.s.zoom, unit)
	for i := lookedUp - 1; i >= 0; i-- {
		if *total+w.sums[i+1] < least {
			return false
		}
		c := w.live[i]
		b := c.seekBlock(first)
		if b == nil || b.first >= end {
			continue
		}
		// The bound of the block is nearer than the window's, and a block that
		// touches the unit bounds all of its frequency.
		if *total+w.sums[i]+c.currentBound(w.s.scorer, b) < least {
			return false
		}
		if f := c.frequency(first, end); f > 0 {
			*total += w.s.scorer.score(c.weight, f, w.lengths[unit])
		}
	}
	return *total >= least
}

// visible says whether a unit's entry is.
func (w *window) visible(unit uint32) bool {
	slot, _ := w.directory.slotRange(w.s.zoom, unit)
	return w.s.scopes[w.segment].sees(int(w.directory.slotEntry[slot]))
}
