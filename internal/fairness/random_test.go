package fairness

// This file tests invariants of the scheduler on random work, on a fake clock.

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

const longestRun = 200 * time.Millisecond

// work is the requests of tenants to a scheduler: an answered caller asks again at once.
type work struct {
	*served
	r       *rand.Rand
	running []run
	began   map[uuid.UUID]time.Time // when a tenant's last item began, or when items of it began to wait again
	used    map[uuid.UUID]time.Duration
}

type run struct {
	tenant uuid.UUID
	slot   *Slot[string]
	until  time.Time
}

// newWork makes work of some tenants with callers() callers each.
func newWork(t *testing.T, r *rand.Rand, tenants int, callers func() int) *work {
	slots := 2 + r.IntN(15)
	w := &work{served: newServed(t, slots, 1+r.IntN(max(1, slots/2))), r: r, began: map[uuid.UUID]time.Time{}, used: map[uuid.UUID]time.Duration{}}
	w.bound = 64
	for i := range tenants {
		for range callers() {
			w.ask(uuid.UUID{byte(i + 1)})
		}
	}
	return w
}

func (w *work) ask(tenant uuid.UUID) {
	w.Put(tenant, tenant.String())
	if len(w.queue.tenants[tenant].waiting) == 1 {
		w.began[tenant] = w.at
	}
}

// step begins all items that may run, then lets time pass until one ends. It returns the longest
// time that a tenant had items waiting before one of them began.
func (w *work) step() (gap time.Duration) {
	for !w.idle() {
		name, slot, _ := w.Next()
		tenant := uuid.MustParse(name)
		took := 1 + time.Duration(w.r.Int64N(int64(longestRun)))
		gap = max(gap, w.at.Sub(w.began[tenant]))
		w.began[tenant] = w.at
		w.used[tenant] += took
		w.running = append(w.running, run{tenant, slot, w.at.Add(took)})
	}
	w.at = slices.MinFunc(w.running, func(a, b run) int { return a.until.Compare(b.until) }).until
	w.running = slices.DeleteFunc(w.running, func(r run) bool {
		over := !r.until.After(w.at)
		if over {
			r.slot.End()
			w.ask(r.tenant)
		}
		return over
	})
	return gap
}

// TestRandomLoadKeepsSlotsBounded: running items are bounded in all and, while several tenants
// are active, to two shares of each tenant. Waiting items are bounded, too.
func TestRandomLoadKeepsSlotsBounded(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		w := newWork(t, r, 2+r.IntN(6), func() int { return 1 + r.IntN(100) })
		for range 1000 {
			w.step()
			if running, _ := w.Load(); running > w.slots || running != len(w.running) {
				t.Fatalf("seed %d: %d run in %d slots", seed, running, w.slots)
			}
			for _, x := range w.queue.tenants {
				if x.running > min(2*w.share, w.soleTenantLimit) {
					t.Fatalf("seed %d: %d of a tenant with a share of %d run while others ask", seed, x.running, w.share)
				}
				if n := len(x.waiting) + x.running; n > w.soleTenantLimit+w.bound {
					t.Fatalf("seed %d: %d of a tenant run and wait", seed, n)
				}
			}
		}
	}
}

// TestRandomLoadStarvesNoTenant: after StarvationLimit a tenant's oldest request is the next
// to get a slot, except for others' requests that waited as long.
func TestRandomLoadStarvesNoTenant(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		tenants := 2 + r.IntN(20)
		w := newWork(t, r, tenants, func() int { return 1 + r.IntN(60) })
		most := StarvationLimit + time.Duration(1+tenants)*longestRun
		for range 2000 {
			if gap := w.step(); gap > most {
				t.Fatalf("seed %d: a tenant of %d had something waiting and nothing begun for %v", seed, tenants, gap)
			}
		}
	}
}

// TestEqualLoadGetsEqualShares: tenants with the same number of callers use about the same time
// of the slots.
func TestEqualLoadGetsEqualShares(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 4))
		tenants, callers := 2+r.IntN(6), 1+r.IntN(60)
		w := newWork(t, r, tenants, func() int { return callers })
		for range 3000 {
			w.step()
		}
		least, most := time.Hour, time.Duration(0)
		for _, used := range w.used {
			least, most = min(least, used), max(most, used)
		}
		if least < most*8/10 {
			t.Errorf("seed %d: %d tenants with %d callers each used between %v and %v", seed, tenants, callers, least, most)
		}
	}
}
