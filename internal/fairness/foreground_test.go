package fairness

// This file tests how background work gives way: whose item is next and how many run, on a fake
// clock.

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
)

// begins checks which tenants' items begin now.
func begins(t *testing.T, b *Background[*uuid.UUID], now time.Time, want ...uuid.UUID) {
	t.Helper()
	one := BatchLimits[*uuid.UUID]{Size: func(*uuid.UUID) int64 { return 0 }, Items: 1, Share: 1}
	for i, tenant := range want {
		if got, found := b.NextBatch(now, one); !found || *got.Items[0] != tenant {
			t.Fatalf("item %d is %v, want one of %s", i, got.Items, tenant)
		}
	}
	if got, found := b.NextBatch(now, one); found {
		t.Fatalf("an item of %s began, too", got.Items[0])
	}
}

// ends records that an item of a tenant has ended.
func ends(b *Background[*uuid.UUID], tenant uuid.UUID, now time.Time) {
	b.EndBatch(Batch[*uuid.UUID]{tenants: []uuid.UUID{tenant}}, now)
}

// put queues an item for each of these tenants.
func put(b *Background[*uuid.UUID], now time.Time, tenants ...uuid.UUID) {
	for _, tenant := range tenants {
		b.Put(tenant, &tenant, now)
	}
}

func TestForegroundLastsForItsWindow(t *testing.T) {
	f, now := NewForeground(2*time.Second), time.Unix(100, 0)
	if left := f.Remaining(now); left != 0 {
		t.Errorf("before any request somebody counts for %s", left)
	}
	f.Record(now)
	if left := f.Remaining(now.Add(2*time.Second - time.Millisecond)); left != time.Millisecond {
		t.Errorf("a millisecond before its end a request counts for %s", left)
	}
	if left := f.Remaining(now.Add(2 * time.Second)); left != 0 {
		t.Errorf("at its end a request counts for %s", left)
	}
}

func TestLessRunsInTheBackgroundWhileSomebodyWaits(t *testing.T) {
	now, f := time.Unix(100, 0), NewForeground(2*time.Second)
	f.Record(now)
	b := NewBackground[*uuid.UUID](f, 4, 1)
	put(b, now, loud, loud, loud, loud, loud, loud)
	begins(t, b, now, loud)
	if until := b.UntilFree(now); until != 2*time.Second {
		t.Errorf("looks again in %s, want when nobody waits any more: 2s", until)
	}
	now = now.Add(2 * time.Second)
	begins(t, b, now, loud, loud, loud) // four run in all
	if until := b.UntilFree(now); until != time.Minute {
		t.Errorf("looks again in %s though all run that may", until)
	}
	f.Record(now)
	for range 3 {
		ends(b, loud, now)
		begins(t, b, now) // items that ran before have to end first
	}
	ends(b, loud, now)
	begins(t, b, now, loud)
	ends(b, loud, now)
	begins(t, b, now, loud)
	if b.Free(now) {
		t.Error("more might run while somebody waits and something runs")
	}
	ends(b, loud, now)
	if !b.Free(now) {
		t.Error("no more might run though nothing runs")
	}
}

func TestReducedLimitIsAtMostTheLimit(t *testing.T) {
	now, f := time.Unix(100, 0), NewForeground(time.Second)
	f.Record(now)
	b := NewBackground[*uuid.UUID](f, 1, 8)
	put(b, now, loud, loud)
	begins(t, b, now, loud)
}

func TestFewestRunningItemsIsServedNext(t *testing.T) {
	now := time.Unix(100, 0)
	b := NewBackground[*uuid.UUID](NewForeground(time.Second), 2, 2)
	put(b, now, loud, loud, loud, loud)
	begins(t, b, now, loud, loud)
	put(b, now, quiet, quiet)
	ends(b, loud, now)
	begins(t, b, now, quiet)
	ends(b, loud, now)
	begins(t, b, now, loud)
	ends(b, quiet, now)
	begins(t, b, now, quiet)
	left := 0
	for range b.All() {
		left++
	}
	if left != 1 || b.running != 2 {
		t.Errorf("%d wait and %d run", left, b.running)
	}
	ends(b, loud, now)
	ends(b, quiet, now)
	if b.running != 0 {
		t.Errorf("%d run, want none", b.running)
	}
}

// TestBackgroundPausesWhileSomebodyWaits: it pauses for as long as it worked, a second at most, and
// not after it is cancelled.
func TestBackgroundPausesWhileSomebodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewForeground(2 * time.Second)
		paused := func(ctx context.Context, worked time.Duration) time.Duration {
			begin := time.Now()
			f.Pause(ctx, worked)
			return time.Since(begin)
		}
		if took := paused(t.Context(), time.Minute); took != 0 {
			t.Errorf("it paused for %v although nobody waits", took)
		}
		for worked, want := range map[time.Duration]time.Duration{30 * time.Millisecond: 30 * time.Millisecond, time.Minute: maxPause} {
			f.Record(time.Now())
			if took := paused(t.Context(), worked); took != want {
				t.Errorf("after %v it paused for %v, want %v", worked, took, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if took := paused(ctx, time.Minute); took != 0 {
			t.Errorf("cancelled, it paused for %v", took)
		}
	})
}
