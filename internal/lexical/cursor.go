package lexical

// A cursor walks one term's postings in one segment, in any nested unit.

import (
	"fmt"
	"sort"
	"sync"
)

// exhausted is the unit of a cursor that has no more.
const exhausted = ^uint32(0)

type cursor struct {
	parts    []*list // the term's lists, page by page
	short    list    // what parts points to where the page keeps none decoded
	part     int     // of the current block
	at       int     // current block in its part
	unitOf   []uint32
	zoom     zoom
	weight   float64 // idf (k1 + 1) repetitions
	total    int     // blocks
	read     int     // blocks unpacked
	unpacked bool    // the current block's slots lie in buffer
	counted  bool    // and its frequencies
	pos      int     // in buffer
	highest  score   // bound of the window
	bounded  *block  // the block that bound is of
	bound    score
	postings uint32
	units    [zooms]uint32
	buffer   postings
	corrupt  bool
}

var cursors = sync.Pool{New: func() any { return new(cursor) }}

// release gives the cursor back to the pool, without what it points to.
func (c *cursor) release() {
	clear(c.parts)
	c.short.data = nil
	c.unitOf, c.bounded = nil, nil
	cursors.Put(c)
}

// open sets the cursor to the beginning of a term's postings in a segment, and
// says whether there are any. key is the term's.
func (c *cursor) open(s *SegmentView, term string, key uint64) (bool, error) {
	c.parts = c.parts[:0]
	c.part, c.at, c.total, c.read, c.pos = 0, 0, 0, 0, 0
	c.unpacked, c.corrupt, c.unitOf, c.bounded = false, false, nil, nil
	first, end := s.pageRangeFrom(term, key, 0)
	for number := first; number < end; number++ {
		page := s.page(number)
		if page == nil {
			return false, fmt.Errorf("segment %s: the view lacks page %d of term %.40q", s.ID, number, term)
		}
		l := page.find(term, key, &c.short)
		if l == nil {
			continue
		}
		c.parts = append(c.parts, l)
		if l.continued != (len(c.parts) > 1) || int(l.blocks[len(l.blocks)-1].last) >= s.slots() {
			return false, fmt.Errorf("segment %s page %d: %w: a list that is not the segment's", s.ID, number, ErrCorrupt)
		}
		c.total += len(l.blocks)
	}
	if len(c.parts) == 0 {
		return false, nil
	}
	c.postings, c.units = c.parts[0].postings, c.parts[0].units
	return true, nil
}

// block is the current block; nil: there are no more.
func (c *cursor) block() *block {
	if c.part == len(c.parts) {
		return nil
	}
	return &c.parts[c.part].blocks[c.at]
}

func (c *cursor) nextBlock() {
	c.unpacked, c.pos = false, 0
	if c.at++; c.at == len(c.parts[c.part].blocks) {
		c.part++
		c.at = 0
	}
}

// seekBlock goes to the first block that ends at slot or behind it.
func (c *cursor) seekBlock(slot uint32) *block {
	for c.part < len(c.parts) {
		blocks := c.parts[c.part].blocks
		if blocks[c.at].last >= slot {
			return &blocks[c.at]
		}
		if blocks[len(blocks)-1].last < slot {
			c.part++
			c.at = 0
		} else {
			// Double the step, then search between.
			low, step := c.at, 1
			for low+step < len(blocks) && blocks[low+step].last < slot {
				low += step
				step *= 2
			}
			rest := blocks[low+1 : min(low+step+1, len(blocks))]
			c.at = low + 1 + sort.Search(len(rest), func(i int) bool { return rest[i].last >= slot })
		}
		c.unpacked, c.pos = false, 0
	}
	return nil
}

// unpackSlots makes the slots of the current block's postings readable.
func (c *cursor) unpackSlots() bool {
	if c.unpacked {
		return true
	}
	l := c.parts[c.part]
	if !l.readSlots(&l.blocks[c.at], &c.buffer) {
		c.corrupt = true
		c.part = len(c.parts)
		return false
	}
	c.read++
	c.unpacked, c.counted = true, false
	return true
}

// unpack makes the current block's postings readable.
func (c *cursor) unpack() bool {
	if !c.unpackSlots() {
		return false
	}
	if !c.counted {
		l := c.parts[c.part]
		l.readFrequencies(&l.blocks[c.at], &c.buffer)
		c.counted = true
	}
	return true
}

// seek goes to the first posting at slot or behind it, and returns its slot.
func (c *cursor) seek(slot uint32) uint32 {
	b := c.seekBlock(slot)
	if b == nil {
		return exhausted
	}
	if !c.unpacked && b.first >= slot {
		return b.first
	}
	if !c.unpackSlots() {
		return exhausted
	}
	p := &c.buffer
	if p.slots[c.pos] < slot {
		// Double the step, then search between. The last one is at slot or behind it.
		low, step := c.pos, 1
		for low+step < p.n && p.slots[low+step] < slot {
			low += step
			step *= 2
		}
		high := min(low+step, p.n-1)
		for high-low > 1 {
			if middle := int(uint(low+high) >> 1); p.slots[middle] < slot {
				low = middle
			} else {
				high = middle
			}
		}
		c.pos = high
	}
	return p.slots[c.pos]
}

// frequency is the term's in a unit, whose slots are those from first to before
// end.
func (c *cursor) frequency(first, end uint32) uint32 {
	if slot := c.seek(first); slot >= end {
		return 0
	}
	if c.unitOf != nil {
		return c.sum(first, end)
	}
	if !c.unpackSlots() {
		return 0
	}
	l := c.parts[c.part]
	return l.frequency(&l.blocks[c.at], c.pos)
}

// rewind goes back to the first posting.
func (c *cursor) rewind() {
	c.part, c.at, c.pos = 0, 0, 0
	c.unpacked = false
}

// sum adds up the frequencies in the slots from first to before end, and goes
// behind them.
func (c *cursor) sum(first, end uint32) (frequency uint32) {
	for slot := c.seek(first); slot < end; slot = c.seek(first) {
		if !c.unpack() {
			break
		}
		p := &c.buffer
		i := c.pos
		for ; i < p.n && p.slots[i] < end; i++ {
			frequency += p.frequencies[i]
			first = p.slots[i] + 1
		}
		if i < p.n {
			c.pos = i
			break
		}
		c.nextBlock()
	}
	return frequency
}
