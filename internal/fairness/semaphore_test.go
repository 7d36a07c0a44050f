package fairness

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/uuid"
)

func TestASemaphoreBoundsEachAndAll(t *testing.T) {
	s := NewSemaphore(Amount{Count: 2, Bytes: 100}, Amount{Count: 4, Bytes: 1000})
	one := func(bytes int) Amount { return Amount{1, bytes} }
	for name, c := range map[string]struct {
		held []Amount // by the tenant
		by   []Amount // by others
		n    Amount
		back bool
		want *Full
	}{
		"the first":                       {nil, nil, one(10), false, nil},
		"larger than all, alone":          {nil, nil, one(2000), false, nil},
		"the last of its own":             {[]Amount{one(10)}, nil, one(90), false, nil},
		"too many of its own":             {[]Amount{one(10), one(10)}, nil, one(10), false, &Full{true, Amount{2, 20}}},
		"too large for its own":           {[]Amount{one(10)}, nil, one(91), false, &Full{true, Amount{1, 10}}},
		"too many of all":                 {nil, []Amount{one(1), one(1), one(1), one(1)}, one(1), false, &Full{false, Amount{4, 4}}},
		"too large for all":               {nil, []Amount{one(50), one(60)}, one(900), false, &Full{false, Amount{2, 110}}},
		"bytes alone, of as many":         {nil, []Amount{one(1), one(1), one(1), one(1)}, Amount{0, 10}, false, nil},
		"background leaves a quarter":     {nil, []Amount{one(1), one(1), one(1)}, one(1), true, &Full{false, Amount{3, 3}}},
		"background up to three quarters": {nil, []Amount{one(1), one(1)}, one(700), true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range c.held {
				if full := s.Acquire(loud, n, false); full != nil {
					t.Fatalf("%+v", full)
				}
			}
			for i, n := range c.by {
				if full := s.Acquire(uuid.UUID{100, byte(i)}, n, false); full != nil {
					t.Fatalf("%+v", full)
				}
			}
			full := s.Acquire(loud, c.n, c.back)
			if (full == nil) != (c.want == nil) || full != nil && *full != *c.want {
				t.Errorf("got %+v, want %+v", full, c.want)
			}
			if full == nil {
				s.Release(loud, c.n)
			}
			for _, n := range c.held {
				s.Release(loud, n)
			}
			for i, n := range c.by {
				s.Release(uuid.UUID{100, byte(i)}, n)
			}
			if s.InUse() != (Amount{}) || len(s.byTenant) != 0 {
				t.Errorf("%+v is held when all is released", s.InUse())
			}
		})
	}
}

// TestSlotsAreBounded: the bounds hold at any time under concurrent use.
func TestSlotsAreBounded(t *testing.T) {
	const each, all = 3, 8
	s := NewSemaphore(Amount{Count: each}, Amount{Count: all})
	var mu sync.Mutex
	held, of := 0, map[uuid.UUID]int{}
	var callers sync.WaitGroup
	for i := range 32 {
		callers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 5))
			for range 500 {
				tenant, n := uuid.UUID{byte(r.IntN(5))}, Amount{Count: 1 + r.IntN(2)}
				if s.Acquire(tenant, n, false) != nil {
					continue
				}
				mu.Lock()
				held, of[tenant] = held+n.Count, of[tenant]+n.Count
				if held > all || of[tenant] > each {
					t.Errorf("%d are held, %d by one", held, of[tenant])
				}
				held, of[tenant] = held-n.Count, of[tenant]-n.Count
				mu.Unlock()
				s.Release(tenant, n)
			}
		})
	}
	callers.Wait()
	if s.InUse() != (Amount{}) || len(s.byTenant) != 0 {
		t.Errorf("%+v is held at the end", s.InUse())
	}
}
