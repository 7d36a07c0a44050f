package dense

// This file caches the vectors of index segments in memory, for all tenants together, up to a
// number of bytes. The least recently used are evicted first.

import (
	"container/list"
	"sync"

	"github.com/google/uuid"
)

// SegmentKey is the key of a segment of the lexical index. It includes the tenant, so that no query
// can get another tenant's segment.
type SegmentKey struct {
	Tenant, Segment uuid.UUID
}

// Segment has the vectors of a segment's passages: row i is passage i.
type Segment struct {
	Block
	Collection uuid.UUID
	Generation int
	Space      string
	filled     []bool // by entry
	rows       map[uuid.UUID]rows
}

type rows struct{ first, end int }

// NewSegment returns a segment with numbers of entries and passages, and no vectors yet.
func NewSegment(collection uuid.UUID, generation int, space string, dimension, entries, passages int) *Segment {
	return &Segment{
		Block:      Block{IDs: make([]uuid.UUID, passages), Data: make([]uint16, passages*dimension), Dimension: dimension},
		Collection: collection, Generation: generation, Space: space,
		filled: make([]bool, entries), rows: make(map[uuid.UUID]rows, entries),
	}
}

// MarkFilled records that the rows of an entry of a version have been filled.
func (s *Segment) MarkFilled(entry int, version uuid.UUID, first, end int) {
	s.filled[entry] = true
	s.rows[version] = rows{first, end}
}

// Filled reports whether the segment has an entry's vectors.
func (s *Segment) Filled(entry int) bool { return s.filled[entry] }

// Copy fills the rows from first to before end with a version's vectors in another segment, and
// reports whether that has as many.
func (s *Segment) Copy(version uuid.UUID, from *Segment, first, end int) bool {
	r, ok := from.rows[version]
	if !ok || r.end-r.first != end-first || from.Dimension != s.Dimension {
		return false
	}
	copy(s.IDs[first:end], from.IDs[r.first:r.end])
	copy(s.Data[first*s.Dimension:end*s.Dimension], from.Data[r.first*s.Dimension:r.end*s.Dimension])
	return true
}

// CacheStats are counts since the cache was made, and its size in bytes.
type CacheStats struct {
	Hits, Misses, Evictions int64
	Bytes, Limit            int64
}

// Cache is a least recently used cache of segments, bounded in bytes.
type Cache struct {
	mu    sync.Mutex
	order *list.List // of *cached; the front was used last
	byKey map[SegmentKey]*list.Element
	stats CacheStats
}

type cached struct {
	key     SegmentKey
	segment *Segment
	bytes   int64
}

// NewCache returns a cache of at most about limit bytes.
func NewCache(limit int64) *Cache {
	return &Cache{order: list.New(), byKey: map[SegmentKey]*list.Element{}, stats: CacheStats{Limit: limit}}
}

// Stats returns the counts of the cache.
func (c *Cache) Stats() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

// Get returns a segment; nil if it is not cached.
func (c *Cache) Get(key SegmentKey) *Segment {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byKey[key]
	if e == nil {
		c.stats.Misses++
		return nil
	}
	c.stats.Hits++
	c.order.MoveToFront(e)
	return e.Value.(*cached).segment
}

// Put adds a segment and evicts others until all fit. A segment larger than the cache is not added.
func (c *Cache) Put(key SegmentKey, s *Segment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.byKey[key]; old != nil {
		c.drop(old)
	}
	size := s.Bytes() + int64(len(s.filled))*64
	if size > c.stats.Limit {
		c.stats.Evictions++
		return
	}
	c.byKey[key] = c.order.PushFront(&cached{key, s, size})
	c.stats.Bytes += size
	for c.stats.Bytes > c.stats.Limit {
		c.drop(c.order.Back())
		c.stats.Evictions++
	}
}

// Remove removes a segment.
func (c *Cache) Remove(key SegmentKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byKey[key]; e != nil {
		c.drop(e)
	}
}

func (c *Cache) drop(e *list.Element) {
	entry := c.order.Remove(e).(*cached)
	delete(c.byKey, entry.key)
	c.stats.Bytes -= entry.bytes
}

// Of lists the cached segments of a collection's generation, so that the vectors of a merged
// segment can be copied from the segments that it was merged from.
func (c *Cache) Of(tenant, collection uuid.UUID, generation int) []*Segment {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*Segment
	for key, e := range c.byKey {
		if s := e.Value.(*cached).segment; key.Tenant == tenant && s.Collection == collection && s.Generation == generation {
			out = append(out, s)
		}
	}
	return out
}
