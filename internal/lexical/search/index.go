// Package search searches the lexical index with BM25; its results are exact. An Index loads what a
// query needs from a Storage into a cache (load.go, cache.go, fromcache.go) and searches a View of
// it (search.go). Passages, sections and documents are searched with MaxScore (window.go), clusters
// by scoring all postings (clustersearch.go).
package search

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

// Index searches the collections in a storage, of any number of tenants. Every query asks the
// storage at least for the collection's revision, so that it sees all that was committed before. It
// is safe for concurrent use.
type Index struct {
	storage   Storage
	revisions *revisions
	cache     *cache

	mu       sync.Mutex
	loading  map[partKey]chan struct{} // closed when the load has ended
	finished int                       // loads
}

// NewIndex returns an index whose decoded parts take at most about cacheBytes.
func NewIndex(storage Storage, cacheBytes int64) *Index {
	return &Index{storage: storage, revisions: newRevisions(storage), cache: newCache(cacheBytes), loading: map[partKey]chan struct{}{}}
}

// Stats returns the counts of the cache.
func (x *Index) Stats() CacheStats { return x.cache.snapshot() }

// Search finds the q.K best units of a collection. An unknown collection gives
// schema.ErrNotFound.
func (x *Index) Search(ctx context.Context, tenant, collection uuid.UUID, q lexical.TermQuery) (lexical.Result, error) {
	if state := x.lastState(tenant, collection); state != nil {
		if r, ok, err := x.searchCached(ctx, tenant, collection, state, q); ok {
			return r, err
		}
	}
	s, err := x.load(ctx, tenant, collection, q)
	if err != nil {
		return lexical.Result{}, fmt.Errorf("search collection %s: %w", collection, err)
	}
	return x.search(s, q)
}

// SearchText is Search for the terms of text in the collection's language.
func (x *Index) SearchText(ctx context.Context, tenant, collection uuid.UUID, text string, q lexical.TermQuery) (lexical.Result, error) {
	state := x.lastState(tenant, collection)
	language := ""
	if state != nil {
		language = state.language
	}
	for {
		q.Terms = nil
		if language != "" {
			a, err := lexical.NewAnalyzer(language)
			if err != nil {
				return lexical.Result{}, fmt.Errorf("search collection %s: %w", collection, err)
			}
			q.Terms = a.Terms(text)
		}
		if state != nil {
			if r, ok, err := x.searchCached(ctx, tenant, collection, state, q); ok {
				return r, err
			}
			state = nil // not current, or not all in the cache
		}
		s, err := x.load(ctx, tenant, collection, q)
		if err != nil {
			return lexical.Result{}, fmt.Errorf("search collection %s: %w", collection, err)
		}
		if s.language == language {
			return x.search(s, q)
		}
		language = s.language // not cached, or changed by a rebuild
	}
}

// Searcher searches one snapshot of a collection.
type Searcher interface {
	// Search accepts queries with terms and groups among those that it was opened for, and its
	// filter or none.
	Search(q lexical.TermQuery) (lexical.Result, error)
	// Counts returns how many sections that the query's groups may see have each of its terms. It
	// counts up to limit.
	Counts(q lexical.TermQuery, limit int) (map[string]int, error)
	// Passes reports whether a version matches the filter that it was opened for.
	Passes(version uuid.UUID) bool
	// Generation is the collection's generation.
	Generation() int
	// Revision is the collection's revision.
	Revision() int64
	// View is the snapshot, with the pages for the queries that it was opened for.
	View() *View
}

// Open loads a snapshot of a collection for several searches: for q's terms, groups and filter, in
// any unit, and in clusters if q's unit is.
func (x *Index) Open(ctx context.Context, tenant, collection uuid.UUID, q lexical.TermQuery) (Searcher, error) {
	s, err := x.view(ctx, tenant, collection, q)
	if err != nil {
		return nil, fmt.Errorf("search collection %s: %w", collection, err)
	}
	return snapshotSearcher{x, s}, nil
}

// OpenCached is Open without the storage: the snapshot is of the last load. ok is false if the
// cache does not have all of it.
func (x *Index) OpenCached(tenant, collection uuid.UUID, q lexical.TermQuery) (_ Searcher, ok bool) {
	state := x.lastState(tenant, collection)
	if state == nil {
		return nil, false
	}
	s, ok := x.viewFromCache(tenant, collection, state, q, true)
	return snapshotSearcher{x, s}, ok
}

type snapshotSearcher struct {
	index *Index
	state collectionView
}

func (o snapshotSearcher) Search(q lexical.TermQuery) (lexical.Result, error) {
	return o.index.search(o.state, q)
}

