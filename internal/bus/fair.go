package bus

// Who is served next: each tenant has a queue of its own, tenants that wait take turns, and none holds all places. It
// knows nothing of what is served.
//
// Beside others a tenant earns its share of the service's time, and may save a little: while it has some left it runs
// twice its share, so that one who asks seldom does not wait for itself. One that has used up what it earned runs its
// share, less what those run who have some left: they go first. All who have used up theirs run two shares together, one
// each as long as they are two. After patience a tenant's oldest request runs all the same.
//
// A request that has begun gives way, too, where its handler lets it: between two steps it waits while requests run that
// go first.

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// remembered is how long a tenant counts as one that others share the service with, after its last request.
const remembered = time.Minute

const (
	savings  = 4 * time.Second // of a tenant's share of time, at most
	patience = time.Second     // of a tenant that has used up its time: of its oldest request, and of each that runs
)

// fair is a queue of requests of many tenants. Its workers, as many as it has places, call next.
type fair[T comparable] struct {
	places int // requests that run at once
	share  int // of one tenant, beside others
	alone  int // of a tenant that shares with none; what is left lets a newcomer begin at once
	queue  int // requests of one tenant that wait
	now    func() time.Time

	mu      sync.Mutex
	change  sync.Cond
	tenants map[uuid.UUID]*flow[T]
	turns   []*flow[T]        // those that have something waiting, the next one first
	busy    map[*flow[T]]bool // those that run something
	nudge   *time.Timer       // looks again when the patience of one that waits may be over
	forget  time.Time         // when to look for tenants that are not remembered any more
	ended   chan struct{}     // closed when a request ends; nil when none gives way
	closed  bool
	leaving sync.WaitGroup // requests that were withdrawn and are not over
}

// flow is the requests of one tenant.
type flow[T comparable] struct {
	waiting []T
	running int           // those that give way included
	giving  int           // of them, those that give way now
	seen    time.Time     // when a request last came or ended
	since   time.Time     // when a request last began or ended, or was the first that waits
	left    time.Duration // of the time it earned, at counted; not below 0
	counted time.Time
}

// place is what a request has that runs.
type place[T comparable] struct {
	queue *fair[T]
	of    *flow[T]
	gave  time.Duration // how long it gave way
}

// newFair makes a queue of so many places, where so many requests of each tenant may wait. A share of 0 is all places.
func newFair[T comparable](places, share, queue int, now func() time.Time) *fair[T] {
	f := &fair[T]{places: places, share: share, alone: places, queue: queue, now: now, tenants: map[uuid.UUID]*flow[T]{}, busy: map[*flow[T]]bool{}}
	if share <= 0 || share > places {
		f.share = places
	}
	if f.share < places {
		f.alone = max(f.share, places-max(1, places/4))
	}
	f.change.L = &f.mu
	f.nudge = time.AfterFunc(time.Hour, f.change.Broadcast)
	f.nudge.Stop()
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
		of = &flow[T]{left: f.most(), counted: now}
		f.tenants[tenant] = of
	}
	of.seen = now
	f.count(of, now)
	// What may run at once has not waited, though no worker may have fetched it yet.
	if of.running+len(of.waiting) >= f.alone+f.queue {
		return false, false
	}
	of.waiting = append(of.waiting, request)
	if len(of.waiting) == 1 {
		of.since = now
		f.turns = append(f.turns, of)
	}
	f.change.Signal()
	return true, false
}

// withdraw takes a request out of its tenant's queue if it is still there; running is how many requests of that tenant
// run. When it was there, leaving must be told once the request is over.
func (f *fair[T]) withdraw(tenant uuid.UUID, request T) (withdrawn bool, running int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	of := f.tenants[tenant]
	if of == nil {
		return false, 0
	}
	at := slices.Index(of.waiting, request)
	if at < 0 {
		return false, 0
	}
	f.leaving.Add(1)
	f.count(of, f.now())
	of.waiting = slices.Delete(of.waiting, at, at+1)
	if len(of.waiting) == 0 {
		of.waiting = nil
		f.turns = slices.DeleteFunc(f.turns, func(o *flow[T]) bool { return o == of })
	}
	if f.closed && len(f.turns) == 0 {
		f.change.Broadcast() // nothing is left to wait for
	}
	return true, of.running
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

// next waits for a request whose turn it is. The end of its run must be told its place; more is false when the queue is
// closed and empty.
func (f *fair[T]) next() (request T, at *place[T], more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if at := f.turn(); at >= 0 {
			of := f.turns[at]
			request, of.waiting = of.waiting[0], of.waiting[1:]
			of.since = f.now()
			of.running++
			f.busy[of] = true
			f.turns = append(f.turns[:at], f.turns[at+1:]...)
			if len(of.waiting) > 0 {
				f.turns = append(f.turns, of)
			} else {
				of.waiting = nil
			}
			if f.turn() >= 0 {
				f.change.Signal() // a limit may have risen for more than one
			}
			return request, &place[T]{queue: f, of: of}, true
		}
		if len(f.turns) > 0 {
			f.nudge.Reset(patience)
		}
		if f.closed && len(f.turns) == 0 {
			f.nudge.Stop()
			f.change.Broadcast()
			return request, nil, false
		}
		f.change.Wait()
	}
}

