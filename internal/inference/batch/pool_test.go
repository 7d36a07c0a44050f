package batch

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-rag/sluice/schema/wire"
)

// TestOneGraphsInteractiveGoesBeforeAnothersBulk also tests that in a lane the oldest request runs
// first, whatever its graph.
func TestOneGraphsInteractiveGoesBeforeAnothersBulk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(1)
		defer pool.Close()
		r := &recorder{takes: 100 * time.Millisecond}
		one := func(o *Options) { o.MaxItems = 1 }
		encoder, pair := queueOf(pool, r, one), queueOf(pool, r, one)
		running := do(encoder, t.Context(), wire.LaneBulk, item{3, "a", nil})
		later := do(pair, t.Context(), wire.LaneBulk, item{3, "b", nil})
		time.Sleep(time.Millisecond) // of the bubble's clock: the next request is younger
		last := do(encoder, t.Context(), wire.LaneBulk, item{3, "c", nil})
		urgent := do(pair, t.Context(), wire.LaneInteractive, item{3, "U", nil})
		if err := errors.Join(<-running, <-later, <-last, <-urgent); err != nil {
			t.Fatal(err)
		}
		if got := r.names(); !slices.Equal(got, []string{"a", "U", "b", "c"}) {
			t.Errorf("order %v", got)
		}
	})
}

// TestGroupsDoNotShareABatch uses items of equal length.
func TestGroupsDoNotShareABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(1)
		defer pool.Close()
		r := &recorder{}
		q := New(pool, Options{Graph: "test", MaxItems: 8, MaxCells: 1000, Wait: time.Millisecond},
			func(i item) Size { return Size{Cells: 20, Text: 18, Group: i.tokens} }, r.run)
		if err := q.Do(t.Context(), Caller{Lane: wire.LaneBulk}, []item{{8, "a", nil}, {4, "b", nil}, {8, "c", nil}, {4, "d", nil}}); err != nil {
			t.Fatal(err)
		}
		got := r.names()
		slices.Sort(got)
		if !slices.Equal(got, []string{"ac", "bd"}) {
			t.Errorf("batches %v", got)
		}
	})
}

// TestUnpaddedBatches: with a group for each size, only items of the same size share a batch.
func TestUnpaddedBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(1)
		defer pool.Close()
		r := &recorder{}
		q := New(pool, Options{Graph: "test", MaxItems: 8, MaxCells: 40, Wait: time.Millisecond},
			func(i item) Size { return Size{Cells: i.tokens, Text: i.tokens, Group: i.tokens} }, r.run)
		items := []item{{9, "a", nil}, {10, "b", nil}, {9, "c", nil}, {20, "d", nil}, {10, "e", nil}, {20, "f", nil}, {20, "g", nil}}
		if err := q.Do(t.Context(), Caller{Lane: wire.LaneBulk}, items); err != nil {
			t.Fatal(err)
		}
		got := r.names()
		slices.Sort(got)
		if !slices.Equal(got, []string{"ac", "be", "df", "g"}) {
			t.Errorf("batches %v", got)
		}
	})
}

// TestTheLongestItemOfARequestGoesFirst: if it went last, one worker would do it while the others
// have nothing to do.
func TestTheLongestItemOfARequestGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(1)
		defer pool.Close()
		r := &recorder{}
		q := queueOf(pool, r, func(o *Options) { o.MaxItems = 1 })
		items := []item{{9, "d", nil}, {30, "a", nil}, {9, "e", nil}, {10, "c", nil}, {20, "b", nil}}
		if err := q.Do(t.Context(), Caller{Lane: wire.LaneBulk}, items); err != nil {
			t.Fatal(err)
		}
		if got := r.names(); !slices.Equal(got, []string{"a", "b", "c", "d", "e"}) {
			t.Errorf("batches %v", got)
		}
	})
}

// TestABatchThatIsDueDoesNotWaitForAnotherGraphs: an interactive item whose batch is not due delays
// only bulk.
func TestABatchThatIsDueDoesNotWaitForAnotherGraphs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := NewPool(1)
		defer pool.Close()
		r := &recorder{}
		full := queueOf(pool, r, func(o *Options) { o.MaxItems = 1 })
		started := time.Now()
		waits := do(queueOf(pool, r, nil), t.Context(), wire.LaneInteractive, item{3, "a", nil})
		if err := <-do(full, t.Context(), wire.LaneInteractive, item{3, "b", nil}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(started); took != 0 {
			t.Errorf("the full batch waited %v", took)
		}
		if err := <-waits; err != nil {
			t.Fatal(err)
		}
		if took := time.Since(started); took != interactiveWait {
			t.Errorf("the other waited %v", took)
		}
	})
}
