package fairness

// While several tenants are active, each earns its share of the slots' time, and may save a little
// of it. While a tenant has saved time left, it may run twice its share, so that a tenant that
// seldom asks does not wait for its own requests. A tenant that has used up its time may run its
// share, less the items of tenants that have time left, which are served first. All tenants that
// have used up theirs run two shares together, so that two such tenants have one share each. A
// tenant without time left that has waited for StarvationLimit may run one item in any case.
//
// A running request also gives way if its handler calls Yield: between two steps it waits while
// requests of tenants with time left run.

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// savingsTime is for how long a tenant can save up its whole share.
const savingsTime = 4 * time.Second

// Scheduler gives a bounded number of slots to items of many tenants. As many workers as there are
// slots call Next.
type Scheduler[T comparable] struct {
	slots           int // maximum number of running items
	share           int // items of one tenant that may run while others are active
	soleTenantLimit int // items of the only active tenant that may run; the rest lets a newcomer begin at once
	bound           int // maximum number of waiting items of one tenant
	now             func() time.Time

	mu          sync.Mutex
	cond        sync.Cond
	queue       *Queue[T]
	running     int
	busy        map[*tenant[T]]bool // tenants with running items
	wakeTimer   *time.Timer         // wakes the workers when a waiting tenant may have reached StarvationLimit
	ended       chan struct{}       // closed when an item ends; nil if no item gives way
	closed      bool
	withdrawals sync.WaitGroup // calls of Withdraw whose then has not returned
}

// Slot is what a running item holds. End releases it.
type Slot[T comparable] struct {
	scheduler *Scheduler[T]
	tenant    *tenant[T]
	yielded   time.Duration // how long it gave way
}

// NewScheduler returns a scheduler with a number of slots, in which up to bound items of each
// tenant may wait. A share of 0 means all slots.
func NewScheduler[T comparable](slots, share, bound int, now func() time.Time) *Scheduler[T] {
	s := &Scheduler[T]{slots: slots, share: share, soleTenantLimit: slots, bound: bound, now: now, queue: NewQueue[T](0), busy: map[*tenant[T]]bool{}}
	if share <= 0 || share > slots {
		s.share = slots
	}
	if s.share < slots {
		s.soleTenantLimit = max(s.share, slots-max(1, slots/4))
	}
	s.cond.L = &s.mu
	s.wakeTimer = time.AfterFunc(time.Hour, s.cond.Broadcast)
	s.wakeTimer.Stop()
	return s
}

// Put queues an item. taken is false if the queue of its tenant is full or the scheduler is closed;
// closed distinguishes the two.
func (s *Scheduler[T]) Put(id uuid.UUID, item T) (accepted, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false, true
	}
	now := s.now()
	t := s.queue.open(id, now)
	if t.counted.IsZero() {
		t.saved, t.counted = s.maxSaved(), now
	}
	s.count(t, now)
	// Items that may run at once don't count as waiting, though no worker may have fetched them
	// yet.
	if t.running+len(t.waiting) >= s.soleTenantLimit+s.bound {
		return false, false
	}
	if s.queue.Put(id, item, now); len(t.waiting) == 1 {
		t.since = now
	}
	s.cond.Signal()
	return true, false
}

// Withdraw removes an item if it still waits, and then calls then with the number of running items
// of its tenant. Wait waits until then has returned.
func (s *Scheduler[T]) Withdraw(id uuid.UUID, item T, then func(running int)) {
	s.mu.Lock()
	t := s.queue.tenants[id]
	if t != nil {
		s.count(t, s.now())
	}
	if !s.queue.Remove(id, item) {
		s.mu.Unlock()
		return
	}
	if s.closed && s.queue.Empty() {
		s.cond.Broadcast() // nothing is left to wait for
	}
	running := t.running
	s.withdrawals.Add(1)
	defer s.withdrawals.Done()
	s.mu.Unlock()
	then(running)
}

// Wait returns when the calls of Withdraw have ended. It must be called after Close, when no worker
// waits in Next any more.
func (s *Scheduler[T]) Wait() { s.withdrawals.Wait() }

// Next waits for an item that may run. The caller must call End of its slot. more is false when the
// scheduler is closed and empty.
func (s *Scheduler[T]) Next() (item T, slot *Slot[T], more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if t := s.next(); t != nil {
			item = s.queue.take(t)
			t.since = s.now()
			s.running++
			s.busy[t] = true
			if s.next() != nil {
				s.cond.Signal() // a limit may have risen for more than one
			}
			return item, &Slot[T]{scheduler: s, tenant: t}, true
		}
		if s.queue.Empty() && s.closed {
			s.wakeTimer.Stop()
			s.cond.Broadcast()
			return item, nil, false
		}
		if !s.queue.Empty() {
			s.wakeTimer.Reset(StarvationLimit)
		}
		s.cond.Wait()
	}
}

