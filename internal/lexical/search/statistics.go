package search

// Statistics of all live text: those of the headers, less the dead entries.

import (
	"cmp"
	"slices"
	"sync"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

// StatisticsCache caches statistics of one list of segments with one set of dead entries. It is
// safe for concurrent use.
type StatisticsCache struct {
	mu       sync.Mutex
	live     *liveEntries
	clusters *clusterTable // of the last snapshot that was searched
	bytes    int
	// clusterPostingsLimit is the most bytes of cached postings of clusters, if it is more than
	// minClusterPostings.
	clusterPostingsLimit int

	terms     map[string]*termLists
	termBytes int

	visible      map[string][]Bits // by groupsKey
	visibleBytes int
}

// maxVisible is the most bytes of cached sets of visible entries.
const maxVisible = 8 << 20

// NewStatisticsCache returns an empty cache.
func NewStatisticsCache() *StatisticsCache { return &StatisticsCache{terms: map[string]*termLists{}} }

// Bytes is the approximate size of the cache in memory.
func (c *StatisticsCache) Bytes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}

// liveEntries are the live entries of a view, with their counts.
type liveEntries struct {
	order   []int   // segments, the largest first
	dead    [][]int // entries, by segment, ascending
	live    []Bits  // by segment; nil: all
	units   [segment.Zooms]int
	lengths [segment.Zooms]uint64
}

func (v *View) cache() *StatisticsCache {
	if v.Statistics != nil {
		return v.Statistics
	}
	return NewStatisticsCache()
}

func (c *StatisticsCache) liveEntriesOf(v *View) *liveEntries {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		c.live = newLiveEntries(v)
		for _, l := range c.live.live {
			c.bytes += 8*len(l) + 48
		}
	}
	return c.live
}

func newLiveEntries(v *View) *liveEntries {
	l := &liveEntries{dead: make([][]int, len(v.Segments)), live: make([]Bits, len(v.Segments))}
	for i, s := range v.Segments {
		d := s.Directory
		n := s.Counts
		l.dead[i] = deadEntriesOf(d, v.Dead)
		if len(l.dead[i]) > 0 {
			l.live[i] = fullBits(d.Len())
		}
		for _, e := range l.dead[i] {
			l.live[i].remove(e)
			entry := d.Entry(e)
			n.Entries--
			n.Sections -= entry.Sections
			n.Passages -= entry.Passages
			n.Titles -= uint64(entry.TitleTerms)
			n.Body -= uint64(entry.DocumentTerms - entry.TitleTerms)
		}
		l.units[segment.ZoomPassage] += n.Passages
		l.units[segment.ZoomSection] += n.Sections
		l.units[segment.ZoomDocument] += n.Entries
		l.lengths[segment.ZoomPassage] += n.Body
		l.lengths[segment.ZoomSection] += n.Body
		l.lengths[segment.ZoomDocument] += n.Body + n.Titles
	}
	l.order = make([]int, len(v.Segments))
	for i := range l.order {
		l.order[i] = i
	}
	slices.SortStableFunc(l.order, func(a, b int) int { return cmp.Compare(v.Segments[b].Slots(), v.Segments[a].Slots()) })
	return l
}

// cachedVisible returns the entries that are visible to groups; nil: they are not cached.
func (c *StatisticsCache) cachedVisible(groups string) []Bits {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.visible[groups]
}

// cacheVisible caches the entries that are visible to groups. When the cache is full it is emptied
// first.
func (c *StatisticsCache) cacheVisible(groups string, sets []Bits) {
	size := len(groups) + 24*len(sets) + 64
	for _, set := range sets {
		size += 8 * len(set)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.visible[groups]; ok || size > maxVisible {
		return
	}
	if c.visible == nil || c.visibleBytes+size > maxVisible {
		c.bytes -= c.visibleBytes
		c.visible, c.visibleBytes = map[string][]Bits{}, 0
	}
	c.visible[groups] = sets
	c.visibleBytes += size
	c.bytes += size
}

// deadEntriesOf lists a directory's entries that are in dead, in ascending order.
func deadEntriesOf(d *segment.Directory, dead map[uuid.UUID]bool) []int {
	var entries []int
	if len(dead) > d.Len() {
		for e, id := range d.IDs {
			if dead[id] {
				entries = append(entries, e)
			}
		}
		return entries
	}
	for id, is := range dead {
		if !is {
			continue
		}
		if e, ok := d.EntryByID(id); ok {
			entries = append(entries, e)
		}
	}
	slices.Sort(entries)
	return entries
}

// countUnits counts the units of an entry that have the term, and moves the cursor past them.
func (c *cursor) countUnits(d *segment.Directory, entry int) (n [segment.Zooms]int) {
	slot, end := d.Slots(segment.ZoomDocument, uint32(entry))
	title, section := slot, exhausted
	for slot = c.seek(slot); slot < end; slot = c.seek(slot + 1) {
		n[segment.ZoomDocument] = 1
		if slot == title {
			continue // a title is no passage
		}
		n[segment.ZoomPassage]++
		if in := d.SlotSection[slot]; in != section {
			section = in
			n[segment.ZoomSection]++
		}
	}
	return n
}
