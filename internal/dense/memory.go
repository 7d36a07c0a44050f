package dense

// This file searches small collections in memory. What a principal may see comes from a view of the
// lexical index, which is one snapshot: segments, dead entries, labels. The vectors of a segment's
// passages never change, so they are loaded once and cached. Those of a merged segment are copied
// from the segments that it was merged from.
//
// The result is the same as the store's. Searches of large collections, and of those that curation
// has not fully indexed or encoded yet, go to the store.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/x448/float16"
	"golang.org/x/sync/singleflight"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/schema"
)

// VectorStore stores vectors.
type VectorStore interface {
	Nearest(ctx context.Context, q NearestQuery) ([]Hit, error)
	VectorsOf(ctx context.Context, q PassagesQuery) (map[lexical.Ref][]float32, error)
	// IndexedGeneration returns the live generation of a collection, and whether the index has all
	// of it.
	IndexedGeneration(ctx context.Context, tenant, collection uuid.UUID) (generation int, indexed bool, err error)
	// ReadVectors calls each with the vectors of some versions, in the bits of half precision.
	// Those of a version come in the order of its passages, and each must copy what it keeps.
	// ReadVectors calls versions to get the versions, once it knows the space of the collection's
	// vectors, and again if the store has to start again. If one of the segments does not exist or
	// is not of the live generation, or one of the versions still waits for the second encoder, it
	// reads nothing and returns false.
	ReadVectors(ctx context.Context, tenant, collection uuid.UUID, segments []uuid.UUID,
		versions func(space string, generation, dimension int) []uuid.UUID,
		each func(version, passage uuid.UUID, vector []uint16)) (read bool, err error)
}

// Views returns what a principal sees of a collection now; *search.Index implements it.
type Views interface {
	View(ctx context.Context, tenant, collection uuid.UUID, q lexical.TermQuery) (*search.View, error)
}

// MemoryVectors searches vectors; those of small collections in memory. It is safe for concurrent
// use.
type MemoryVectors struct {
	store  VectorStore
	views  Views
	cache  *Cache
	bytes  int64 // of the cache
	loads  singleflight.Group
	states sync.Map // by collectionKey: the collectionState of a collection
	// Now is the clock; time.Now except in tests.
	Now func() time.Time
}

type collectionKey struct{ tenant, collection uuid.UUID }

// collectionState is what is known of a collection's generation, and the number of passages that it
// had at the time.
type collectionState struct {
	generation int
	indexed    bool      // every live version has an entry; that stays true
	large      time.Time // when it was last too large; zero: it was not
}

// NewMemoryVectors returns a search that caches at most about cacheBytes of vectors.
func NewMemoryVectors(store VectorStore, views Views, cacheBytes int64) *MemoryVectors {
	return &MemoryVectors{store: store, views: views, cache: NewCache(cacheBytes), bytes: cacheBytes, Now: time.Now}
}

// largeTTL is how long a collection is considered large before it is checked again: it may have
// shrunk or been merged.
const largeTTL = 3 * time.Minute

// maxPassagesInMemory is the most passages that are compared in memory; with 256 dimensions that
// takes some milliseconds on one core.
const maxPassagesInMemory = 1 << 16

// maxPassages is the most passages, with vectors of a dimension, of a collection that is searched
// in memory: no more than the cache can hold.
func (v *MemoryVectors) maxPassages(dimension int) int {
	return int(min(maxPassagesInMemory, v.bytes/int64(2*max(dimension, 1))))
}

// Stats returns the counts of the cache.
func (v *MemoryVectors) Stats() CacheStats { return v.cache.Stats() }

// errNotInMemory means that the store has to answer.
var errNotInMemory = errors.New("not answered in memory")

// Nearest implements retrieval.Vectors.
func (v *MemoryVectors) Nearest(ctx context.Context, q NearestQuery) ([]Hit, error) {
	found, err := v.inMemory(ctx, q)
	if errors.Is(err, errNotInMemory) {
		return v.store.Nearest(ctx, q)
	}
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	return found, nil
}

