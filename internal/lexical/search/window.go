package search

// The search of passages, sections and documents, by windows of units: MaxScore (Turtle and Flood
// 1995) with block maxima (Ding and Suel 2011). In a window the blocks bound the score of each
// term. Terms that together stay below the threshold are not essential: they are added only to
// units that essential terms found and that can still reach the threshold. A window without
// essential terms is skipped.

import (
	"math/bits"
	"slices"

	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

// windowUnits is the most units of a window.
const windowUnits = 4096

// windowSlots is about how many slots a window has, by zoom. Longer windows have looser bounds;
// shorter ones split more blocks.
var windowSlots = [segment.Zooms]int{4096, 8192, 16384}

// window is the current window of a search, with its buffers.
type window struct {
	scores [windowUnits]score       // zero but for units in found
	found  [windowUnits / 64]uint64 // bitmap of units, from base on, that are candidates

	s            *search
	segment      int
	directory    *segment.Directory
	lengths      []uint32 // of units
	unitOf       []uint32 // by slot; nil: a slot is the unit
	ranges       []span   // of units
	checkVisible bool     // units in a range may be invisible

	cursors []*cursor // of the segment
	active  []*cursor // of the window, by rising bound
	sums    []score   // bounds of the first i of active together

	base, end  uint32 // units
	slot, stop uint32 // their slots
	runs       runs
}

// release drops the references to the view.
func (w *window) release() {
	w.directory, w.lengths, w.unitOf = nil, nil, nil
	clear(w.cursors)
	clear(w.active)
}

// search collects the units of a segment that are in part. Its cursors are those of the terms that
// occur there.
func (w *window) search(number int, part span) {
	s := w.s
	d := s.view.Segments[number].Directory
	w.segment, w.directory, w.lengths, w.unitOf = number, d, d.Lengths[s.zoom], d.UnitOf(s.zoom)
	w.ranges, w.checkVisible = s.scopes[number].ranges(d, s.zoom, w.ranges[:0])
	size := uint32(min(windowUnits, max(64, windowSlots[s.zoom]*d.Units(s.zoom)/max(1, d.Units(segment.ZoomPassage)))))
	for _, r := range w.ranges {
		r.first, r.end = max(r.first, part.first), min(r.end, part.end)
		for w.base = r.first; w.base < r.end && w.next(r.end, size); w.base = w.end {
			s.top.share()
			if essential := w.essential(); essential < len(w.active) {
				w.score(essential)
			}
		}
	}
}

// next moves to the next window: from the first unit at or after base that has a term, up to size
// units, before limit. It reports whether there is one.
func (w *window) next(limit, size uint32) bool {
	d, z := w.directory, w.s.zoom
	w.slot, _ = d.Slots(z, w.base)
	first := exhausted
	for _, c := range w.cursors {
		if c.seekBlock(w.slot) {
			first = min(first, c.blocks[c.at].First)
		}
	}
	if first == exhausted {
		return false
	}
	if first > w.slot {
		if w.base = w.unit(first); w.base >= limit {
			w.end = w.base
			return false
		}
		w.slot, _ = d.Slots(z, w.base)
	}
	w.end = min(w.base+size, limit)
	_, w.stop = d.Slots(z, w.end-1)
	return true
}

// unit returns the unit of a slot.
func (w *window) unit(slot uint32) uint32 {
	if w.unitOf == nil {
		return slot
	}
	return w.unitOf[slot]
}

// essential sorts the terms of the window by their bounds, and returns the index of the first
// essential one.
func (w *window) essential() (first int) {
	w.active = w.active[:0]
	for _, c := range w.cursors {
		if c.setHighest(w.stop); c.highest > 0 {
			w.active = append(w.active, c)
		}
	}
	sortByHighest(w.active)
	threshold := w.s.top.threshold
	sum := score(0)
	w.sums = append(w.sums[:0], 0)
	for i, c := range w.active {
		sum += c.highest
		w.sums = append(w.sums, sum)
		if sum < threshold {
			first = i + 1
		}
	}
	return first
}

func sortByHighest(cursors []*cursor) {
	if len(cursors) > 32 {
		slices.SortFunc(cursors, func(a, b *cursor) int {
			switch {
			case a.highest < b.highest:
				return -1
			case a.highest > b.highest:
				return 1
			}
			return 0
		})
		return
	}
	for i := 1; i < len(cursors); i++ {
		for j := i; j > 0 && cursors[j].highest < cursors[j-1].highest; j-- {
			cursors[j], cursors[j-1] = cursors[j-1], cursors[j]
		}
	}
}

// score scores the window's units. essential is the index of the first essential term.
func (w *window) score(essential int) {
	for _, c := range w.active[essential:] {
		w.addAll(c)
	}
	threshold := w.s.top.threshold
	if essential == 0 {
		w.s.result.Scored += w.count()
	}
	for i := essential - 1; i >= 0; i-- {
		n := w.prune(threshold - w.sums[i+1])
		if i == essential-1 {
			w.s.result.Scored += n
		}
		if n == 0 {
			return
		}
		w.addFound(w.active[i])
	}
	w.collect()
}

// count returns how many candidates there are.
func (w *window) count() (n int) {
	for _, word := range w.found[:(w.end-w.base+63)/64] {
		n += bits.OnesCount64(word)
	}
	return n
}

// prune drops the candidates that score below least, and returns how many are left.
func (w *window) prune(threshold score) (n int) {
	for i, word := range w.found[:(w.end-w.base+63)/64] {
		if word == 0 {
			continue
		}
		scores := (*[64]score)(w.scores[i*64:])
		remaining := uint64(0)
		for ; word != 0; word &= word - 1 {
			at := bits.TrailingZeros64(word) & 63
			below := (scores[at] - threshold) >> 63 // all ones where it is, else zero
			scores[at] &^= below
			remaining |= uint64(below+1) << at
		}
		w.found[i] = remaining
		n += bits.OnesCount64(remaining)
	}
	return n
}

// collect adds the candidates to the best units, and clears them.
func (w *window) collect() {
	top := &w.s.top
	threshold := top.threshold
	for i, word := range w.found[:(w.end-w.base+63)/64] {
		if word == 0 {
			continue
		}
		w.found[i] = 0
		scores := (*[64]score)(w.scores[i*64:])
		for ; word != 0; word &= word - 1 {
			at := bits.TrailingZeros64(word) & 63
			total := scores[at]
			scores[at] = 0
			if total < threshold {
				continue
			}
			unit := w.base + uint32(i*64+at)
			if w.lengths[unit] == segment.TitleLength || w.checkVisible && !w.visible(unit) {
				continue
			}
			top.add(foundUnit{total, int32(w.segment), unit})
			threshold = top.threshold
		}
	}
}

// visible reports whether a unit's entry is visible.
func (w *window) visible(unit uint32) bool {
	slot, _ := w.directory.Slots(w.s.zoom, unit)
	return w.s.scopes[w.segment].sees(int(w.directory.SlotEntry[slot]))
}
