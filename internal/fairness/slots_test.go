package fairness

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestBackgroundLeavesASlot: while there are interactive requests, background work does not get all
// slots.
func TestBackgroundLeavesASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := NewSlots(2)
		take := func(background bool) (got chan struct{}) {
			got = make(chan struct{})
			go func() {
				if slots.Acquire(t.Context(), background) == nil {
					close(got)
				}
			}()
			synctest.Wait()
			return got
		}
		has := func(got chan struct{}) bool {
			synctest.Wait()
			select {
			case <-got:
				return true
			default:
				return false
			}
		}
		first, second := take(true), take(true)
		if !has(first) || !has(second) {
			t.Fatal("background alone doesn't get all slots")
		}
		asked, third := take(false), take(true)
		slots.Release(true)
		if !has(asked) || has(third) {
			t.Fatal("the next slot is not that of the foreground")
		}
		slots.Release(false)
		if has(third) {
			t.Fatal("background leaves no slot")
		}
		slots.Release(true)
		if !has(third) {
			t.Fatal("background has no slot of its own")
		}
		fourth := take(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := slots.Acquire(ctx, true); err == nil || has(fourth) {
			t.Fatal("background leaves no slot")
		}
		time.Sleep(Recent) // of the bubble's clock
		slots.Release(true)
		if last := take(true); !has(fourth) || !has(last) {
			t.Error("background leaves a slot to nobody")
		}
	})
}