func (v *MemoryVectors) inMemory(ctx context.Context, q NearestQuery) ([]Hit, error) {
	if q.K <= 0 {
		return nil, errNotInMemory
	}
	key := collectionKey{q.Principal.Tenant, q.Collection}
	loaded, _ := v.states.Load(key)
	state, _ := loaded.(collectionState)
	if !state.large.IsZero() && v.Now().Sub(state.large) < largeTTL {
		return nil, errNotInMemory
	}
	if !state.indexed {
		// Read before the view, which is then at least as new.
		generation, indexed, err := v.store.IndexedGeneration(ctx, key.tenant, key.collection)
		if err != nil {
			return nil, err
		}
		if !indexed {
			return nil, errNotInMemory
		}
		state = collectionState{generation: generation, indexed: true}
		v.states.Store(key, state)
	}
	if q.Generation != 0 && q.Generation != state.generation {
		v.states.Delete(key) // one of the two is not live; the store reports which
		return nil, errNotInMemory
	}
	view := q.View
	if view == nil {
		var err error
		if view, err = v.views.View(ctx, key.tenant, key.collection, lexical.TermQuery{Unit: schema.UnitPassage, Groups: q.Principal.Groups, Filter: q.Filter}); err != nil {
			return nil, err
		}
	}
	passages := 0
	for _, s := range view.Segments {
		passages += s.Passages
	}
	if passages > v.maxPassages(len(q.Vector)) {
		state.large = v.Now()
		v.states.Store(key, state)
		return nil, errNotInMemory
	}
	if !state.large.IsZero() {
		state.large = time.Time{}
		v.states.Store(key, state)
	}
	segments, err := v.segments(ctx, key, view)
	if err != nil {
		return nil, err
	}
	for _, s := range segments {
		if s.Generation != state.generation {
			v.states.Delete(key) // another generation is live: read its state again
			return nil, errNotInMemory
		}
		if len(s.IDs) > 0 && (s.Space != q.Space || s.Dimension != len(q.Vector)) {
			return nil, errNotInMemory // the store returns the error
		}
	}
	visible, err := view.Visible(q.Principal.Groups, q.Filter)
	if err != nil {
		return nil, err
	}
	// Rounded as the store rounds its vectors.
	top := NewTop(rounded(q.Vector), q.K)
	for i, s := range segments {
		if !scanVisible(top, i, s, view.Segments[i].Directory, visible[i], q.Within) {
			v.cache.Remove(SegmentKey{Tenant: key.tenant, Segment: view.Segments[i].ID})
			return nil, errNotInMemory
		}
	}
	found := top.Neighbours()
	out := make([]Hit, len(found))
	for i, n := range found {
		out[i] = Hit{Passage: n.ID, Ref: view.Segments[n.Block].Directory.RefOf(n.Row), Similarity: float64(n.Similarity)}
	}
	return out, nil
}

// scanVisible compares the vectors of a segment's visible entries; if within is not nil, only of
// those places. It returns false if some are missing.
func scanVisible(top *Top, number int, s *Segment, d *segment.Directory, visible search.Bits, within []lexical.Ref) bool {
	if within == nil {
		for e := range d.Len() {
			if !visible.Has(e) {
				continue
			}
			if !s.Filled(e) {
				return false
			}
			entry := d.Entry(e)
			top.Scan(number, &s.Block, entry.FirstPassage, entry.FirstPassage+entry.Passages)
		}
		return true
	}
	rows := map[int]bool{} // places may overlap
	for _, ref := range within {
		for _, e := range d.EntriesOf(ref.Version) {
			if !visible.Has(e) || ref.Section >= d.Entry(e).Sections {
				continue
			}
			if !s.Filled(e) {
				return false
			}
			first, end := rowsOf(d, e, ref)
			for row := first; row < end; row++ {
				rows[row] = true
			}
		}
	}
	for row := range rows {
		top.Scan(number, &s.Block, row, row+1)
	}
	return true
}

// rowsOf returns the rows of a place in an entry that has its section; none if first is not below
// end.
func rowsOf(d *segment.Directory, entry int, ref lexical.Ref) (first, end int) {
	if ref.Section < 0 {
		e := d.Entry(entry)
		return e.FirstPassage, e.FirstPassage + e.Passages
	}
	first, end = d.PassagesOf(entry, ref.Section)
	if ref.Passage >= 0 {
		first, end = first+ref.Passage, min(first+ref.Passage+1, end)
	}
	return first, end
}

func rounded(v []float32) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float16.Fromfloat32(x).Float32()
	}
	return out
}
