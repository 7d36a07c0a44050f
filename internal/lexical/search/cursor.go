package search

// A cursor walks one term's postings in one segment.

import (
	"sort"
	"sync"

	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

// exhausted is the slot of a cursor at its end.
const exhausted = ^uint32(0)

type cursor struct {
	blocks []segment.PackedBlock
	parts  []part // the data that blocks point into

	at             int  // current block
	part           int  // its part
	pos            int  // index in buffer of the first posting that was not passed
	hasSlots       bool // the current block's slots lie in buffer
	hasFrequencies bool // and its frequencies
	corrupt        bool
	unpackedBlocks int // blocks unpacked
	buffer         segment.Postings

	weight  float64
	maxima  []score // most that the term adds to a unit of each block
	highest score   // the same for the units of a window

	lists        finder
	joinedBlocks []segment.PackedBlock
}

// part is a run of blocks of the same data.
type part struct {
	data   []byte // with slack
	bounds []segment.Bound
	end    int // of its blocks in cursor.blocks
}

var cursors = sync.Pool{New: func() any { return new(cursor) }}

// release puts the cursor back into the pool, without references to pages.
func (c *cursor) release() {
	c.blocks = nil
	clear(c.parts)
	c.lists.reset()
	cursors.Put(c)
}

// open sets the cursor to the beginning of a term's postings in a segment, and reports whether
// there are any.
func (c *cursor) open(s *SegmentView, number int, t *queryTerm) (bool, error) {
	if t.lists.lists == nil {
		return false, nil
	}
	l := &t.lists.lists[number]
	if l.large {
		if err := c.lists.find(s, t.term, segment.TermKey(t.term)); err != nil {
			return false, err
		}
		c.read(c.lists.parts)
		return len(c.lists.parts) > 0, nil
	}
	if l.firstBlock == l.endBlock {
		return false, nil
	}
	c.blocks = t.lists.blocks[l.firstBlock:l.endBlock]
	c.parts = append(c.parts[:0], part{t.lists.packed[l.firstByte:], t.lists.bounds[l.firstBound:], len(c.blocks)})
	c.start()
	return true, nil
}

// read sets the cursor to the beginning of a list that consists of parts.
func (c *cursor) read(lists []*segment.List) {
	c.parts = c.parts[:0]
	c.blocks = nil
	if len(lists) == 1 {
		c.blocks = lists[0].Blocks
	} else {
		c.joinedBlocks = c.joinedBlocks[:0]
		for _, l := range lists {
			c.joinedBlocks = append(c.joinedBlocks, l.Blocks...)
		}
		c.blocks = c.joinedBlocks
	}
	end := 0
	for _, l := range lists {
		end += len(l.Blocks)
		c.parts = append(c.parts, part{l.Data, l.Bounds, end})
	}
	c.start()
}

func (c *cursor) start() {
	c.at, c.part, c.pos, c.unpackedBlocks = 0, 0, 0, 0
	c.hasSlots, c.hasFrequencies, c.corrupt = false, false, false
}

func (c *cursor) nextBlock() {
	c.at++
	c.hasSlots, c.pos = false, 0
}

// seekBlock moves to the first block that ends at slot or later, and reports whether there is one.
func (c *cursor) seekBlock(slot uint32) bool {
	if c.at == len(c.blocks) {
		return false
	}
	if c.blocks[c.at].Last >= slot {
		return true
	}
	// Exponential search.
	low, step := c.at, 1
	for low+step < len(c.blocks) && c.blocks[low+step].Last < slot {
		low += step
		step *= 2
	}
	rest := c.blocks[low+1 : min(low+step+1, len(c.blocks))]
	c.at = low + 1 + sort.Search(len(rest), func(i int) bool { return rest[i].Last >= slot })
	c.hasSlots, c.pos = false, 0
	return c.at < len(c.blocks)
}

// unpackSlots unpacks the slots of the current block.
func (c *cursor) unpackSlots() bool {
	if c.hasSlots {
		return true
	}
	for c.at >= c.parts[c.part].end {
		c.part++
	}
	if !segment.ReadSlots(c.parts[c.part].data, &c.blocks[c.at], &c.buffer) {
		c.corrupt = true
		c.at = len(c.blocks)
		return false
	}
	c.unpackedBlocks++
	c.hasSlots, c.hasFrequencies = true, false
	return true
}

// unpack unpacks the current block.
func (c *cursor) unpack() bool {
	if !c.unpackSlots() {
		return false
	}
	if !c.hasFrequencies {
		segment.ReadFrequencies(c.parts[c.part].data, &c.blocks[c.at], &c.buffer)
		c.hasFrequencies = true
	}
	return true
}

// frequency returns the frequency of the current block's i-th posting, after unpackSlots.
func (c *cursor) frequency(i int) uint32 {
	if c.hasFrequencies {
		return c.buffer.Frequencies[i]
	}
	return segment.ReadFrequency(c.parts[c.part].data, &c.blocks[c.at], i)
}

// within skips the current block's postings before slot, and returns the range of those before
// stop. It must be called after unpackSlots.
func (c *cursor) within(slot, stop uint32) (from, to int) {
	slots := c.buffer.Slots[:c.buffer.N]
	if slots[c.pos] < slot {
		c.pos += firstAtLeast(slots[c.pos:], slot)
	}
	to = len(slots)
	if c.blocks[c.at].Last >= stop {
		to = c.pos + firstAtLeast(slots[c.pos:], stop)
	}
	return c.pos, to
}

// firstAtLeast returns the index of the first of the sorted slots that is at least slot; len(slots)
// if none is.
func firstAtLeast(slots []uint32, slot uint32) int {
	low, n := 0, len(slots)
	for n > 0 {
		half := n >> 1
		if slots[low+half] < slot {
			low += half + 1
			n -= half + 1
		} else {
			n = half
		}
	}
	return low
}

// seek moves to the first posting at slot or later, and returns its slot.
func (c *cursor) seek(slot uint32) uint32 {
	if !c.seekBlock(slot) {
		return exhausted
	}
	if b := &c.blocks[c.at]; !c.hasSlots && b.First >= slot {
		return b.First
	}
	if !c.unpackSlots() {
		return exhausted
	}
	c.within(slot, exhausted)
	return c.buffer.Slots[c.pos]
}

// sum returns the sum of the frequencies in the slots [first, end), and moves past them.
func (c *cursor) sum(first, end uint32) (frequency uint32) {
	for c.seek(first) < end && c.unpack() {
		from, to := c.within(first, end)
		for _, f := range c.buffer.Frequencies[from:to] {
			frequency += f
		}
		if c.pos = to; to < c.buffer.N {
			break
		}
		first = c.blocks[c.at].Last + 1
		c.nextBlock()
	}
	return frequency
}