// most is what a tenant saves at most.
func (f *fair[T]) most() time.Duration { return time.Duration(f.share) * savings }

// count brings what a tenant has left up to now, before what it runs or has waiting changes. What waits counts as what
// runs does: one that asks for much more than its share has soon used up what it saved.
func (f *fair[T]) count(of *flow[T], now time.Time) {
	rate := f.share - (of.running - of.giving) - len(of.waiting)
	of.left += now.Sub(of.counted) * time.Duration(rate)
	of.left = min(max(of.left, 0), f.most())
	of.counted = now
}

// turn is the place in turns of the tenant that is next, -1 when none may run more. The mutex is held.
func (f *fair[T]) turn() int {
	if len(f.turns) == 0 {
		return -1
	}
	now := f.now()
	f.prune(now)
	thrifty, spent := 0, 0 // what runs of tenants that have time left, and of those that have none
	for of := range f.busy {
		if f.count(of, now); of.left > 0 {
			thrifty += of.running
		} else {
			spent += of.running
		}
	}
	for i, of := range f.turns {
		f.count(of, now)
		if of.running < f.limit(of, now, thrifty, spent) {
			return i
		}
	}
	return -1
}

// limit is how many requests of a tenant may run now, beside so many of thrifty and spent tenants, its own among them.
func (f *fair[T]) limit(of *flow[T], now time.Time, thrifty, spent int) int {
	switch {
	case len(f.tenants) == 1 || f.share == f.places:
		return f.alone
	case of.left > 0:
		return min(2*f.share, f.alone)
	}
	limit := min(f.share-thrifty, 2*f.share-thrifty-(spent-of.running))
	if limit < 1 && now.Sub(of.since) >= patience {
		limit = 1
	}
	return limit
}

// end gives the place back.
func (p *place[T]) end() {
	f, of := p.queue, p.of
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	f.count(of, now)
	if of.running--; of.running == 0 {
		delete(f.busy, of)
	}
	of.seen, of.since = now, now
	if f.ended != nil {
		close(f.ended)
		f.ended = nil
	}
	f.change.Signal()
}

// giveWay waits while requests run that go before this one, until ctx ends, and for patience in all.
func (p *place[T]) giveWay(ctx context.Context) {
	f := p.queue
	f.mu.Lock()
	defer f.mu.Unlock()
	for p.gave < patience && f.behind(p.of) {
		if f.ended == nil {
			f.ended = make(chan struct{})
		}
		ended, since := f.ended, f.now()
		p.of.giving++
		f.mu.Unlock()
		timer := time.NewTimer(patience - p.gave)
		select {
		case <-ended:
		case <-timer.C:
		case <-ctx.Done():
			p.gave = patience
		}
		timer.Stop()
		f.mu.Lock()
		now := f.now()
		f.count(p.of, now)
		p.of.giving--
		p.gave += now.Sub(since)
	}
}

// yields reports whether others that asked lately go before this request's tenant.
func (p *place[T]) yields() bool {
	f := p.queue
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count(p.of, f.now())
	return len(f.tenants) > 1 && f.share < f.places && p.of.left == 0 && p.gave < patience
}

// behind reports whether requests run that go before a tenant's. The mutex is held.
func (f *fair[T]) behind(of *flow[T]) bool {
	now := f.now()
	if f.count(of, now); f.share == f.places || of.left > 0 {
		return false
	}
	for other := range f.busy {
		if f.count(other, now); other.left > 0 {
			return true
		}
	}
	return false
}

// close takes nothing more; what waits is still served.
func (f *fair[T]) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.change.Broadcast()
}
