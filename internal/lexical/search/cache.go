package search

// This file keeps decoded parts of what is stored in memory, for all tenants
// together, up to a number of bytes. The parts used longest ago go first. A
// query holds the parts that it works on itself, so nothing is taken from it.

import (
	"sync"

	"github.com/google/uuid"
)

// partKey names a part. The tenant is in it: nobody can ask for another's.
type partKey struct {
	tenant uuid.UUID
	of     uuid.UUID // segment or collection
	part   int       // number of a page, or one of the following
}

// Parts that are no pages.
const (
	partSegment           = -1 - iota // header and directory of a segment
	partCollection                    // what the last query saw of a collection
	partDead                          // its dead entries
	partClusters                      // its clusters
	partStatistics                    // statistics of one state of it
	partClusterStatistics             // the same, of clusters
	partCondition                     // entries that satisfy a condition; of names collection and condition
)

// partCost is about what the cache itself takes for a part, in bytes.
const partCost = 200

// CacheStats are counts since the index was made, and the bytes that it holds.
type CacheStats struct {
	Hits, Misses, Evictions int64
	Bytes, Limit            int64
	Filters                 FilterStats
}

// FilterStats are counts of conditions of filters, and the bytes of CacheStats.Bytes
// that what is kept of them takes.
type FilterStats struct{ Hits, Misses, Bytes int64 }

// cache is a least recently used cache bounded in bytes.
type cache struct {
	mu    sync.Mutex
	parts map[partKey]*cacheEntry
	lru   cacheEntry // ring.next was used last, ring.prev longest ago
	stats CacheStats
}

// cacheEntry is a place of the cache. One that was let go of holds no value.
type cacheEntry struct {
	prev, next *cacheEntry
	key        partKey
	value      any
	bytes      int64
}

func newCache(limit int64) *cache {
	c := &cache{parts: map[partKey]*cacheEntry{}, stats: CacheStats{Limit: limit}}
	c.lru.prev, c.lru.next = &c.lru, &c.lru
	return c
}

// get returns a part, nil when it is not there. The caller holds c.mu.
func (c *cache) get(key partKey) any {
	return c.use(c.parts[key])
}

// use returns what a place of the cache holds, nil when that is nothing. The
// caller holds c.mu.
func (c *cache) use(e *cacheEntry) any {
	if e == nil || e.value == nil {
		c.stats.Misses++
		return nil
	}
	c.stats.Hits++
	e.unlink()
	e.linkAfter(&c.lru)
	return e.value
}

// peek is get for one who asks again when it is not there.
func (c *cache) peek(key partKey) any {
	e := c.parts[key]
	if e == nil {
		return nil
	}
	return c.use(e)
}

// lookup is peek for a part that was last at a place, which it updates.
func (c *cache) lookup(place **cacheEntry, key partKey) any {
	e := *place
	if e == nil || e.value == nil {
		if e = c.parts[key]; e == nil {
			return nil
		}
		*place = e
	}
	return c.use(e)
}

// put keeps a part of some bytes in place of the one before, and lets go of
// others until all fit. One that is larger than the whole cache is not kept.
func (c *cache) put(key partKey, value any, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replace(key, value, bytes)
}

// putIfGrown is put for a part that may be there with as many bytes already.
func (c *cache) putIfGrown(key partKey, value any, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.parts[key]; e == nil || e.value != value || e.bytes != int64(bytes)+partCost {
		c.replace(key, value, bytes)
	}
}

// replace is put. The caller holds c.mu.
func (c *cache) replace(key partKey, value any, bytes int) {
	if old := c.parts[key]; old != nil {
		c.evict(old)
	}
	size := int64(bytes) + partCost
	if size > c.stats.Limit {
		c.stats.Evictions++
		return
	}
	e := &cacheEntry{key: key, value: value, bytes: size}
	c.parts[key] = e
	c.count(value, size)
	e.linkAfter(&c.lru)
	for c.stats.Bytes > c.stats.Limit {
		c.evict(c.lru.prev)
		c.stats.Evictions++
	}
}

func (c *cache) evict(e *cacheEntry) {
	e.unlink()
	delete(c.parts, e.key)
	c.count(e.value, -e.bytes)
	e.value = nil
}

// count adds to the bytes of what is kept.
func (c *cache) count(value any, bytes int64) {
	c.stats.Bytes += bytes
	if _, ok := value.(*conditionSets); ok {
		c.stats.Filters.Bytes += bytes
	}
}

func (c *cache) snapshot() CacheStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

func (e *cacheEntry) unlink() { e.prev.next, e.next.prev = e.next, e.prev }

func (e *cacheEntry) linkAfter(at *cacheEntry) {
	e.prev, e.next = at, at.next
	at.next.prev = e
	at.next = e
}