func (o snapshotSearcher) Counts(q lexical.TermQuery, limit int) (map[string]int, error) {
	counts, err := o.state.view.Counts(q, limit)
	if err != nil {
		return nil, fmt.Errorf("count terms of collection %s: %w", o.state.key.of, err)
	}
	o.index.cacheStatistics(o.state)
	return counts, nil
}

func (o snapshotSearcher) Passes(version uuid.UUID) bool { return o.state.view.passes(version) }

func (o snapshotSearcher) Generation() int { return o.state.generation }
func (o snapshotSearcher) Revision() int64 { return o.state.revision }
func (o snapshotSearcher) View() *View     { return o.state.view }

// View returns a snapshot of a collection with all the pages that a query needs. Changes of the
// collection or the cache do not affect it.
func (x *Index) View(ctx context.Context, tenant, collection uuid.UUID, q lexical.TermQuery) (*View, error) {
	s, err := x.view(ctx, tenant, collection, q)
	if err != nil {
		return nil, fmt.Errorf("view collection %s: %w", collection, err)
	}
	return s.view, nil
}

// view returns a current snapshot of a collection, from the cache or the storage.
func (x *Index) view(ctx context.Context, tenant, collection uuid.UUID, q lexical.TermQuery) (collectionView, error) {
	if s, ok := x.cachedView(ctx, tenant, collection, q); ok {
		return s, nil
	}
	return x.load(ctx, tenant, collection, q)
}

func (x *Index) search(s collectionView, q lexical.TermQuery) (lexical.Result, error) {
	result, err := s.view.Search(q)
	if err != nil {
		return lexical.Result{}, fmt.Errorf("search collection %s: %w", s.key.of, err)
	}
	x.cacheStatistics(s)
	return result, nil
}

// collectionView is a view of a collection, with the state that it shows.
type collectionView struct {
	view       *View
	language   string
	generation int
	revision   int64
	key        partKey // of the statistics
	statistics *statistics
}

// openSegment is a segment whose header and directory are decoded.
type openSegment struct {
	*segment.Header
	directory *segment.Directory
	// cacheEntries are the cache's entries of the pages, as last seen. The cache's lock guards
	// them.
	cacheEntries []*cacheEntry
	// clusters are the clusters of the sections, of the last snapshot that was searched.
	clusters atomic.Pointer[segmentClusters]
}

// bytes is the approximate size of the segment in memory, with its clusters.
func (s *openSegment) bytes() int {
	return s.Bytes() + s.directory.Bytes() + 20*(s.directory.Units(segment.ZoomSection)+1) + 8*len(s.cacheEntries)
}

// page returns a page if the cache c has it. The caller holds c.mu.
func (s *openSegment) page(c *cache, tenant uuid.UUID, number int) *segment.Page {
	at := &s.cacheEntries[number]
	if *at == nil || (*at).value == nil {
		*at = c.parts[partKey{tenant, s.ID, number}]
	}
	p, _ := c.use(*at).(*segment.Page)
	return p
}

type deadEntries struct {
	mark    DeadFingerprint
	entries map[uuid.UUID]bool
}

type clustersPart struct {
	mark     EpochMark
	clusters *lexical.Clusters
	// read and changed are how many assignments were loaded at first and since. Assignments that
	// have ended remain until all are loaded again.
	read, changed int
}

// statistics are the statistics of one state of a collection.
type statistics struct {
	live  ListMark
	dead  DeadFingerprint
	cache *StatisticsCache
}

// newStatistics returns the empty statistics of a state. limit is the size of the index's cache.
func newStatistics(s *collectionState, limit int64) *statistics {
	c := NewStatisticsCache()
	c.clusterPostingsLimit = int(limit / 4)
	return &statistics{s.mark, s.dead, c}
}

// validFor reports whether these are the statistics of a state.
func (k *statistics) validFor(s *collectionState) bool {
	return k != nil && k.live == s.mark && k.dead == s.dead
}

// statisticsFor returns the cached statistics of a state, or new ones.
func (x *Index) statisticsFor(key partKey, s *collectionState) *statistics {
	x.cache.mu.Lock()
	defer x.cache.mu.Unlock()
	if known, _ := x.cache.get(key).(*statistics); known.validFor(s) {
		return known
	}
	return newStatistics(s, x.cache.stats.Limit)
}

// cacheStatistics caches the statistics, to which a search may have added.
func (x *Index) cacheStatistics(s collectionView) {
	x.cache.putIfResized(s.key, s.statistics, s.statistics.cache.Bytes())
}
