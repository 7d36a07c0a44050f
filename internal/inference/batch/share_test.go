package batch

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-rag/sluice/schema/wire"
)

// TestBulkKeepsToItsShare: a quarter of two cores is half a core, so a batch of one thread is
// followed by a pause of the same length. Interactive requests run during the pause.
func TestBulkKeepsToItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(1)
		pool.Bound(NewShare(0.25, 1, 2, nil))
		defer pool.Close()
		r := &recorder{takes: time.Second}
		q := queueOf(pool, r, func(o *Options) { o.MaxItems = 1 })
		begin := time.Now()
		var waiting []<-chan error
		for _, name := range []string{"a", "b", "c"} {
			waiting = append(waiting, do(q, t.Context(), wire.LaneBulk, item{3, name, nil}))
		}
		time.Sleep(1100 * time.Millisecond) // into the first pause
		waiting = append(waiting, do(q, t.Context(), wire.LaneInteractive, item{3, "U", nil}))
		for _, w := range waiting {
			if err := <-w; err != nil {
				t.Fatal(err)
			}
		}
		if got := r.names(); !slices.Equal(got, []string{"a", "U", "b", "c"}) {
			t.Errorf("order %v", got)
		}
		if took := time.Since(begin); took < 5*time.Second || took > 5500*time.Millisecond {
			t.Errorf("three batches of a second and their two pauses took %v", took)
		}
	})
}

// TestBulkPausesOnABusyMachine tests that bulk pauses until other processes need the machine no
// longer.
func TestBulkPausesOnABusyMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := time.Now().Add(10 * time.Second)
		pool := NewPool(1)
		pool.Bound(NewShare(1, 1, 1, func(now time.Time) bool { return now.Before(free) }))
		defer pool.Close()
		r := &recorder{takes: time.Second}
		q := queueOf(pool, r, nil)
		bulk := do(q, t.Context(), wire.LaneBulk, item{3, "bulk", nil})
		urgent := do(q, t.Context(), wire.LaneInteractive, item{3, "urgent", nil})
		if err := errors.Join(<-urgent, <-bulk); err != nil {
			t.Fatal(err)
		}
		if got := r.names(); !slices.Equal(got, []string{"urgent", "bulk"}) {
			t.Errorf("order %v", got)
		}
		if now := time.Now(); now.Before(free) {
			t.Errorf("the bulk ran %v before the machine was free", free.Sub(now))
		}
	})
}

func TestOthersBusyCountsThisMachine(t *testing.T) {
	busy := OthersBusy()
	if busy == nil {
		t.Skip("there is no /proc")
	}
	busy(time.Now()) // the result may be either; reading the load must not fail
}