// maxSaved returns the maximum of what a tenant saves.
func (s *Scheduler[T]) maxSaved() time.Duration { return time.Duration(s.share) * savingsTime }

// count updates a tenant's saved time. It must be called before the tenant's running or waiting
// items change. Waiting items count like running ones: a tenant that asks for much more than its
// share soon uses up what it saved.
func (s *Scheduler[T]) count(t *tenant[T], now time.Time) {
	rate := s.share - (t.running - t.yielding) - len(t.waiting)
	t.saved += now.Sub(t.counted) * time.Duration(rate)
	t.saved = min(max(t.saved, 0), s.maxSaved())
	t.counted = now
}

// next returns the tenant that is served next, or nil if none may run more. The mutex must be held.
func (s *Scheduler[T]) next() *tenant[T] {
	if s.queue.Empty() || s.running == s.slots {
		return nil
	}
	now := s.now()
	s.queue.prune(now)
	saving, spent := 0, 0 // running items of tenants with time left, and of those without
	for t := range s.busy {
		if s.count(t, now); t.saved > 0 {
			saving += t.running
		} else {
			spent += t.running
		}
	}
	return s.queue.first(func(t *tenant[T]) bool {
		s.count(t, now)
		return t.running < s.limit(t, now, saving, spent)
	})
}

// limit returns how many items of a tenant may run now. saving and spent are the numbers of running
// items of tenants with and without time left, including its own.
func (s *Scheduler[T]) limit(t *tenant[T], now time.Time, saving, spent int) int {
	switch {
	case len(s.queue.tenants) == 1 || s.share == s.slots:
		return s.soleTenantLimit
	case t.saved > 0:
		return min(2*s.share, s.soleTenantLimit)
	}
	limit := min(s.share-saving, 2*s.share-saving-(spent-t.running))
	if limit < 1 && now.Sub(t.since) >= StarvationLimit {
		limit = 1
	}
	return limit
}

// Load returns the numbers of running and waiting items.
func (s *Scheduler[T]) Load() (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.queue.ring {
		waiting += len(t.waiting)
	}
	return s.running, waiting
}

// Close makes Put refuse further items. Waiting items are still served.
func (s *Scheduler[T]) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.cond.Broadcast()
}

// End releases the slot.
func (l *Slot[T]) End() {
	s, t := l.scheduler, l.tenant
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.running--
	s.count(t, now)
	if s.queue.End(t.id, now); t.running == 0 {
		delete(s.busy, t)
	}
	t.since = now
	if s.ended != nil {
		close(s.ended)
		s.ended = nil
	}
	s.cond.Signal()
}

// Yield waits while items of tenants that are served before this one's run, until ctx ends, and for
// StarvationLimit in all. Handlers call it between long steps, while they hold nothing that others
// need.
func (l *Slot[T]) Yield(ctx context.Context) {
	if l == nil {
		return
	}
	s, t := l.scheduler, l.tenant
	s.mu.Lock()
	defer s.mu.Unlock()
	for l.yielded < StarvationLimit && s.shouldYield(t) {
		if s.ended == nil {
			s.ended = make(chan struct{})
		}
		ended, since := s.ended, s.now()
		t.yielding++
		s.mu.Unlock()
		timer := time.NewTimer(StarvationLimit - l.yielded)
		select {
		case <-ended:
		case <-timer.C:
		case <-ctx.Done():
			l.yielded = StarvationLimit
		}
		timer.Stop()
		s.mu.Lock()
		now := s.now()
		s.count(t, now)
		t.yielding--
		l.yielded += now.Sub(since)
	}
}

// Yields reports whether this item's tenant has used up its time while other tenants asked
// recently, so that those are served first. It is false once the item has given way for
// StarvationLimit.
func (l *Slot[T]) Yields() bool {
	if l == nil {
		return false
	}
	s := l.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(l.tenant, s.now())
	return len(s.queue.tenants) > 1 && s.share < s.slots && l.tenant.saved == 0 && l.yielded < StarvationLimit
}

// shouldYield reports whether items of tenants that are served before t run. The mutex must be
// held.
func (s *Scheduler[T]) shouldYield(t *tenant[T]) bool {
	now := s.now()
	if s.count(t, now); s.share == s.slots || t.saved > 0 {
		return false
	}
	for other := range s.busy {
		if s.count(other, now); other.saved > 0 {
			return true
		}
	}
	return false
}
