package fairness

import (
	"sync"

	"github.com/google/uuid"
)

// Amount is a number of items and their bytes.
type Amount struct{ Count, Bytes int }

func (a Amount) plus(b Amount) Amount { return Amount{a.Count + b.Count, a.Bytes + b.Bytes} }

// exceeds reports whether n more would exceed bound, in which 0 means no bound. Something larger
// than the bound is admitted when nothing else is held. A component of n that is 0 is not checked.
func (a Amount) exceeds(n, bound Amount) bool {
	exceeds := func(inUse, n, bound int) bool { return bound > 0 && n > 0 && inUse > 0 && inUse+n > bound }
	return exceeds(a.Count, n.Count, bound.Count) || exceeds(a.Bytes, n.Bytes, bound.Bytes)
}

// Full says why Acquire refused.
type Full struct {
	OfTenant bool   // the bound of the tenant is reached, not the one in all
	InUse    Amount // by the tenant if OfTenant, else in all
}

// Semaphore bounds what is held at once, by each tenant and in all. It has no queue: it refuses
// what exceeds a bound.
type Semaphore struct {
	perTenant, total Amount

	mu       sync.Mutex
	inUse    Amount
	byTenant map[uuid.UUID]Amount
}

// NewSemaphore returns a semaphore with a bound for each tenant and one for all together.
// Components that are 0 are not bounded.
func NewSemaphore(perTenant, total Amount) *Semaphore {
	return &Semaphore{perTenant: perTenant, total: total, byTenant: map[uuid.UUID]Amount{}}
}

// Acquire admits n of a tenant, to be released, or returns why it does not. Background work leaves
// a quarter of the bound in all to interactive requests.
func (s *Semaphore) Acquire(id uuid.UUID, n Amount, background bool) *Full {
	s.mu.Lock()
	defer s.mu.Unlock()
	total := s.total
	if background {
		total = Amount{total.Count - total.Count/4, total.Bytes - total.Bytes/4}
	}
	switch tenantUse := s.byTenant[id]; {
	case tenantUse.exceeds(n, s.perTenant):
		return &Full{OfTenant: true, InUse: tenantUse}
	case s.inUse.exceeds(n, total):
		return &Full{InUse: s.inUse}
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
	s.inUse = s.inUse.plus(n)
	if s.byTenant[id] = s.byTenant[id].plus(n); s.byTenant[id] == (Amount{}) {
		delete(s.byTenant, id)
	}
}

// InUse returns what all tenants hold together.
func (s *Semaphore) InUse() Amount {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inUse
}
