package search

// The cache of decoded parts: least recently used first out, bounded in bytes, shared by all
// tenants. A running query has references of its own, so eviction does not affect it.

import (
	"sync"

	"github.com/google/uuid"
)

// partKey is the key of a part. It includes the tenant, so that no query can get another tenant's
// part.
type partKey struct {
	tenant uuid.UUID
	of     uuid.UUID // segment or collection
	part   int       // number of a page, or one of the following
}

// Parts other than pages.
const (
	partSegment           = -1 - iota // header and directory of a segment
	partCollection                    // the collectionState
	partDead                          // dead entries of a collection
	partClusters                      // clusters of a collection
	partStatistics                    // statistics of one state of a collection
	partClusterStatistics             // statistics of clusters
	partCondition                     // entries that satisfy a condition; of names collection and condition
)

// partCost is the approximate overhead of a part in the cache, in bytes.
const partCost = 200

// CacheStats are counts since the index was made, and its size in memory.
type CacheStats struct {
	Hits, Misses, Evictions int64
	Bytes, Limit            int64
	Filters                 FilterStats
}

// FilterStats are counts of conditions of filters, and their part of CacheStats.Bytes.
type FilterStats struct{ Hits, Misses, Bytes int64 }

// cache is a least recently used cache bounded in bytes.
type cache struct {
	mu    sync.Mutex
	parts map[partKey]*cacheEntry
	lru   cacheEntry // ring.next was used last, ring.prev longest ago
	stats CacheStats
}

// cacheEntry is an entry of the cache. An evicted one has no value.
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

// use returns the value of an entry; nil if it was evicted. The caller holds c.mu.
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

// peek is get that does not count a miss. The caller holds c.mu.
func (c *cache) peek(key partKey) any {
	e := c.parts[key]
	if e == nil {
		return nil
	}
	return c.use(e)
}

// lookup is peek with a pointer to the entry as last seen, which it updates.
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

// put adds or replaces a part and evicts others until all fit. A part larger than the cache is not
// added.
func (c *cache) put(key partKey, value any, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replace(key, value, bytes)
}

// putIfResized is put, unless the cache has the same value with the same size.
func (c *cache) putIfResized(key partKey, value any, bytes int) {
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

// count adds to the size of the cache.
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
