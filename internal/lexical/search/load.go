package search

// Loading of what a query needs: from the cache, and the rest with one statement. Its snapshot also
// gives the list of segments and the dead entries. Queries that miss the same parts wait for the
// one that loads them and then try again themselves, so that none sees a state older than its own
// call.

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
)

const (
	// eagerBytes is the size up to which a new segment is loaded with the list of segments: about
	// that of a batch of ingestion.
	eagerBytes = 1 << 20
	// maxStatements is after how many statements a query loads all that it needs, without waiting
	// for others.
	maxStatements = 3
	// maxClusterChanges is how many changed assignments are loaded before all are loaded again.
	maxClusterChanges = 10_000
)

// snapshot are the parts that a query works on.
type snapshot struct {
	state    *collectionState
	segments []snapshotSegment // by id
	dead     *deadEntries
	clusters *clustersPart
}

// snapshotSegment is a segment with the pages that the query needs; pages that are not loaded yet
// are nil.
type snapshotSegment struct {
	*openSegment
	pages []NumberedPage
}

func (h *snapshot) find(id uuid.UUID) (at int, found bool) {
	return slices.BinarySearchFunc(h.segments, id, func(s snapshotSegment, id uuid.UUID) int { return compareIDs(s.ID, id) })
}

// addSegment adds a segment.
func (h *snapshot) addSegment(s *openSegment, needs []string) *snapshotSegment {
	at := len(h.segments)
	if at > 0 && compareIDs(h.segments[at-1].ID, s.ID) > 0 {
		at, _ = h.find(s.ID)
	}
	// Most terms are on one page.
	pages := make([]NumberedPage, 0, len(needs)+1)
	s.EachPage(needs, func(n int) { pages = append(pages, NumberedPage{Number: n}) })
	h.segments = slices.Insert(h.segments, at, snapshotSegment{s, pages})
	return &h.segments[at]
}

func (x *Index) load(ctx context.Context, tenant, collection uuid.UUID, q lexical.TermQuery) (collectionView, error) {
	needs := slices.Compact(slices.Sorted(slices.Values(Needs(q))))
	h := &snapshot{}
	waited := map[partKey]bool{}
	for statements := 0; ; {
		l := Load{Tenant: tenant, Collection: collection, Terms: needs, Eager: eagerBytes, Clusters: clustered(q)}
		since := x.finishedLoads()
		missing := x.fillFromCache(h, &l)
		if statements >= maxStatements {
			l.Eager = math.MaxInt64
			waited = nil
		}
		wait, end := x.claimLoads(missing, since, waited)
		if wait != nil {
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return collectionView{}, ctx.Err()
			}
		}
		statements++
		r, err := x.loadMissing(ctx, h, l, end)
		if err != nil {
			return collectionView{}, err
		}
		if view := h.view(); view != nil {
			key := partKey{tenant, collection, partStatistics}
			statistics := x.statisticsFor(key, h.state)
			view.Statistics = statistics.cache
			if err := x.loadFilter(ctx, tenant, collection, view, q.Filter); err != nil {
				return collectionView{}, err
			}
			return collectionView{view: view, language: r.Language, generation: r.Generation, revision: r.Revision, key: key, statistics: statistics}, nil
		}
	}
}

// loadMissing runs one statement. Queries that miss the same parts wait until it ends.
func (x *Index) loadMissing(ctx context.Context, h *snapshot, l Load, end func()) (Loaded, error) {
	defer end()
	r, err := x.storage.LoadLexical(ctx, l)
	if err != nil {
		return r, err
	}
	return r, x.addLoaded(h, l, r)
}

// fillFromCache fills the snapshot from the cache and writes into l what is missing. It returns the
// keys of the missing parts.
func (x *Index) fillFromCache(h *snapshot, l *Load) (missing []partKey) {
	x.cache.mu.Lock()
	defer x.cache.mu.Unlock()
	of := func(part int) any { return x.cache.get(partKey{l.Tenant, l.Collection, part}) }
	if h.dead, _ = of(partDead).(*deadEntries); h.dead != nil {
		l.Dead = h.dead.mark
	}
	h.clusters = nil
	if l.Clusters {
		if h.clusters, _ = of(partClusters).(*clustersPart); h.clusters == nil {
			missing = append(missing, partKey{l.Tenant, l.Collection, partClusters})
		} else if h.clusters.stale() {
			h.clusters = nil
		} else {
			l.Epoch = h.clusters.mark
		}
	}
	if h.state, _ = of(partCollection).(*collectionState); h.state != nil {
		l.Live = h.state.mark
		missing = x.fillSegments(h, l, missing)
	} else {
		missing = append(missing, partKey{l.Tenant, l.Collection, partCollection})
	}
	if h.state != nil && len(h.segments) == len(h.state.live) && len(l.Wanted) == 0 {
		l.Known = h.state.live // all of them, and no other
		return missing
	}
	for _, s := range h.segments {
		l.Known = append(l.Known, s.ID)
	}
	return missing
}

// fillSegments is the part of fillFromCache for segments and their pages.
func (x *Index) fillSegments(h *snapshot, l *Load, missing []partKey) []partKey {
	if h.segments == nil {
		h.segments = make([]snapshotSegment, 0, len(h.state.live))
	}
	for _, id := range h.state.live {
		var s *snapshotSegment
		if at, found := h.find(id); found {
			s = &h.segments[at]
		} else if open, _ := x.cache.get(partKey{l.Tenant, id, partSegment}).(*openSegment); open != nil {
			s = h.addSegment(open, l.Terms)
		} else {
			l.Wanted = append(l.Wanted, id)
			missing = append(missing, partKey{l.Tenant, id, partSegment})
			continue
		}
		for i := range s.pages {
			p := &s.pages[i]
			if p.Page != nil {
				continue
			}
			if p.Page = s.page(x.cache, l.Tenant, p.Number); p.Page == nil {
				l.Pages = append(l.Pages, PageKey{id, p.Number})
				missing = append(missing, partKey{l.Tenant, id, p.Number})
			}
		}
	}
	return missing
}

