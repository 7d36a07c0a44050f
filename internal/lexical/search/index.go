// Package search searches the lexical index, exactly. An Index loads what a query
// needs from a Storage, keeps it in memory (cache.go, load.go, recall.go), and
// searches the View that comes of it (search.go): by windows of units where units
// nest (window.go), by sums over all postings where they are clusters
// (clustersearch.go).
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

// Index searches the collections in a storage, of any number of tenants. It
// asks the storage about every query, once when it has all else in memory, so
// that what was committed is found by the next query, and what was deleted is
// not. Many goroutines may use it.
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

// Stats tells how the cache does.
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
			state = nil // it was looked at
		}
		s, err := x.load(ctx, tenant, collection, q)
		if err != nil {
			return lexical.Result{}, fmt.Errorf("search collection %s: %w", collection, err)
		}
		if s.language == language {
			return x.search(s, q)
		}
		language = s.language // not known yet, or another generation's
	}
}

// Searcher searches one state of a collection.
type Searcher interface {
	// Search is for queries with terms and groups among those that it was
	// opened for, and its filter or none.
	Search(q lexical.TermQuery) (lexical.Result, error)
	// Counts tells how many sections that the query's groups may see have each of its
	// terms, most at most.
	Counts(q lexical.TermQuery, most int) (map[string]int, error)
	// Passes reports whether the filter that it was opened for lets a version through.
	Passes(version uuid.UUID) bool
	// Generation is the collection's that is searched.
	Generation() int
	// Revision is the collection's that is searched.
	Revision() int64
	// View is what is searched, with the pages of what it was opened for.
	View() *View
}

// Open loads once what several searches need: those for q's terms, groups and filter,
// in any unit, and in clusters when q is of clusters. They all see the
// collection as it is now.
func (x *Index) Open(ctx context.Context, tenant, collection uuid.UUID, q lexical.TermQuery) (Searcher, error) {
	s, err := x.view(ctx, tenant, collection, q)
	if err != nil {
		return nil, fmt.Errorf("search collection %s: %w", collection, err)
	}
	return snapshotSearcher{x, s}, nil
}

// OpenCached is Open by what is in memory: of the collection as it was when it was last
// loaded. ok is false where memory lacks some of it.
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

func (o snapshotSearcher) Counts(q lexical.TermQuery, most int) (map[string]int, error) {
	counts, err := o.state.view.Counts(q, most)
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

// View returns what a query sees of a collection now, with all the pages that
// it needs. It stays valid whatever happens to the collection and the cache.
func (x *Index) View(ctx context.Context, tenant, collection uuid.UUID, q lexical.TermQuery) (*View, error) {
	s, err := x.view(ctx, tenant, collection, q)
	if err != nil {
		return nil, fmt.Errorf("view collection %s: %w", collection, err)
	}
	return s.view, nil
}

// view gets what a query sees of a collection now.
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

// collectionView is a view of a collection, and what it is a view of.
type collectionView struct {
	view       *View
	language   string
	generation int
	revision   int64
	key        partKey // of the statistics
	statistics *statistics
}

// openSegment is a segment whose header and directory are read.
type openSegment struct {
	*segment.Header
	directory *segment.Directory
	// cacheEntries are where the cache last had the segment's pages. The cache's lock
	// is theirs.
	cacheEntries []*cacheEntry
	// clusters are those of the sections in the snapshot asked for last.
	clusters atomic.Pointer[segmentClusters]
}

// bytes is about what the segment takes in memory, with its clusters.
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
	mark    DeadMark
	entries map[uuid.UUID]bool
}

type clustersPart struct {
	mark     EpochMark
	clusters *lexical.Clusters
	// read and changed are how many assignments were read at first and since:
	// what ended in between is still there, until all is read again.
	read, changed int
}

// statistics belong to one state of a collection.
type statistics struct {
	live  ListMark
	dead  DeadMark
	cache *StatisticsCache
}

func newStatistics(s *collectionState) *statistics {
	return &statistics{s.mark, s.dead, NewStatisticsCache()}
}

// validFor says whether these are the statistics of a state.
func (k *statistics) validFor(s *collectionState) bool {
	return k != nil && k.live == s.mark && k.dead == s.dead
}

// statisticsFor finds the statistics of a state, or begins new ones.
func (x *Index) statisticsFor(key partKey, s *collectionState) *statistics {
	x.cache.mu.Lock()
	defer x.cache.mu.Unlock()
	if known, _ := x.cache.get(key).(*statistics); known.validFor(s) {
		return known
	}
	return newStatistics(s)
}

// cacheStatistics keeps what a search may have added to.
func (x *Index) cacheStatistics(s collectionView) {
	x.cache.putIfGrown(s.key, s.statistics, s.statistics.cache.Bytes())
}
