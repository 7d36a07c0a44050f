package fairness

// While others ask a tenant earns its share of the slots' time, and may save a little: while it has
// some left it runs twice its share, so that whoever asks seldom does not wait for requests of its
// own. One that has used up what it earned runs its share, less what those run who have some left:
// they go first. All who have used up theirs run two shares together, one each as long as they are
// two. After Patience a tenant's oldest request runs all the same.
//
// A request that has begun gives way, too, where its handler lets it: between two steps it waits
// while requests run that go first.

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
)

// savingsTime is how much of a tenant's share of time it saves at most.
const savingsTime = 4 * time.Second

// Scheduler hands a bounded number of slots to items of many tenants. Workers, as many as there are
// slots, call Next.
type Scheduler[T comparable] struct {
	slots int // items that run at once
	share int // of one tenant, while others ask
	alone int // of a tenant that shares with none; what is left lets a newcomer begin at once
	bound int // items of one tenant that wait
	now   func() time.Time

	mu      sync.Mutex
	change  sync.Cond
	queue   *Queue[T]
	running int
	busy    map[*tenant[T]]bool // those that run something
	nudge   *time.Timer         // looks again when the patience of one that waits may be over
	ended   chan struct{}       // closed when an item ends; nil when none gives way
	closed  bool
	leaving sync.WaitGroup // items that were withdrawn and are not over
}

// Slot is what an item has that runs. End gives it back.
type Slot[T comparable] struct {
	of     *Scheduler[T]
	tenant *tenant[T]
	gave   time.Duration // how long it gave way
}

// NewScheduler makes a scheduler of so many slots, where so many items of each tenant may wait. A
// share of 0 is all slots.
func NewScheduler[T comparable](slots, share, bound int, now func() time.Time) *Scheduler[T] {
	s := &Scheduler[T]{slots: slots, share: share, alone: slots, bound: bound, now: now, queue: NewQueue[T](0), busy: map[*tenant[T]]bool{}}
	if share <= 0 || share > slots {
		s.share = slots
	}
	if s.share < slots {
		s.alone = max(s.share, slots-max(1, slots/4))
	}
	s.change.L = &s.mu
	s.nudge = time.AfterFunc(time.Hour, s.change.Broadcast)
	s.nudge.Stop()
	return s
}

// Put queues an item. It is not taken when its tenant's own queue is full; closed tells that
// nothing is taken any more.
func (s *Scheduler[T]) Put(id uuid.UUID, item T) (taken, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false, true
	}
	now := s.now()
	t := s.queue.open(id, now)
	if t.counted.IsZero() {
		t.saved, t.counted = s.most(), now
	}
	s.count(t, now)
	// What may run at once has not waited, though no worker may have fetched it yet.
	if t.running+len(t.waiting) >= s.alone+s.bound {
		return false, false
	}
	if s.queue.Put(id, item, now); len(t.waiting) == 1 {
		t.since = now
	}
	s.change.Signal()
	return true, false
}

// Withdraw takes an item out if it still waits, and then calls then with how many items of its
// tenant run. Wait waits until then has returned.
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
		s.change.Broadcast() // nothing is left to wait for
	}
	running := t.running
	s.leaving.Add(1)
	defer s.leaving.Done()
	s.mu.Unlock()
	then(running)
}

// Wait returns when what was withdrawn is over. It is called when the queue is closed and no worker
// waits any more.
func (s *Scheduler[T]) Wait() { s.leaving.Wait() }

// Next waits for an item that may run. Its end must be told its slot; more is false when the queue
// is closed and empty.
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
				s.change.Signal() // a limit may have risen for more than one
			}
			return item, &Slot[T]{of: s, tenant: t}, true
		}
		if s.queue.Empty() && s.closed {
			s.nudge.Stop()
			s.change.Broadcast()
			return item, nil, false
		}
		if !s.queue.Empty() {
			s.nudge.Reset(StarvationLimit)
		}
		s.change.Wait()
	}
}

// most is what a tenant saves at most.
func (s *Scheduler[T]) most() time.Duration { return time.Duration(s.share) * savingsTime }

// count brings what a tenant has left up to now, before what it runs or has waiting changes. What
// waits counts as what runs does: one that asks for much more than its share has soon used up what
// it saved.
func (s *Scheduler[T]) count(t *tenant[T], now time.Time) {
	rate := s.share - (t.running - t.giving) - len(t.waiting)
	t.saved += now.Sub(t.counted) * time.Duration(rate)
	t.saved = min(max(t.saved, 0), s.most())
	t.counted = now
}

// next is the tenant that is next, nil when none may run more. The mutex is held.
func (s *Scheduler[T]) next() *tenant[T] {
	if s.queue.Empty() || s.running == s.slots {
		return nil
	}
	now := s.now()
	s.queue.prune(now)
	saving, spent := 0, 0 // what runs of tenants that have time left, and of those that have none
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

// limit is how many items of a tenant may run now, where so many of tenants run that have time left
// and of those that have none, its own among them.
func (s *Scheduler[T]) limit(t *tenant[T], now time.Time, saving, spent int) int {
	switch {
	case len(s.queue.tenants) == 1 || s.share == s.slots:
		return s.alone
	case t.saved > 0:
		return min(2*s.share, s.alone)
	}
	limit := min(s.share-saving, 2*s.share-saving-(spent-t.running))
	if limit < 1 && now.Sub(t.since) >= StarvationLimit {
		limit = 1
	}
	return limit
}

// Load is how many items run and wait.
func (s *Scheduler[T]) Load() (running, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.queue.ring {
		waiting += len(t.waiting)
	}
	return s.running, waiting
}

// Close takes nothing more; what waits is still served.
func (s *Scheduler[T]) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.change.Broadcast()
}

// End gives the slot back.
func (l *Slot[T]) End() {
	s, t := l.of, l.tenant
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
	s.change.Signal()
}

// GiveWay waits while items run that go before this one, until ctx ends, and for Patience in all.
// Handlers call it between the steps of what takes long, holding nothing that others need.
func (l *Slot[T]) GiveWay(ctx context.Context) {
	if l == nil {
		return
	}
	s, t := l.of, l.tenant
	s.mu.Lock()
	defer s.mu.Unlock()
	for l.gave < StarvationLimit && s.behind(t) {
		if s.ended == nil {
			s.ended = make(chan struct{})
		}
		ended, since := s.ended, s.now()
		t.giving++
		s.mu.Unlock()
		timer := time.NewTimer(StarvationLimit - l.gave)
		select {
		case <-ended:
		case <-timer.C:
		case <-ctx.Done():
			l.gave = StarvationLimit
		}
		timer.Stop()
		s.mu.Lock()
		now := s.now()
		s.count(t, now)
		t.giving--
		l.gave += now.Sub(since)
	}
}

// Yields reports whether others that asked lately go before this item's tenant.
func (l *Slot[T]) Yields() bool {
	if l == nil {
		return false
	}
	s := l.of
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(l.tenant, s.now())
	return len(s.queue.tenants) > 1 && s.share < s.slots && l.tenant.saved == 0 && l.gave < StarvationLimit
}

// behind reports whether items run that go before a tenant's. The mutex is held.
func (s *Scheduler[T]) behind(t *tenant[T]) bool {
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
