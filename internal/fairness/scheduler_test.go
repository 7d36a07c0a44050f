package fairness

// This file tests which item runs next, without a server and on a fake clock.

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
)

var loud, quiet, third = uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}

// served is a scheduler under test that one goroutine uses. fetch must not be called when no item
// may run.
type served struct {
	t *testing.T
	*Scheduler[string]
	at time.Time
}

func newServed(t *testing.T, slots, share int) *served {
	s := &served{t: t, at: time.Unix(0, 0)}
	s.Scheduler = NewScheduler[string](slots, share, slots, func() time.Time { return s.at })
	return s
}

func (s *served) give(tenant uuid.UUID, name string, count int) (accepted int) {
	s.t.Helper()
	for range count {
		ok, closed := s.Put(tenant, name)
		if closed {
			s.t.Fatal("the queue is closed")
		}
		if ok {
			accepted++
		}
	}
	return accepted
}

// idle reports whether no request may run.
func (s *served) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next() == nil
}

func (s *served) fetch(want string) (done func()) {
	s.t.Helper()
	if s.idle() {
		s.t.Fatalf("nothing may run, want %s", want)
	}
	got, slot, _ := s.Next()
	if got != want {
		s.t.Fatalf("%s is next, want %s", got, want)
	}
	return slot.End
}

// TestAFloodDelaysOthersByNoRequest: whatever one tenant sends, another tenant's request is the
// next to begin, and while that tenant is active, the flood runs only its share.
func TestAFloodDelaysOthersByNoRequest(t *testing.T) {
	s := newServed(t, 8, 2)
	if accepted := s.give(loud, "loud", 1000); accepted != 6+8 {
		t.Fatalf("%d of the flood were taken, want what may run and wait: 14", accepted)
	}
	var running []func()
	for !s.idle() {
		running = append(running, s.fetch("loud"))
	}
	if len(running) != 6 {
		t.Fatalf("%d of a lone tenant run, want 6 of 8", len(running))
	}
	s.at = s.at.Add(10 * time.Second) // longer than the flood's savings last
	// There is a slot for the newcomer before any request of the flood ends.
	if s.give(quiet, "quiet", 1) != 1 {
		t.Fatal("a newcomer was refused")
	}
	end := s.fetch("quiet")
	if !s.idle() {
		t.Fatal("more of the flood began before a newcomer")
	}
	end()
	for i, done := range running {
		done()
		if over := i >= 4; s.idle() == over {
			t.Fatalf("%d of the flood run while another tenant asks: idle %v", 5-i, s.idle())
		}
	}
}

// TestManyCallersDelayNoOther: 32 callers of one tenant ask again as soon as they are answered. So
// does the only caller of another tenant, which is never more than one request behind.
func TestManyCallersDelayNoOther(t *testing.T) {
	const callers, took = 32, 50 * time.Millisecond
	s := newServed(t, 4, 1)
	s.bound = 64
	if accepted := s.give(loud, "loud", callers); accepted != callers {
		t.Fatalf("%d of %d callers were taken", accepted, callers)
	}
	type run struct {
		tenant uuid.UUID
		end    func()
	}
	var running []run
	names := map[string]uuid.UUID{"loud": loud, "quiet": quiet}
	served := map[uuid.UUID]int{}
	s.give(quiet, "quiet", 1)
	const rounds = 400
	for range rounds {
		for !s.idle() {
			name, slot, _ := s.Next()
			running = append(running, run{names[name], slot.End})
		}
		s.at = s.at.Add(took)
		for _, r := range running {
			r.end()
		}
		for name, tenant := range names { // an answered caller asks again
			for _, r := range running {
				if r.tenant == tenant {
					served[tenant]++
					if s.give(tenant, name, 1) != 1 {
						t.Fatalf("a caller of %s was refused", name)
					}
				}
			}
		}
		running = nil
	}
	if served[quiet] < rounds {
		t.Errorf("the one caller was served %d times of %d", served[quiet], rounds)
	}
	if served[loud] < rounds {
		t.Errorf("the 32 callers were served %d times: less than their share", served[loud])
	}
}

