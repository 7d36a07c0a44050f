package ingest

// The second stage: blocks become what searches find. Texts and vectors stay in memory on their way
// through the models into the store.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// writesAtOnce is how many write transactions of a tenant run at a time. writtenCollections and
	// writtenDocuments are the most collections and documents in a transaction that writes several
	// collections.
	writesAtOnce       = 2
	writtenCollections = 16
	writtenDocuments   = 64
	// maxStaleTries is how often versions are cut because their collection's generation changed
	// meanwhile.
	maxStaleTries = 5
)

// Index makes the versions of a batch ready: it cuts and encodes what Parse left,
// and writes it.
func (a *Activities) Index(ctx context.Context, in wire.IngestVersions) ([]wire.Outcome, error) {
	return a.run(ctx, "index", in, a.index)
}

func (a *Activities) index(ctx context.Context, w work) ([]wire.Outcome, []failure) {
	parsed, err := a.parsed(ctx, w)
	if err != nil {
		return nil, []failure{{w, err}}
	}
	docs, outcomes, err := a.documents(ctx, w, parsed)
	if err != nil {
		return nil, []failure{{w, err}}
	}
	var mu sync.Mutex
	var failures []failure
	var group errgroup.Group
	group.SetLimit(writesAtOnce)
	for _, some := range together(w.parts, docs) {
		group.Go(func() error {
			if out, done := a.writeTogether(ctx, w.tenant, some, docs); done {
				mu.Lock()
				defer mu.Unlock()
				outcomes = append(outcomes, out...)
				return nil
			}
			for _, part := range some {
				one := work{w.tenant, []wire.IngestBatch{part}}
				out, failed := guarded(ctx, one, func(ctx context.Context, one work) ([]wire.Outcome, []failure) {
					out, err := a.finish(ctx, one, docs[part.Collection], parsed)
					if err != nil {
						return nil, []failure{{one, err}}
					}
					return out, nil
				})
				mu.Lock()
				outcomes, failures = append(outcomes, out...), append(failures, failed...)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = group.Wait() // failures are in their own list
	return outcomes, failures
}

// together groups collections that have documents into those that are written in one transaction.
func together(parts []wire.IngestBatch, docs map[uuid.UUID]batch.Cut) [][]wire.IngestBatch {
	var out [][]wire.IngestBatch
	count := 0
	for _, part := range parts {
		n := len(docs[part.Collection].Documents)
		if n == 0 {
			continue
		}
		last := len(out) - 1
		if last < 0 || len(out[last]) == writtenCollections || count+n > writtenDocuments {
			out, count = append(out, nil), 0
			last++
		}
		out[last] = append(out[last], part)
		count += n
	}
	return out
}

// writeTogether writes several collections in one transaction. It reports false when they have to
// be written one by one: there is only one, their vectors are of several spaces, or the transaction
// failed.
func (a *Activities) writeTogether(ctx context.Context, tenant uuid.UUID, parts []wire.IngestBatch, docs map[uuid.UUID]batch.Cut) (out []wire.Outcome, done bool) {
	if len(parts) < 2 {
		return nil, false
	}
	cuts := make([]batch.Cut, len(parts))
	for i, part := range parts {
		cuts[i] = docs[part.Collection]
		for _, d := range cuts[i].Documents {
			if d.Vectors.Space != cuts[i].Documents[0].Vectors.Space {
				return nil, false
			}
		}
	}
	defer func() {
		if p := recover(); p != nil { // writing each by itself shows which one failed
			slog.ErrorContext(ctx, "writing collections together failed; writing them one by one", "tenant", tenant, "panic", p)
			out, done = nil, false
		}
	}()
	stop := timed(ctx, "index", "transaction")
	out, err := a.store.WriteCuts(ctx, tenant, cuts)
	stop()
	if err != nil {
		slog.DebugContext(ctx, "cannot write collections together; writing them one by one", "tenant", tenant, "collections", len(cuts), "error", err)
		return nil, false
	}
	for _, c := range cuts {
		a.wrote(ctx, tenant, c, out)
	}
	return out, true
}

// finish writes the documents of one collection, and retries while the store is unavailable. If
// another generation went live since they were cut, it cuts them again.
func (a *Activities) finish(ctx context.Context, one work, of batch.Cut, parsed map[uuid.UUID]schema.Parsed) (outcomes []wire.Outcome, err error) {
	collection := one.parts[0].Collection
	for try := 1; ; try++ {
		var out []wire.Outcome
		err := retry(ctx, "write", func() error {
			var err error
			out, err = a.write(ctx, one.tenant, of)
			return err
		})
		var stale *batch.StaleError
		if !errors.As(err, &stale) || try == maxStaleTries {
			return append(outcomes, out...), err
		}
		// Some may have been written: each space is written in its own transaction.
		var left []wire.Outcome
		if one, left, err = a.take(ctx, one); err != nil || len(one.parts) == 0 {
			return append(outcomes, left...), err
		}
		again, failed, err := a.documents(ctx, one, parsed)
		if err != nil {
			return nil, err
		}
		outcomes = append(append(outcomes, left...), failed...)
		if of = again[collection]; len(of.Documents) == 0 {
			return outcomes, nil
		}
	}
}

// documents cuts and encodes versions, and divides them by collection. If the model refuses one
// version, only that version fails.
func (a *Activities) documents(ctx context.Context, w work, parsed map[uuid.UUID]schema.Parsed) (map[uuid.UUID]batch.Cut, []wire.Outcome, error) {
	// The recipes are read before anything is cut: if a generation goes live meanwhile, the write
	// refuses what is cut here.
	collections := make([]uuid.UUID, len(w.parts))
	of := make(map[uuid.UUID]uuid.UUID, w.versions())
	for i, part := range w.parts {
		collections[i] = part.Collection
		for _, item := range part.Items {
			of[item.Version] = part.Collection
		}
	}
	recipes, err := a.store.LiveRecipes(ctx, w.tenant, collections)
	if err != nil {
		return nil, nil, fmt.Errorf("read the recipes of %d collections: %w", len(collections), err)
	}
	for _, c := range collections {
		if _, found := recipes[c]; !found {
			return nil, nil, fmt.Errorf("read the recipe of collection %s: %w", c, schema.ErrNotFound)
		}
	}
	docs, outcomes, err := a.segmentAll(ctx, w, parsed, recipes)
	if err != nil {
		return nil, nil, err
	}
	out := make(map[uuid.UUID]batch.Cut, len(w.parts))
	for _, d := range docs {
		c := of[d.Version]
		out[c] = batch.Cut{Collection: c, Recipe: recipes[c], Documents: append(out[c].Documents, d)}
	}
	return out, outcomes, nil
}

// segmentAll cuts and encodes versions all at once or, if the model server refuses that, one by
// one. A version that it refuses by itself fails.
func (a *Activities) segmentAll(ctx context.Context, w work, parsed map[uuid.UUID]schema.Parsed, recipes map[uuid.UUID]batch.Recipe) ([]batch.Document, []wire.Outcome, error) {
	drafts, outcomes, err := a.segment(ctx, w, parsed, recipes)
	var docs []batch.Document
	if err == nil && len(drafts) > 0 {
		docs, err = a.encode(ctx, drafts)
	}
	if !errors.Is(err, schema.ErrInvalid) {
		return docs, outcomes, err
	}
	items := w.items()
	if len(items) == 1 {
		return nil, []wire.Outcome{failed(items[0].Version, schema.ReasonModel, "the model server cannot take it: %v", err)}, nil
	}
	docs, outcomes = nil, nil
	for _, item := range items {
		one, out, err := a.segmentAll(ctx, w.only(func(i wire.Attempt) bool { return i == item }), parsed, recipes)
		if err != nil {
			return nil, nil, err
		}
		docs, outcomes = append(docs, one...), append(outcomes, out...)
	}
	return docs, outcomes, nil
}
