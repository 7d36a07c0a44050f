package search

// This file asks the storage for revisions. Searches of one collection that run
// at the same time share questions: whoever comes while one is on its way, which
// may have been answered before, waits for the next one with all others that came
// meanwhile. So a storage is asked about a collection once at a time, however many
// search it.

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// revisions are the questions about revisions that are not answered yet.
type revisions struct {
	storage Storage

	mu     sync.Mutex
	queues map[collectionKey]*requestQueue
}

type collectionKey struct{ tenant, collection uuid.UUID }

// requestQueue are the questions about one collection: the one on its way and the one
// that follows it, which is still to be asked; either may be nil.
type requestQueue struct{ running, next *revisionRequest }

// revisionRequest is asked once, and its answer read by all who share it.
type revisionRequest struct {
	key       collectionKey
	exclusive bool             // of one search alone
	previous  *revisionRequest // to be answered first, or nil
	closed    bool             // nobody joins it any more
	// wait gives the answer of a question on its way. Who holds busy, of size one,
	// may use it.
	wait     func() (int64, error)
	lock     chan struct{}
	answered bool
	revision int64
	err      error
}

func newRevisions(s Storage) *revisions {
	return &revisions{storage: s, queues: map[collectionKey]*requestQueue{}}
}

// begin begins to read a collection's revision, and does not wait. The answer, to be
// called once, counts whatever was committed before ask was called.
func (r *revisions) begin(ctx context.Context, tenant, collection uuid.UUID) (answer func() (int64, error)) {
	key := collectionKey{tenant, collection}
	q := &revisionRequest{key: key, lock: make(chan struct{}, 1)}
	r.mu.Lock()
	t := r.queues[key]
	switch {
	case t == nil:
		q.exclusive, q.closed = true, true
		q.lock <- struct{}{}
		r.queues[key] = &requestQueue{running: q}
		r.mu.Unlock()
		q.wait = r.storage.LexicalRevision(ctx, tenant, collection)
		<-q.lock
		return func() (int64, error) {
			// Whoever has the question now waits under this ctx, so it is soon done.
			q.lock <- struct{}{}
			return r.await(ctx, q)
		}
	case t.next == nil:
		q.previous = t.running
		t.next = q
	default:
		q = t.next
	}
	r.mu.Unlock()
	return func() (int64, error) {
		select {
		case q.lock <- struct{}{}:
			return r.await(ctx, q)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// await reads the answer, and asks first where that is still to be done. The
// caller has put itself into busy.
func (r *revisions) await(ctx context.Context, q *revisionRequest) (int64, error) {
	defer func() { <-q.lock }()
	if q.answered {
		return q.revision, q.err
	}
	if q.wait == nil {
		if err := r.waitTurn(ctx, q); err != nil {
			return 0, err // the others that share it go on
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		q.wait = r.storage.LexicalRevision(ctx, q.key.tenant, q.key.collection)
	}
	q.revision, q.err = q.wait()
	q.wait = nil
	if err := ctx.Err(); q.err != nil && err != nil && !q.exclusive {
		return 0, err // the others ask again
	}
	q.answered = true
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.queues[q.key]; t != nil && t.running == q {
		if t.running = nil; t.next == nil {
			delete(r.queues, q.key)
		}
	}
	return q.revision, q.err
}

// waitTurn waits until it is q's turn: from then on nobody joins it.
func (r *revisions) waitTurn(ctx context.Context, q *revisionRequest) error {
	if q.closed {
		return nil
	}
	if before := q.previous; before != nil {
		select {
		case before.lock <- struct{}{}:
			_, _ = r.await(ctx, before) // its error is its own callers'
			if err := ctx.Err(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		q.previous = nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.queues[q.key]
	t.running, t.next = q, nil
	q.closed = true
	return nil
}
