package fairness

import (
	"sync"

	"github.com/google/uuid"
)

// Amount is what is held: so many things, of so many bytes.
type Amount struct{ Count, Bytes int }

func (a Amount) plus(b Amount) Amount { return Amount{a.Count + b.Count, a.Bytes + b.Bytes} }

// over reports whether n more are too many for a bound, of which 0 is none. What is larger than the
// bound alone is let in when nothing else is held; and what is not asked for is not looked at.
func (a Amount) over(n, bound Amount) bool {
	over := func(held, n, bound int) bool { return bound > 0 && n > 0 && held > 0 && held+n > bound }
	return over(a.Count, n.Count, bound.Count) || over(a.Bytes, n.Bytes, bound.Bytes)
}

// Full says why no more is let in.
type Full struct {
	OfTenant bool   // its own bound is reached
	Held     Amount // by the tenant if it is, else in all
}

// Semaphore bounds what is held at once: by each tenant, and in all. Nobody waits for it: what is
// too much is refused.
type Semaphore struct {
	each, all Amount

	mu   sync.Mutex
	held Amount
	by   map[uuid.UUID]Amount
}

// NewSemaphore makes one with a bound for each tenant and one for all. What is 0 of them is not
// bounded.
func NewSemaphore(each, all Amount) *Semaphore {
	return &Semaphore{each: each, all: all, by: map[uuid.UUID]Amount{}}
}

// Acquire lets n of a tenant in, to be released, or says why it does not. Work in the background
// leaves a quarter of the bound of all to what somebody waits for.
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

// Release gives back n of a tenant.
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

// InUse is what all hold.
func (s *Semaphore) InUse() Amount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}
