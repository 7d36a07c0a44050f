package search

// This file answers from memory alone. A query works on the state that its
// collection was last seen in, while the storage is asked whether that is still
// the newest; the answer counts only when it is.

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/schema"
)

// collectionState is what the last load saw of a collection. It stands for
// everything: as long as the storage has the same revision, so do the marks.
type collectionState struct {
	revision   int64
	language   string
	generation int
	live       []uuid.UUID // by id
	mark       ListMark
	dead       DeadMark
	epoch      EpochMark
	// cacheEntries are where the cache last had the segments. The cache's lock is
	// theirs.
	cacheEntries []*cacheEntry
}

func (s *collectionState) bytes() int { return 24 * len(s.live) }

// update is the state that a load saw; before is the one that was known, or nil.
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

// clustered says whether the query needs to know the clusters of sections.
func clustered(q lexical.TermQuery) bool {
	return q.Unit == schema.UnitCluster || q.Within != nil && q.Within.Clusters != nil
}

// lastState is what is known of a collection; nil: nothing.
func (x *Index) lastState(tenant, collection uuid.UUID) *collectionState {
	x.cache.mu.Lock()
	defer x.cache.mu.Unlock()
	state, _ := x.cache.peek(partKey{tenant, collection, partCollection}).(*collectionState)
	return state
}

// searchCached searches a state while the storage is asked about it. ok says that
// it is the newest, and that all that the query needs was in memory.
func (x *Index) searchCached(ctx context.Context, tenant, collection uuid.UUID, state *collectionState, q lexical.TermQuery) (r lexical.Result, ok bool, err error) {
	newest := x.checkRevision(ctx, tenant, collection, state)
	defer newest()
	if s, known := x.viewFromCache(tenant, collection, state, q, false); known {
		r, err = x.search(s, q)
		ok = true
	}
	return r, newest() && ok, err
}

// cachedView is what a query sees, when all that it needs is in memory and of the
// newest state.
func (x *Index) cachedView(ctx context.Context, tenant, collection uuid.UUID, q lexical.TermQuery) (collectionView, bool) {
	state := x.lastState(tenant, collection)
	if state == nil {
		return collectionView{}, false
	}
	newest := x.checkRevision(ctx, tenant, collection, state)
	defer newest()
	s, ok := x.viewFromCache(tenant, collection, state, q, true)
	return s, newest() && ok
}

// checkRevision asks the storage whether a state is the newest. It does not wait, the
// function that it returns does; it is to be called, whatever happens. When the storage does not answer, the load that
// follows will tell why.
func (x *Index) checkRevision(ctx context.Context, tenant, collection uuid.UUID, state *collectionState) (newest func() bool) {
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

// viewFromCache puts together what a query sees of a state, from memory alone.
func (x *Index) viewFromCache(tenant, collection uuid.UUID, state *collectionState, q lexical.TermQuery, labels bool) (s collectionView, ok bool) {
	s, ok = x.segmentsFromCache(tenant, collection, state, q, labels)
	return s, ok && x.filterFromCache(tenant, collection, s.view, q.Filter)
}

// segmentsFromCache is recall without what q's filter leaves. Pages of
// labels are left out where who may see what is known, and those of terms whose
// lists are, unless labels is set.
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
		s.statistics = newStatistics(state)
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
		first, lacking := len(pages), false
		open.EachPage(needs, func(n int) {
			p, _ := c.lookup(&open.cacheEntries[n], partKey{tenant, id, n}).(*segment.Page)
			lacking = lacking || p == nil
			pages = append(pages, NumberedPage{n, p})
		})
		if lacking {
			return s, false
		}
		v.Segments[i] = SegmentView{open.Header, open.directory, pages[first:len(pages):len(pages)], &open.clusters}
	}
	return s, true
}
