package search

// Requests for revisions. Concurrent searches of a collection share them. A search that comes while
// a request is running cannot use its reply, which may be older than the search; it shares the next
// request with all others that come meanwhile. So at most one request runs for each collection.

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// revisions are the requests for revisions that have no reply yet.
type revisions struct {
	storage Storage

	mu     sync.Mutex
	queues map[collectionKey]*requestQueue
}

type collectionKey struct{ tenant, collection uuid.UUID }

// requestQueue are the requests for one collection: the running one and the next one; either may be
// nil.
type requestQueue struct{ running, next *revisionRequest }

// revisionRequest is sent once; all searches that share it read its reply.
type revisionRequest struct {
	key       collectionKey
	exclusive bool             // used by one search
	previous  *revisionRequest // to be waited for first, or nil
	closed    bool             // no other search may join it
	// wait waits for the reply of a running request. Like the fields below it is guarded by lock, a
	// channel of size one.
	wait     func() (int64, error)
	lock     chan struct{}
	answered bool
	revision int64
	err      error
}

func newRevisions(s Storage) *revisions {
	return &revisions{storage: s, queues: map[collectionKey]*requestQueue{}}
}

// begin requests a collection's revision and does not wait for it. await, to be called once,
// returns a revision that covers all that was committed before begin was called.
func (r *revisions) begin(ctx context.Context, tenant, collection uuid.UUID) (await func() (int64, error)) {
	key := collectionKey{tenant, collection}
	q := &revisionRequest{key: key, lock: make(chan struct{}, 1)}
	r.mu.Lock()
	queue := r.queues[key]
	switch {
	case queue == nil:
		q.exclusive, q.closed = true, true
		q.lock <- struct{}{}
		r.queues[key] = &requestQueue{running: q}
		r.mu.Unlock()
		q.wait = r.storage.LexicalRevision(ctx, tenant, collection)
		<-q.lock
		return func() (int64, error) {
			// The holder of the lock waits with this ctx, so it is done soon.
			q.lock <- struct{}{}
			return r.await(ctx, q)
		}
	case queue.next == nil:
		q.previous = queue.running
		queue.next = q
	default:
		q = queue.next
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

// await returns the reply, and sends the request first if that is not done. The caller holds the
// lock, which await releases.
func (r *revisions) await(ctx context.Context, q *revisionRequest) (int64, error) {
	defer func() { <-q.lock }()
	if q.answered {
		return q.revision, q.err
	}
	if q.wait == nil {
		if err := r.waitForPrevious(ctx, q); err != nil {
			return 0, err // the other searches go on
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		q.wait = r.storage.LexicalRevision(ctx, q.key.tenant, q.key.collection)
	}
	q.revision, q.err = q.wait()
	q.wait = nil
	if err := ctx.Err(); q.err != nil && err != nil && !q.exclusive {
		return 0, err // the next search sends it again
	}
	q.answered = true
	r.mu.Lock()
	defer r.mu.Unlock()
	if queue := r.queues[q.key]; queue != nil && queue.running == q {
		if queue.running = nil; queue.next == nil {
			delete(r.queues, q.key)
		}
	}
	return q.revision, q.err
}

// waitForPrevious waits until the previous request is done. From then on no search may join q.
func (r *revisions) waitForPrevious(ctx context.Context, q *revisionRequest) error {
	if q.closed {
		return nil
	}
	if before := q.previous; before != nil {
		select {
		case before.lock <- struct{}{}:
			_, _ = r.await(ctx, before) // its error is for its own searches
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
	queue := r.queues[q.key]
	queue.running, queue.next = q, nil
	q.closed = true
	return nil
}
