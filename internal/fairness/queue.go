// Package fairness decides who is served next and who waits: between tenants, and between what
// somebody waits for and work in the background. It does no input or output, and knows nothing of
// what is served. docs/fairness.md says where each of its rules holds.
package fairness

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"
)

const (
	// StarvationLimit is how long a request waits for others that go first, at most.
	StarvationLimit = time.Second
	// remembered is how long a tenant is known after its last request.
	remembered = time.Minute
)

// Queue orders what waits. The tenant goes first that used least; of those that used as much, the
// one that has the fewest items running; of those that have as many, the one that was served
// longest ago; and of its own items the oldest.
//
// What an item used is charged when it is known, as start-time fair queueing does (Goyal, Vin and
// Cheng, 1996).
//
// A Queue is not safe for concurrent use.
type Queue[T comparable] struct {
	credit  time.Duration
	tenants map[uuid.UUID]*tenant[T]
	ring    []*tenant[T]  // those that have something waiting; who is served goes to the end
	clock   time.Duration // the most that one had used when an item of it began
	forget  time.Time     // when to look for tenants that are not remembered any more
}

// tenant is what is known of one.
type tenant[T comparable] struct {
	id      uuid.UUID
	waiting []T
	running int
	used    time.Duration
	seen    time.Time // when an item last came or ended
	// Of a Scheduler:
	saved   time.Duration // of the time that it earned, at counted; not below 0
	counted time.Time
	since   time.Time // when an item last began or ended, or was the first that waits
	giving  int       // of the items that run, those that give way now
}

// NewQueue makes a queue in which a tenant that comes back may use as much as credit before it
// alternates with others.
func NewQueue[T comparable](credit time.Duration) *Queue[T] {
	return &Queue[T]{credit: credit, tenants: map[uuid.UUID]*tenant[T]{}}
}

// Put adds an item of a tenant.
func (q *Queue[T]) Put(id uuid.UUID, item T, now time.Time) {
	t := q.open(id, now)
	if t.waiting = append(t.waiting, item); len(t.waiting) == 1 {
		q.ring = append(q.ring, t)
	}
}

// open gives what is known of a tenant of which an item comes now.
func (q *Queue[T]) open(id uuid.UUID, now time.Time) *tenant[T] {
	q.prune(now)
	t := q.tenants[id]
	if t == nil {
		t = &tenant[T]{id: id}
		q.tenants[id] = t
	}
	t.seen = now
	t.used = max(t.used, q.clock-q.credit)
	return t
}

// prune forgets tenants that have been silent for long.
func (q *Queue[T]) prune(now time.Time) {
	if now.Before(q.forget) {
		return
	}
	q.forget = now.Add(remembered / 4)
	for id, t := range q.tenants {
		if t.running == 0 && len(t.waiting) == 0 && now.Sub(t.seen) >= remembered {
			delete(q.tenants, id)
		}
	}
}

// Remove takes out an item of a tenant, and reports whether it was there.
func (q *Queue[T]) Remove(id uuid.UUID, item T) bool {
	t := q.tenants[id]
	if t == nil {
		return false
	}
	at := slices.Index(t.waiting, item)
	if at < 0 {
		return false
	}
	if t.waiting = slices.Delete(t.waiting, at, at+1); len(t.waiting) == 0 {
		t.waiting = nil
		q.ring = slices.DeleteFunc(q.ring, func(o *tenant[T]) bool { return o == t })
	}
	return true
}

// First returns the item that is next of those that may be; it stays in the queue.
func (q *Queue[T]) First(may func(T) bool) (item T, found bool) {
	at := func(t *tenant[T]) int { return slices.IndexFunc(t.waiting, may) }
	t := q.first(func(t *tenant[T]) bool { return at(t) >= 0 })
	if t == nil {
		return item, false
	}
	return t.waiting[at(t)], true
}

// first returns the tenant that is next of those that may be; nil: there is none.
func (q *Queue[T]) first(may func(*tenant[T]) bool) (next *tenant[T]) {
	for _, t := range q.ring {
		if (next == nil || cmp.Or(cmp.Compare(t.used, next.used), t.running-next.running) < 0) && may(t) {
			next = t
		}
	}
	return next
}

// take takes out a tenant's oldest item and begins it.
func (q *Queue[T]) take(t *tenant[T]) T {
	item := t.waiting[0]
	q.Remove(t.id, item)
	q.Begin(t.id)
	return item
}

// Begin tells that an item of a tenant begins to run, whether it was removed or stays for more.
func (q *Queue[T]) Begin(id uuid.UUID) {
	t := q.tenants[id]
	t.running++
	q.clock = max(q.clock, t.used)
	if at := slices.Index(q.ring, t); at >= 0 {
		q.ring = append(slices.Delete(q.ring, at, at+1), t)
	}
}

// End tells that an item of a tenant has run.
func (q *Queue[T]) End(id uuid.UUID, now time.Time) {
	t := q.tenants[id]
	t.running--
	t.seen = now
}

// Charge books what an item of a tenant used.
func (q *Queue[T]) Charge(id uuid.UUID, used time.Duration) {
	if t := q.tenants[id]; t != nil {
		t.used += used
	}
}

// Empty reports whether nothing waits.
func (q *Queue[T]) Empty() bool { return len(q.ring) == 0 }

// All yields what waits, by tenant.
func (q *Queue[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, t := range q.ring {
			for _, item := range t.waiting {
				if !yield(item) {
					return
				}
			}
		}
	}
}
