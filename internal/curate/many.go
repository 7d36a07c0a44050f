package curate

// The step of CurateCollections: many small collections.

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/curate/due"
	"github.com/sluice-rag/sluice/internal/durable/heartbeat"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// manySlice is how long a step continues for one collection of many.
	manySlice = time.Second
	// maxTended is how many collections are tended at a time.
	maxTended = 2
)

// Many does what is due for collections, in order, until its time is over. It returns how many it
// dealt with, and which of them need a curation of their own.
func (a *Activities) Many(ctx context.Context, in wire.Curations) (out wire.CuratedMany, err error) {
	defer heartbeat.Start(ctx, heartbeat.Every)()
	byTenant := map[uuid.UUID][]uuid.UUID{}
	for _, c := range in.Collections {
		byTenant[c.Tenant] = append(byTenant[c.Tenant], c.Collection)
	}
	work := map[wire.Curation]due.Work{}
	for tenant, collections := range byTenant {
		found, err := a.store.WorkDue(ctx, tenant, collections, max(a.options.Keep, 0))
		if err != nil {
			return out, fmt.Errorf("see what is due for %d collections: %w", len(collections), err)
		}
		for collection, w := range found {
			work[wire.Curation{Tenant: tenant, Collection: collection}] = w
		}
	}
	quick := Activities{store: a.store, encoder: a.encoder, options: a.options}
	quick.options.Slice = min(a.options.Slice, manySlice)
	begin := time.Now()
	var mu sync.Mutex
	// next returns the next collection while there is time.
	next := func() (c wire.Curation, found bool) {
		mu.Lock()
		defer mu.Unlock()
		if out.Did == len(in.Collections) || out.Did > 0 && (time.Since(begin) > a.options.Slice || ctx.Err() != nil) {
			return c, false
		}
		out.Did++
		return in.Collections[out.Did-1], true
	}
	var tending sync.WaitGroup
	for range maxTended {
		tending.Go(func() {
			for c, found := next(); found; c, found = next() {
				w, found := work[c]
				if !found {
					continue // it has been purged
				}
				if !w.Small || quick.tend(ctx, c, w) {
					mu.Lock()
					out.Alone = append(out.Alone, c)
					mu.Unlock()
				}
			}
		})
	}
	tending.Wait()
	return out, ctx.Err()
}

// tend does what is due for a small collection, and reports whether something is left.
func (a *Activities) tend(ctx context.Context, c wire.Curation, w due.Work) (left bool) {
	for _, s := range []struct {
		due bool
		do  func(context.Context, wire.Curation) (wire.Curated, error)
	}{{w.Cluster, a.Cluster}, {w.Merge, a.Merge}, {w.Sweep, a.Sweep}} {
		if !s.due {
			continue
		}
		out, err := s.do(ctx, c)
		if err != nil {
			slog.DebugContext(ctx, "cannot curate a collection together with others; curating it alone", "tenant", c.Tenant, "collection", c.Collection, "error", err)
		}
		left = left || err != nil || out.More
	}
	return left
}
