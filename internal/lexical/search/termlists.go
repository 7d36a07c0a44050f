package search

// The postings of a term in all segments of a view. They are cached, because with many segments
// finding a term takes longer than scoring it.

import (
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

// termLists are a term's lists, by segment, and its document frequencies. They are immutable.
type termLists struct {
	lists []segmentList      // by segment; empty: the term is in none
	df    [segment.Zooms]int // of live units
	// What lists points into.
	blocks []segment.PackedBlock
	bounds []segment.Bound
	packed []byte // with slack
}

// segmentList is a term's list in one segment.
type segmentList struct {
	firstBlock, endBlock uint32 // in the blocks of termLists; equal: the term does not occur, or large is set
	firstBound           uint32
	firstByte            uint32
	// large is set where the list is read from its pages instead of being copied.
	large bool
}

const (
	// maxCopiedBlocks is how many blocks of a list in a segment are copied. Longer lists take so
	// long to score that the time to find them does not matter.
	maxCopiedBlocks = 64
	// maxCachedLookups is up to how many terms of a query are looked up in the cache.
	maxCachedLookups = 64
	// maxTermLists is the most bytes of cached lists.
	maxTermLists = 16 << 20
)

func (t *termLists) bytes() int {
	return 160 + 20*len(t.lists) + 32*cap(t.blocks) + 8*cap(t.bounds) + cap(t.packed)
}

// cachedTermLists are the lists of a term, all of them copied.
type cachedTermLists struct {
	term  string
	lists *termLists
}

// cachedLists returns the cached lists of terms, and the terms whose pages a search needs.
func (c *StatisticsCache) cachedLists(terms []string) (known []cachedTermLists, missing []string) {
	if len(terms) > maxCachedLookups {
		return nil, terms
	}
	known = make([]cachedTermLists, 0, len(terms))
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range terms {
		if lists := c.terms[t]; lists == nil || slices.ContainsFunc(lists.lists, func(l segmentList) bool { return l.large }) {
			missing = append(missing, t)
		} else {
			known = append(known, cachedTermLists{t, lists})
		}
	}
	return known, missing
}

// setLists sets the lists of terms, from the cache or the view.
func (c *StatisticsCache) setLists(v *View, l *liveEntries, terms []queryTerm) error {
	for _, known := range v.lists {
		for i := range terms {
			if t := &terms[i]; t.term == known.term {
				t.lists = known.lists
				break
			}
		}
	}
	c.mu.Lock()
	for i := range terms {
		if t := &terms[i]; t.lists == nil {
			t.lists = c.terms[t.term]
		}
	}
	c.mu.Unlock()
	for i := range terms {
		if t := &terms[i]; t.lists == nil {
			var err error
			if t.lists, err = v.findTerm(t.term, l); err != nil {
				return err
			}
			c.cacheLists(t.term, t.lists)
		}
	}
	return nil
}

// cacheLists caches a term's lists. When the cache is full it is emptied first.
func (c *StatisticsCache) cacheLists(term string, t *termLists) {
	size := t.bytes() + len(term)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.terms[term] != nil || size > maxTermLists {
		return
	}
	if c.termBytes+size > maxTermLists {
		clear(c.terms)
		c.bytes -= c.termBytes
		c.termBytes = 0
	}
	c.terms[term] = t
	c.termBytes += size
	c.bytes += size
}

// findTerm finds a term in all segments.
func (v *View) findTerm(term string, l *liveEntries) (*termLists, error) {
	t := &termLists{}
	if term == "" || term[0] == 0 {
		return t, nil // never the term of a text
	}
	key := segment.TermKey(term)
	c := cursors.Get().(*cursor)
	defer c.release()
	f := &c.lists
	for i := range v.Segments {
		s := &v.Segments[i]
		if err := f.find(s, term, key); err != nil {
			return nil, err
		}
		if len(f.parts) == 0 {
			continue
		}
		if t.lists == nil {
			t.lists = make([]segmentList, len(v.Segments))
		}
		t.add(i, f.parts)
		for z := range segment.Zooms {
			t.df[z] += int(f.parts[0].Units[z])
		}
		if len(l.dead[i]) == 0 {
			continue
		}
		c.read(f.parts)
		for _, e := range l.dead[i] {
			for z, n := range c.countUnits(s.Directory, e) {
				t.df[z] -= n
			}
		}
		if c.corrupt {
			return nil, corruptBlock(s)
		}
	}
	t.packed = append(t.packed, make([]byte, segment.Slack)...)
	t.blocks, t.bounds, t.packed = slices.Clip(t.blocks), slices.Clip(t.bounds), slices.Clip(t.packed)
	return t, nil
}

func corruptBlock(s *SegmentView) error {
	return fmt.Errorf("segment %s: %w: a block of postings", s.ID, segment.ErrCorrupt)
}

// add copies a list, unless it is large.
func (t *termLists) add(segment int, parts []*segment.List) {
	blocks := 0
	for _, l := range parts {
		blocks += len(l.Blocks)
	}
	if blocks > maxCopiedBlocks {
		t.lists[segment].large = true
		return
	}
	at := segmentList{firstBlock: uint32(len(t.blocks)), firstBound: uint32(len(t.bounds)), firstByte: uint32(len(t.packed))}
	for _, l := range parts {
		bounds := uint32(len(t.bounds)) - at.firstBound
		t.bounds = append(t.bounds, l.Bounds...)
		for _, b := range l.Blocks {
			data := uint32(len(t.packed)) - at.firstByte
			if l.One != 0 {
				// As a block of one posting, without deltas.
				b.Width = 32
				t.packed = append(t.packed, byte(l.One-1), byte((l.One-1)>>8), byte((l.One-1)>>16), byte((l.One-1)>>24))
			} else {
				t.packed = append(t.packed, l.Data[b.Data:int(b.Data)+b.Size()]...)
			}
			b.Data = data
			for z := range b.Frontiers {
				b.Frontiers[z] += bounds
			}
			t.blocks = append(t.blocks, b)
		}
	}
	at.endBlock = uint32(len(t.blocks))
	t.lists[segment] = at
}

// finder finds a term's list in a segment.
type finder struct {
	parts []*segment.List // page by page
	short segment.List    // what parts points to where the page keeps none decoded
}

// reset drops the references to pages.
func (f *finder) reset() {
	clear(f.parts)
	f.short.Data = nil
}

// find sets parts to the lists of a term, whose TermKey is key; it leaves none if the term does not
// occur.
func (f *finder) find(s *SegmentView, term string, key uint64) error {
	f.parts = f.parts[:0]
	first, end := s.PageRangeFrom(term, key, 0)
	for number := first; number < end; number++ {
		page := s.page(number)
		if page == nil {
			return fmt.Errorf("segment %s: the view does not have page %d of term %.40q", s.ID, number, term)
		}
		l := page.Find(term, key, &f.short)
		if l == nil {
			continue
		}
		f.parts = append(f.parts, l)
		if l.Continued != (len(f.parts) > 1) || int(l.Blocks[len(l.Blocks)-1].Last) >= s.Slots() {
			return fmt.Errorf("segment %s page %d: %w: a list with slots beyond the segment", s.ID, number, segment.ErrCorrupt)
		}
	}
	return nil
}