// TestWithdrawnItemsAreNotServed: nor is it counted, and its tenant is not served next if it was
// its last item.
func TestWithdrawnItemsAreNotServed(t *testing.T) {
	s := newServed(t, 1, 1)
	s.bound = 2
	s.give(loud, "first", 1)
	done := s.fetch("first")
	s.give(loud, "second", 1)
	s.give(loud, "third", 1)
	if s.give(loud, "fourth", 1) != 0 {
		t.Fatal("a full queue took more")
	}
	withdrawn := func(item string) (running []int) {
		s.Withdraw(loud, item, func(n int) { running = append(running, n) })
		return running
	}
	if running := withdrawn("second"); !slices.Equal(running, []int{1}) {
		t.Fatalf("withdrawn while %d run", running)
	}
	if s.give(loud, "fourth", 1) != 1 {
		t.Error("a withdrawn request still counts")
	}
	if running := withdrawn("first"); running != nil {
		t.Error("what runs was withdrawn")
	}
	done()
	s.fetch("third")()
	withdrawn("fourth")
	if !s.idle() || !s.queue.Empty() {
		t.Error("something is left")
	}
	s.Wait()
}

// TestTenantsAlternate: one slot, and queues of different lengths.
func TestTenantsAlternate(t *testing.T) {
	s := newServed(t, 1, 1)
	s.bound = 5
	s.give(loud, "loud", 4)
	done := s.fetch("loud")
	s.give(quiet, "quiet", 2)
	s.give(third, "third", 1)
	for _, want := range []string{"loud", "quiet", "third", "loud", "quiet", "loud"} {
		done()
		done = s.fetch(want)
	}
	done()
	if !s.idle() {
		t.Error("something is left")
	}
}

// TestAFullQueueAffectsItsTenantOnly: a tenant is refused only when its own queue is full.
func TestAFullQueueAffectsItsTenantOnly(t *testing.T) {
	s := newServed(t, 2, 1)
	s.give(loud, "loud", 100)
	if ok, _ := s.Put(loud, "loud"); ok {
		t.Error("a full queue took more")
	}
	if got := s.give(quiet, "quiet", 3); got != 3 {
		t.Errorf("another tenant got %d of 3 requests taken", got)
	}
}

// TestOccasionalTenantsAreServedFirst: a tenant that has used up its time begins no request while
// one that has not is served, except one request every StarvationLimit.
func TestOccasionalTenantsAreServedFirst(t *testing.T) {
	s := newServed(t, 8, 2)
	s.give(quiet, "quiet", 1)
	s.fetch("quiet")()
	s.give(loud, "loud", 8)
	var running []func()
	for range 4 { // paid from its savings
		running = append(running, s.fetch("loud"))
	}
	if !s.idle() {
		t.Fatal("savings gave more than twice the share")
	}
	s.at = s.at.Add(savingsTime) // four run and two are earned, so the savings are used up
	running[0]()
	running[1]()
	if !s.idle() {
		t.Fatal("a tenant without savings runs more than its share")
	}
	s.give(quiet, "quiet", 3)
	for range 3 { // its requests do not wait for each other
		s.fetch("quiet")
	}
	running[2]()
	running[3]()
	if !s.idle() {
		t.Fatal("a tenant without savings began before one that goes first")
	}
	s.at = s.at.Add(StarvationLimit - 1)
	if !s.idle() {
		t.Fatal("a tenant without savings began before its StarvationLimit was over")
	}
	s.at = s.at.Add(1)
	s.fetch("loud")
}

// TestTenantsWithoutSavedTimeShareSlots: a tenant that asks for a little more than its share
// does not wait for a tenant that asks for all slots.
func TestTenantsWithoutSavedTimeShareSlots(t *testing.T) {
	s := newServed(t, 16, 2)
	spend := func(tenant uuid.UUID, name string) {
		s.give(tenant, name, 3)
		of := s.queue.tenants[tenant]
		of.saved, of.counted = 0, s.at
	}
	spend(loud, "loud")
	spend(quiet, "quiet")
	spend(third, "third")
	first := s.fetch("loud")
	s.fetch("quiet")
	s.fetch("third")
	s.fetch("loud")
	if !s.idle() {
		t.Fatal("tenants that have nothing left run more than two shares")
	}
	first()
	s.fetch("quiet") // it is next
	if !s.idle() {
		t.Fatal("tenants that have nothing left run more than two shares")
	}
}

