package fairness

import (
	"sync"

	"github.com/google/uuid"
)

// Amount is a number of items and their bytes.
type Amount struct{ Count, Bytes int }

func (a Amount) plus(b Amount) Amount { return Amount{a.Count + b.Count, a.Bytes + b.Bytes} }

// over reports whether n more would exceed bound, in which 0 means no bound. Something larger than
// the bound is admitted when nothing else is held. A component of n that is 0 is not checked.
func (a Amount) over(n, bound Amount) bool {
	over := func(held, n, bound int) bool { return bound > 0 && n > 0 && held > 0 && held+n > bound }
	return over(a.Count, n.Count, bound.Count) || over(a.Bytes, n.Bytes, bound.Bytes)
}

// Full says why Acquire refused.
type Full struct {
	OfTenant bool   // the bound of the tenant is reached, not the one in all
	Held     Amount // by the tenant if OfTenant, else in all
}

// Semaphore bounds what is held at once, by each tenant and in all. It has no queue: it refuses
// what exceeds a bound.
type Semaphore struct {
	each, all Amount

	mu   sync.Mutex
	held Amount
	by   map[uuid.UUID]Amount
}

// NewSemaphore returns a semaphore with a bound for each tenant and one for all together.
// Components that are 0 are not bounded.
func NewSemaphore(each, all Amount) *Semaphore {
	return &Semaphore{each: each, all: all, by: map[uuid.UUID]Amount{}}
}

// Acquire admits n of a tenant, to be released, or returns why it does not. Background work leaves
// a quarter of the bound in all to interactive requests.
func (s *Semaphore) Acquire(id uuid.UUID, n Amount, background bool) *Full {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	if background {
		all = Amount{all.Count - all.Count/4, all.Bytes - all.Bytes/4}
	}
	switch own := s.by[id]; {
	case own.over(n, s.each):
		return &Full{OfTenant: true, Held: own}
	case s.held.over(n, all):
		return &Full{Held: s.held}
	}
	s.add(id, n)
	return nil
}

// Release releases n of a tenant.
func (s *Semaphore) Release(id uuid.UUID, n Amount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(id, Amount{-n.Count, -n.Bytes})
}

func (s *Semaphore) add(id uuid.UUID, n Amount) {
	s.held = s.held.plus(n)
	if s.by[id] = s.by[id].plus(n); s.by[id] == (Amount{}) {
		delete(s.by, id)
	}
}

// InUse returns what all tenants hold together.
func (s *Semaphore) InUse() Amount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}