// finishedLoads returns how many loads have ended.
func (x *Index) finishedLoads() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.finished
}

// closedChannel is for queries that may try again at once.
var closedChannel = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// claimLoads registers the caller as the one that loads the missing parts, until it calls end. If
// another query loads one of them, or a load has ended since the caller looked into the cache, it
// returns a channel instead: the caller waits for it and looks again. A query waits for each part
// once, because a part may be evicted at once; waited remembers them. With a nil map it does not
// wait.
func (x *Index) claimLoads(missing []partKey, since int, waited map[partKey]bool) (wait <-chan struct{}, end func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, key := range missing {
		if waited == nil || waited[key] {
			continue
		}
		if other := x.loading[key]; other != nil {
			waited[key] = true
			return other, nil
		}
		if x.finished != since {
			return closedChannel, nil
		}
	}
	done := make(chan struct{})
	claimed := missing[:0:0]
	for _, key := range missing {
		if x.loading[key] == nil {
			x.loading[key] = done
			claimed = append(claimed, key)
		}
	}
	return nil, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		for _, key := range claimed {
			delete(x.loading, key)
		}
		x.finished++
		close(done)
	}
}

// addLoaded decodes what was loaded, and adds it to the snapshot and the cache.
func (x *Index) addLoaded(h *snapshot, l Load, r Loaded) error {
	put := func(of uuid.UUID, part int, value any, bytes int) {
		x.cache.put(partKey{l.Tenant, of, part}, value, bytes)
	}
	directories := map[PageKey]bool{}
	for id, header := range r.Headers {
		s, directory, err := segment.Open(id, header, func(n int) []byte {
			at := PageKey{id, n}
			directories[at] = true
			return r.Pages[at]
		})
		if err != nil {
			return err
		}
		open := &openSegment{Header: s, directory: directory, cacheEntries: make([]*cacheEntry, s.PageCount())}
		if _, found := h.find(id); !found {
			h.addSegment(open, l.Terms)
		}
		put(id, partSegment, open, open.bytes())
	}
	for at, data := range r.Pages {
		if directories[at] {
			continue
		}
		p, err := segment.DecodePage(data)
		if err != nil {
			return fmt.Errorf("page %d of segment %s: %w", at.Page, at.Segment, err)
		}
		if i, found := h.find(at.Segment); found {
			h.segments[i].setPage(at.Page, p)
		}
		put(at.Segment, at.Page, p, p.Bytes())
	}
	h.state = h.state.update(r)
	put(l.Collection, partCollection, h.state, h.state.bytes())
	if h.dead == nil || h.dead.mark != r.Dead {
		entries := make(map[uuid.UUID]bool, len(r.Entries))
		if h.dead != nil && r.After {
			entries = maps.Clone(h.dead.entries) // running searches use the old one
		}
		for _, id := range r.Entries {
			entries[id] = true
		}
		h.dead = &deadEntries{mark: r.Dead, entries: entries}
		put(l.Collection, partDead, h.dead, 40*len(entries))
	}
	if l.Clusters {
		if c := h.clusters.withChanges(r); c != h.clusters {
			h.clusters = c
			put(l.Collection, partClusters, c, c.clusters.Bytes())
		}
	}
	for _, id := range h.state.live {
		at, found := h.find(id)
		if !found {
			continue
		}
		for _, p := range h.segments[at].pages {
			if p.Page == nil {
				return fmt.Errorf("page %d of segment %s is missing: %w", p.Number, id, segment.ErrCorrupt)
			}
		}
	}
	return nil
}

// setPage sets the page of a number, if the query needs it.
func (s *snapshotSegment) setPage(number int, page *segment.Page) {
	for i := range s.pages {
		if s.pages[i].Number == number {
			s.pages[i].Page = page
		}
	}
}

// stale reports whether all assignments are to be loaded again.
func (c *clustersPart) stale() bool { return c.changed > c.read+maxClusterChanges }

// withChanges returns the clusters with the assignments that were loaded.
func (c *clustersPart) withChanges(r Loaded) *clustersPart {
	switch {
	case c == nil || c.mark.Generation != r.Epoch.Generation:
		return &clustersPart{mark: r.Epoch, clusters: lexical.NewClusters(r.Changes), read: len(r.Changes)}
	case c.mark == r.Epoch:
		return c
	}
	return &clustersPart{mark: r.Epoch, clusters: c.clusters.With(r.Changes), read: c.read, changed: c.changed + len(r.Changes)}
}

// view returns the view of the snapshot, or nil if a segment is missing.
func (h *snapshot) view() *View {
	v := &View{Segments: make([]SegmentView, 0, len(h.state.live)), Dead: h.dead.entries}
	if h.clusters != nil {
		v.Clusters = h.clusters.clusters
	}
	for _, id := range h.state.live {
		at, found := h.find(id)
		if !found {
			return nil
		}
		s := &h.segments[at]
		v.Segments = append(v.Segments, SegmentView{s.Header, s.directory, s.pages, &s.clusters})
	}
	return v
}
