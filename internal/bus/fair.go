package bus

// Who is served next: each tenant has a queue of its own, tenants that wait take turns, and none holds all places. It
// knows nothing of what is served.

import (
	"sync"
	"time"

	"github.com/google/uuid"
)

// remembered is how long a tenant counts as one that others share the service with, after its last request.
const remembered = time.Minute

// fair is a queue of requests of many tenants. Its workers, as many as it has places, call next.
type fair[T any] struct {
	places int // requests that run at once
	share  int // of one tenant, beside others
	alone  int // of a tenant that shares with none; what is left lets a newcomer begin at once
	queue  int // requests of one tenant that wait
	now    func() time.Time

	mu      sync.Mutex
	change  sync.Cond
	tenants map[uuid.UUID]*flow[T]
	turns   []*flow[T] // those that have something waiting, the next one first
	forget  time.Time  // when to look for tenants that are not remembered any more
	closed  bool
}

// flow is the requests of one tenant.
type flow[T any] struct {
	waiting []T
	running int
	seen    time.Time
}

// newFair makes a queue of so many places. A share of 0 is all of them.
func newFair[T any](places, share int, now func() time.Time) *fair[T] {
	f := &fair[T]{places: places, share: share, alone: places, queue: places, now: now, tenants: map[uuid.UUID]*flow[T]{}}
	if share <= 0 || share > places {
		f.share = places
	}
	if f.share < places {
		f.alone = max(f.share, places-max(1, places/4))
	}
	f.change.L = &f.mu
	return f
}

// put queues a request. It is not taken when the tenant's own queue is full; closed tells that nothing is taken any more.
func (f *fair[T]) put(tenant uuid.UUID, request T) (taken, closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false, true
	}
	now := f.now()
	f.prune(now)
	of := f.tenants[tenant]
	if of == nil {
		of = &flow[T]{}
		f.tenants[tenant] = of
	}
	of.seen = now
	// What may run at once has not waited, though no worker may have fetched it yet.
	if of.running+len(of.waiting) >= f.alone+f.queue {
		return false, false
	}
	of.waiting = append(of.waiting, request)
	if len(of.waiting) == 1 {
		f.turns = append(f.turns, of)
	}
	f.change.Signal()
	return true, false
}

// prune forgets tenants that have been silent for long.
func (f *fair[T]) prune(now time.Time) {
	if now.Before(f.forget) {
		return
	}
	f.forget = now.Add(remembered / 4)
	for id, of := range f.tenants {
		if of.running == 0 && len(of.waiting) == 0 && now.Sub(of.seen) >= remembered {
			delete(f.tenants, id)
		}
	}
}

// next waits for a request whose turn it is. done ends its run; more is false when the queue is closed and empty.
func (f *fair[T]) next() (request T, done func(), more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if at := f.turn(); at >= 0 {
			of := f.turns[at]
			request, of.waiting = of.waiting[0], of.waiting[1:]
			of.running++
			f.turns = append(f.turns[:at], f.turns[at+1:]...)
			if len(of.waiting) > 0 {
				f.turns = append(f.turns, of)
			} else {
				of.waiting = nil
			}
			if f.turn() >= 0 {
				f.change.Signal() // a limit may have risen for more than one
			}
			return request, func() { f.end(of) }, true
		}
		if f.closed && len(f.turns) == 0 {
			f.change.Broadcast()
			return request, nil, false
		}
		f.change.Wait()
	}
}

// turn is the place in turns of the tenant that is next, -1 when none may run more. The mutex is held.
func (f *fair[T]) turn() int {
	if len(f.turns) == 0 {
		return -1
	}
	f.prune(f.now())
	limit := f.share
	if len(f.tenants) == 1 {
		limit = f.alone
	}
	for i, of := range f.turns {
		if of.running < limit {
			return i
		}
	}
	return -1
}

func (f *fair[T]) end(of *flow[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of.running--
	of.seen = f.now()
	f.change.Signal()
}

// close takes nothing more; what waits is still served.
func (f *fair[T]) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.change.Broadcast()
}
