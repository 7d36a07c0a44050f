package fairness

// This file tests what holds of the scheduler whatever work it has: on random work, with a clock of
// its own.

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

const longestRun = 200 * time.Millisecond

// work is what tenants ask of a scheduler: who is answered asks again at once.
type work struct {
	*served
	r       *rand.Rand
	running []run
	began   map[uuid.UUID]time.Time // when a tenant's last item did, or when it had something waiting again
	used    map[uuid.UUID]time.Duration
}

type run struct {
	tenant uuid.UUID
	slot   *Slot[string]
	until  time.Time
}

// newWork has so many callers of each of some tenants ask.
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

// step begins what may run, then lets time pass until something ends. It gives the longest that a
// tenant which had something waiting had nothing begin.
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

// TestWhateverIsAskedSlotsAreBounded in all, and of each tenant while others ask to two shares, and
// so is what waits.
func TestWhateverIsAskedSlotsAreBounded(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		w := newWork(t, r, 2+r.IntN(6), func() int { return 1 + r.IntN(100) })
		for range 1000 {
			w.step()
			if running, _ := w.Load(); running > w.slots || running != len(w.running) {
				t.Fatalf("seed %d: %d run in %d slots", seed, running, w.slots)
			}
			for _, x := range w.queue.tenants {
				if x.running > min(2*w.share, w.alone) {
					t.Fatalf("seed %d: %d of a tenant with a share of %d run while others ask", seed, x.running, w.share)
				}
				if n := len(x.waiting) + x.running; n > w.alone+w.bound {
					t.Fatalf("seed %d: %d of a tenant run and wait", seed, n)
				}
			}
		}
	}
}

// TestWhateverIsAskedNoTenantStarves: when Patience is over its oldest request is the next to have
// a slot, but for those of others that waited as long.
func TestWhateverIsAskedNoTenantStarves(t *testing.T) {
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

// TestTenantsThatAskAlikeHaveAlike: of the slots' time.
func TestTenantsThatAskAlikeHaveAlike(t *testing.T) {
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
