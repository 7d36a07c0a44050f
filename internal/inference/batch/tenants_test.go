package batch

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema/wire"
)

var loud, quiet = uuid.UUID{1}, uuid.UUID{2}

// letters returns items that run alone, one after another.
func letters(names string) (items []item) {
	for _, n := range names {
		items = append(items, item{3, string(n), nil})
	}
	return items
}

// TestLessUsageGoesBeforeABacklog: the tenant with less use runs first, whatever the time and
// graph of its request.
func TestLessUsageGoesBeforeABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(1)
		defer pool.Close()
		r := &recorder{takes: 100 * time.Millisecond}
		one := func(o *Options) { o.MaxItems = 1 }
		pair, encoder := queueOf(pool, r, one), queueOf(pool, r, one)
		backlog := doAs(pair, t.Context(), Caller{Tenant: loud, Lane: wire.LaneInteractive}, letters("abcdef")...)
		time.Sleep(150 * time.Millisecond) // b runs
		asked := doAs(encoder, t.Context(), Caller{Tenant: quiet, Lane: wire.LaneInteractive}, letters("Q")...)
		time.Sleep(time.Millisecond)
		scored := doAs(pair, t.Context(), Caller{Tenant: quiet, Lane: wire.LaneInteractive}, letters("RS")...)
		if err := errors.Join(<-backlog, <-asked, <-scored); err != nil {
			t.Fatal(err)
		}
		// Of two tenants with equal use, the older request runs first.
		if got := r.names(); !slices.Equal(got, []string{"a", "b", "Q", "R", "c", "S", "d", "e", "f"}) {
			t.Errorf("order %v", got)
		}
	})
}

// TestYieldingRequestsRunLater: requests that yield run after other interactive requests and before
// bulk, and leave a worker free, but only for a limited time.
func TestYieldingRequestsRunLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(1)
		defer pool.Close()
		r := &recorder{takes: 100 * time.Millisecond}
		q := queueOf(pool, r, func(o *Options) { o.MaxItems = 1 })
		backlog := doAs(q, t.Context(), Caller{Tenant: loud, Lane: wire.LaneInteractive, Yields: true}, letters("abcd")...)
		bulk := doAs(q, t.Context(), Caller{Tenant: loud, Lane: wire.LaneBulk}, letters("v")...)
		time.Sleep(50 * time.Millisecond)
		asked := doAs(q, t.Context(), Caller{Tenant: quiet, Lane: wire.LaneInteractive}, letters("QRSTUVWXYZAB")...)
		if err := errors.Join(<-backlog, <-asked, <-bulk); err != nil {
			t.Fatal(err)
		}
		// After a second the backlog no longer yields.
		want := []string{"a", "Q", "R", "S", "T", "U", "V", "W", "X", "Y", "b", "c", "d", "Z", "A", "B", "v"}
		if got := r.names(); !slices.Equal(got, want) {
			t.Errorf("order %v", got)
		}
	})
}

func TestYieldingRequestsLeaveAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{takes: 100 * time.Millisecond}
		q := queueOf(NewPool(2), r, func(o *Options) { o.MaxItems = 1 })
		defer q.pool.Close()
		took := func() time.Duration {
			t.Helper()
			started := time.Now()
			if err := q.Do(t.Context(), Caller{Tenant: loud, Lane: wire.LaneInteractive, Yields: true}, letters("abcd")); err != nil {
				t.Fatal(err)
			}
			return time.Since(started)
		}
		if alone := took(); alone != 200*time.Millisecond {
			t.Errorf("alone it took %v, want 200ms on two workers", alone)
		}
		if err := q.Do(t.Context(), Caller{Tenant: quiet, Lane: wire.LaneInteractive}, letters("Q")); err != nil {
			t.Fatal(err)
		}
		if beside := took(); beside != 400*time.Millisecond {
			t.Errorf("beside another tenant it took %v, want 400ms on one worker", beside)
		}
	})
}

// TestTwoBacklogsAlternate: two tenants share the workers by the time that they use.
func TestTwoBacklogsAlternate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(1)
		defer pool.Close()
		r := &recorder{takes: 100 * time.Millisecond}
		q := queueOf(pool, r, func(o *Options) { o.MaxItems = 1 })
		one := doAs(q, t.Context(), Caller{Tenant: loud, Lane: wire.LaneBulk}, letters("abcd")...)
		other := doAs(q, t.Context(), Caller{Tenant: quiet, Lane: wire.LaneBulk}, letters("WXYZ")...)
		if err := errors.Join(<-one, <-other); err != nil {
			t.Fatal(err)
		}
		loudest := 0 // largest lead of one tenant
		ahead := 0
		for _, name := range r.names() {
			if name < "a" {
				ahead--
			} else {
				ahead++
			}
			loudest = max(loudest, ahead, -ahead)
		}
		if loudest > 1 {
			t.Errorf("order %v", r.names())
		}
	})
}

// TestCreditIsBounded: a tenant that was idle for long alternates with others again when its credit
// is used up.
func TestCreditIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(1)
		defer pool.Close()
		r := &recorder{takes: shareCredit / 4} // the time of each item
		q := queueOf(pool, r, func(o *Options) { o.MaxItems = 1 })
		first := doAs(q, t.Context(), Caller{Tenant: quiet, Lane: wire.LaneInteractive}, letters("A")...)
		long := doAs(q, t.Context(), Caller{Tenant: loud, Lane: wire.LaneInteractive}, letters("abcdefghijklmnopqrstuvwxyz")...)
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		time.Sleep(3*shareCredit + shareCredit/8) // of the bubble's clock: an item of the other tenant runs
		before := len(r.names())
		back := doAs(q, t.Context(), Caller{Tenant: quiet, Lane: wire.LaneInteractive}, letters("BCDEFGHIJK")...)
		if err := errors.Join(<-long, <-back); err != nil {
			t.Fatal(err)
		}
		row, between := 0, 0 // items before the first of the other tenant, and items of the other tenant among its own
		got := r.names()[before:]
		for got[row] < "a" {
			row++
		}
		last := slices.Index(got, "K")
		for _, name := range got[:last] {
			if name >= "a" {
				between++
			}
		}
		if row < 4 || row > 6 || between < 3 {
			t.Errorf("it ran %d in a row, and the other %d until it was done: %v", row, between, got)
		}
	})
}

// TestBatchCostIsSharedByItsTenants tests that a batch is charged by length.
func TestBatchCostIsSharedByItsTenants(t *testing.T) {
	q := queue(&recorder{}, nil)
	defer q.pool.Close()
	waiting, now := q.pool.waiting[0], time.Unix(0, 0)
	one, other := &request{tenant: loud}, &request{tenant: quiet}
	waiting.Put(loud, one, now)
	waiting.Put(quiet, other, now)
	q.charge([]entry[item]{{size: Tokens(30), request: one}, {size: Tokens(10), request: other}}, time.Second)
	all := func(*request) bool { return true }
	waiting.Charge(quiet, 499*time.Millisecond) // of the 500 ms that it was charged less
	if first, _ := waiting.First(all); first != other {
		t.Error("the one with a quarter of the cells paid more than a quarter")
	}
	waiting.Charge(quiet, 2*time.Millisecond)
	if first, _ := waiting.First(all); first != one {
		t.Error("the one with a quarter of the cells paid less than a quarter")
	}
}
