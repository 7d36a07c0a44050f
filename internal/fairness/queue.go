// Package fairness decides who is served next and who waits: between tenants, and between
// interactive and background work. It does no input or output, and knows nothing of what is served.
// docs/fairness.md says where each of its rules applies.
package fairness

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"
)

const (
	// StarvationLimit is the longest time that a request waits for others that are served first.
	StarvationLimit = time.Second
	// tenantTTL is how long a tenant is kept after its last request.
	tenantTTL = time.Minute
)

// Queue orders waiting items. It serves the tenant that used least first; among equals the one with
// the fewest running items; among those the one that was served longest ago. Within a tenant it
// serves the oldest item first.
//
// The cost of an item is charged once it is known, as in start-time fair queueing (Goyal, Vin and
// Cheng, 1996).
//
// A Queue is not safe for concurrent use.
type Queue[T comparable] struct {
	credit    time.Duration
	tenants   map[uuid.UUID]*tenant[T]
	ring      []*tenant[T]  // tenants with waiting items; a tenant that is served moves to the end
	clock     time.Duration // virtual time: the maximum of used over tenants when an item of theirs began
	nextPrune time.Time     // when to prune next
}

// tenant is the state of a tenant.
type tenant[T comparable] struct {
	id       uuid.UUID
	waiting  []T
	running  int
	used     time.Duration
	lastSeen time.Time // when an item last arrived or ended
	// The rest is used by Scheduler only.
	saved    time.Duration // time that it earned and has not used, as of counted; at least 0
	counted  time.Time
	since    time.Time // when an item last began or ended, or became the only waiting one
	yielding int       // running items that give way now
}

// NewQueue returns a queue in which a returning tenant may use up to credit before it alternates
// with others.
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

// open returns the state of a tenant for which an item arrives now.
func (q *Queue[T]) open(id uuid.UUID, now time.Time) *tenant[T] {
	q.prune(now)
	t := q.tenants[id]
	if t == nil {
		t = &tenant[T]{id: id}
		q.tenants[id] = t
	}
	t.lastSeen = now
	t.used = max(t.used, q.clock-q.credit)
	return t
}

// prune forgets tenants that have had no items for a while.
func (q *Queue[T]) prune(now time.Time) {
	if now.Before(q.nextPrune) {
		return
	}
	q.nextPrune = now.Add(tenantTTL / 4)
	for id, t := range q.tenants {
		if t.running == 0 && len(t.waiting) == 0 && now.Sub(t.lastSeen) >= tenantTTL {
			delete(q.tenants, id)
		}
	}
}

// Remove removes an item of a tenant, and reports whether it was in the queue.
func (q *Queue[T]) Remove(id uuid.UUID, item T) bool {
	t := q.tenants[id]
	if t == nil {
		return false
	}
	i := slices.Index(t.waiting, item)
	if i < 0 {
		return false
	}
	if t.waiting = slices.Delete(t.waiting, i, i+1); len(t.waiting) == 0 {
		t.waiting = nil
		q.ring = slices.DeleteFunc(q.ring, func(o *tenant[T]) bool { return o == t })
	}
	return true
}

// First returns the next item for which may returns true; the item stays in the queue.
func (q *Queue[T]) First(may func(T) bool) (item T, found bool) {
	index := func(t *tenant[T]) int { return slices.IndexFunc(t.waiting, may) }
	t := q.first(func(t *tenant[T]) bool { return index(t) >= 0 })
	if t == nil {
		return item, false
	}
	return t.waiting[index(t)], true
}

// first returns the next tenant for which may returns true, or nil.
func (q *Queue[T]) first(may func(*tenant[T]) bool) (next *tenant[T]) {
	for _, t := range q.ring {
		if (next == nil || cmp.Or(cmp.Compare(t.used, next.used), t.running-next.running) < 0) && may(t) {
			next = t
		}
	}
	return next
}

// take removes a tenant's oldest item and begins it.
func (q *Queue[T]) take(t *tenant[T]) T {
	item := t.waiting[0]
	q.Remove(t.id, item)
	q.Begin(t.id)
	return item
}

// Begin records that an item of a tenant begins to run. The item may have been removed or stay in
// the queue to run again.
func (q *Queue[T]) Begin(id uuid.UUID) {
	t := q.tenants[id]
	t.running++
	q.clock = max(q.clock, t.used)
	if i := slices.Index(q.ring, t); i >= 0 {
		q.ring = append(slices.Delete(q.ring, i, i+1), t)
	}
}

// End records that an item of a tenant has ended.
func (q *Queue[T]) End(id uuid.UUID, now time.Time) {
	t := q.tenants[id]
	t.running--
	t.lastSeen = now
}

// Charge adds what an item used to its tenant's account.
func (q *Queue[T]) Charge(id uuid.UUID, used time.Duration) {
	if t := q.tenants[id]; t != nil {
		t.used += used
	}
}

// Empty reports whether nothing waits.
func (q *Queue[T]) Empty() bool { return len(q.ring) == 0 }

// All yields the waiting items, tenant by tenant.
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
