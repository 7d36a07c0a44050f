package search

// Searches that need nothing from the storage but the collection's revision. A query works on the
// last loaded state while the storage is asked for the revision; its result counts only when the
// state has that revision.

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/schema"
)

// collectionState is the state of a collection at its last load. It is current as long as the
// storage has its revision.
type collectionState struct {
	revision   int64
	language   string
	generation int
	live       []uuid.UUID // by id
	mark       ListMark
	dead       DeadFingerprint
	epoch      EpochMark
	// cacheEntries are the cache's entries of the segments, as last seen. The cache's lock guards
	// them.
	cacheEntries []*cacheEntry
}

func (s *collectionState) bytes() int { return 24 * len(s.live) }

// update returns the state after a load; before is the previous one, or nil.
func (before *collectionState) update(r Loaded) *collectionState {
	s := &collectionState{
		revision: r.Revision, language: r.Language, generation: r.Generation, mark: r.Mark, dead: r.Dead, epoch: r.Epoch,
	}
	if before != nil && before.mark == r.Mark {
		s.live, s.cacheEntries = before.live, before.cacheEntries
	} else {
		s.live, s.cacheEntries = r.Live, make([]*cacheEntry, len(r.Live))
	}
	return s
}

// clustered reports whether the query needs the clusters of sections.
func clustered(q lexical.TermQuery) bool {
	return q.Unit == schema.UnitCluster || q.Within != nil && q.Within.Clusters != nil
}

// lastState returns the last loaded state of a collection; nil: the cache has none.
func (x *Index) lastState(tenant, collection uuid.UUID) *collectionState {
	x.cache.mu.Lock()
	defer x.cache.mu.Unlock()
	state, _ := x.cache.peek(partKey{tenant, collection, partCollection}).(*collectionState)
	return state
}

// searchCached searches a state while the storage is asked for the revision. ok says that the state
// is current and the cache had all that the query needs.
func (x *Index) searchCached(ctx context.Context, tenant, collection uuid.UUID, state *collectionState, q lexical.TermQuery) (r lexical.Result, ok bool, err error) {
	current := x.checkRevision(ctx, tenant, collection, state)
	defer current()
	if s, known := x.viewFromCache(tenant, collection, state, q, false); known {
		r, err = x.search(s, q)
		ok = true
	}
	return r, current() && ok, err
}

// cachedView returns a view for a query, if the cache has all of it and it is current.
func (x *Index) cachedView(ctx context.Context, tenant, collection uuid.UUID, q lexical.TermQuery) (collectionView, bool) {
	state := x.lastState(tenant, collection)
	if state == nil {
		return collectionView{}, false
	}
	current := x.checkRevision(ctx, tenant, collection, state)
	defer current()
	s, ok := x.viewFromCache(tenant, collection, state, q, true)
	return s, current() && ok
}

// checkRevision asks the storage whether a state is current. It does not wait for the reply; the
// function that it returns does, and must be called. That returns false on errors, which the load
// that follows reports.
func (x *Index) checkRevision(ctx context.Context, tenant, collection uuid.UUID, state *collectionState) (current func() bool) {
	wait := x.revisions.begin(ctx, tenant, collection)
	answered := false
	return func() bool {
		if answered {
			return false
		}
		answered = true
		revision, err := wait()
		return err == nil && revision == state.revision
	}
}

// viewFromCache returns a view of a state for a query, if the cache has all of it.
func (x *Index) viewFromCache(tenant, collection uuid.UUID, state *collectionState, q lexical.TermQuery, labels bool) (s collectionView, ok bool) {
	s, ok = x.segmentsFromCache(tenant, collection, state, q, labels)
	return s, ok && x.filterFromCache(tenant, collection, s.view, q.Filter)
}

// segmentsFromCache is viewFromCache without q's filter. Unless labels is set, it leaves out pages
// of labels where the visible entries are cached, and pages of terms whose lists are.
func (x *Index) segmentsFromCache(tenant, collection uuid.UUID, state *collectionState, q lexical.TermQuery, labels bool) (s collectionView, ok bool) {
	c := x.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	of := func(part int) any { return c.peek(partKey{tenant, collection, part}) }
	dead, _ := of(partDead).(*deadEntries)
	if dead == nil || dead.mark != state.dead {
		return s, false
	}
	v := &View{Dead: dead.entries}
	if clustered(q) {
		k, _ := of(partClusters).(*clustersPart)
		if k == nil || k.mark != state.epoch || k.stale() {
			return s, false
		}
		v.Clusters = k.clusters
	}
	s = collectionView{view: v, language: state.language, generation: state.generation, revision: state.revision, key: partKey{tenant, collection, partStatistics}}
	if s.statistics, _ = of(partStatistics).(*statistics); !s.statistics.validFor(state) {
		s.statistics = newStatistics(state, x.cache.stats.Limit)
	}
	v.Statistics = s.statistics.cache
	needs := q.Terms
	if v.visibleKey = groupsKey(q.Groups); !labels {
		v.visibleSets = v.Statistics.cachedVisible(v.visibleKey)
		v.lists, needs = v.Statistics.cachedLists(q.Terms)
	}
	if v.visibleSets == nil {
		needs = slices.Concat(needs, NeedsOfGroups(q.Groups))
	}
	needs = slices.Compact(slices.Sorted(slices.Values(needs)))
	v.Segments = make([]SegmentView, len(state.live))
	pages := make([]NumberedPage, 0, len(state.live)*(len(needs)+1)) // most terms have one
	for i, id := range state.live {
		open, _ := c.lookup(&state.cacheEntries[i], partKey{tenant, id, partSegment}).(*openSegment)
		if open == nil {
			return s, false
		}
		first, missing := len(pages), false
		open.EachPage(needs, func(n int) {
			p, _ := c.lookup(&open.cacheEntries[n], partKey{tenant, id, n}).(*segment.Page)
			missing = missing || p == nil
			pages = append(pages, NumberedPage{n, p})
		})
		if missing {
			return s, false
		}
		v.Segments[i] = SegmentView{open.Header, open.directory, pages[first:len(pages):len(pages)], &open.clusters}
	}
	return s, true
}