// TestAFloodUsesUpItsSavingsAtOnce: waiting requests count, so that a flood soon runs only its
// share.
func TestAFloodUsesUpItsSavingsAtOnce(t *testing.T) {
	s := newServed(t, 8, 2)
	s.give(quiet, "quiet", 1)
	s.fetch("quiet")()
	s.give(loud, "loud", 8)
	for range 4 {
		s.fetch("loud")
	}
	s.at = s.at.Add(2*savingsTime/6 + 1) // eight count and two are earned
	s.idle()
	if left := s.queue.tenants[loud].saved; left != 0 {
		t.Errorf("%v are left of the flood's savings", left)
	}
}

// TestRunningItemsGiveWayOnce: a request of a tenant that has used up its time waits, between two
// steps, for requests of a tenant that has not, for StarvationLimit in all.
func TestRunningItemsGiveWayOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewScheduler[string](8, 1, 8, time.Now)
		defer f.Close()
		run := func(tenant uuid.UUID) *Slot[string] {
			f.Put(tenant, "a search")
			_, at, _ := f.Next()
			return at
		}
		yielded := func(p *Slot[string]) (took func() time.Duration) {
			done, started := make(chan time.Duration, 1), time.Now()
			go func() {
				p.Yield(t.Context())
				done <- time.Since(started)
			}()
			synctest.Wait()
			return func() time.Duration { return <-done }
		}
		seldom, noisy := run(quiet), run(loud)
		run(loud) // so that it doesn't earn
		if took := yielded(noisy)(); took != 0 || noisy.Yields() {
			t.Errorf("with savings it gave way for %v", took)
		}
		noisy.tenant.saved = 0
		if took := yielded(seldom)(); took != 0 || seldom.Yields() {
			t.Errorf("the other gave way for %v", took)
		}
		if !noisy.Yields() {
			t.Error("without savings it does not yield")
		}
		took := yielded(noisy)
		time.Sleep(StarvationLimit / 4) // of the bubble's clock
		seldom.End()
		if took := took(); took != StarvationLimit/4 {
			t.Errorf("it gave way for %v, want until the other ended", took)
		}
		run(quiet)
		noisy.tenant.saved = 0
		if took := yielded(noisy)(); took != StarvationLimit-StarvationLimit/4 {
			t.Errorf("it gave way for %v more, want for what was left of a second", took)
		}
		if took := yielded(noisy)(); took != 0 || noisy.Yields() {
			t.Errorf("it gave way for %v beyond", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		(&Slot[string]{scheduler: f, tenant: noisy.tenant}).Yield(ctx) // it returns although no item ends
	})
}

// TestSharesEndWithTheOtherTenants: the only active tenant may use most of the slots again.
func TestSharesEndWithTheOtherTenants(t *testing.T) {
	s := newServed(t, 4, 1)
	s.give(quiet, "quiet", 1)
	s.fetch("quiet")()
	s.give(loud, "loud", 6)
	s.fetch("loud")
	s.fetch("loud")
	if !s.idle() {
		t.Fatal("a third one runs, though another tenant was just here")
	}
	s.at = s.at.Add(tenantTTL)
	s.fetch("loud")
	if !s.idle() {
		t.Fatal("a tenant took all slots")
	}
	if len(s.queue.tenants) != 1 {
		t.Errorf("%d tenants are remembered, want 1", len(s.queue.tenants))
	}
}

// TestCloseServesWaitingItems: Close lets waiting items be served and wakes all workers that wait
// for more.
func TestCloseServesWaitingItems(t *testing.T) {
	f := NewScheduler[int](3, 1, 3, time.Now)
	for i := range 3 {
		f.Put(loud, i)
		f.Put(quiet, i)
	}
	served, ended := make(chan int, 6), make(chan struct{})
	for range 3 {
		go func() {
			for {
				i, slot, more := f.Next()
				if !more {
					ended <- struct{}{}
					return
				}
				served <- i
				slot.End()
			}
		}()
	}
	f.Close()
	for range 3 {
		<-ended
	}
	if len(served) != 6 {
		t.Errorf("%d of 6 were served", len(served))
	}
	if accepted, closed := f.Put(loud, 1); accepted || !closed {
		t.Errorf("a closed queue took a request")
	}
}
