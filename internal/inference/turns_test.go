package inference

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-rag/sluice/schema/wire"
)

// TestBulkLeavesATurn: while somebody asks, large bulk requests are not decoded in all turns at once.
func TestBulkLeavesATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(2)
		take := func(lane wire.Lane) (got chan struct{}) {
			got = make(chan struct{})
			go func() {
				if turns.take(t.Context(), lane) == nil {
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
		first, second := take(wire.LaneBulk), take(wire.LaneBulk)
		if !has(first) || !has(second) {
			t.Fatal("bulk alone doesn't get all turns")
		}
		asked, third := take(wire.LaneInteractive), take(wire.LaneBulk)
		turns.give(wire.LaneBulk)
		if !has(asked) || has(third) {
			t.Fatal("the next turn is not the interactive request's")
		}
		turns.give(wire.LaneInteractive)
		if has(third) {
			t.Fatal("bulk leaves no turn")
		}
		turns.give(wire.LaneBulk)
		if !has(third) {
			t.Fatal("bulk has no turn of its own")
		}
		fourth := take(wire.LaneBulk)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := turns.take(ctx, wire.LaneBulk); err == nil || has(fourth) {
			t.Fatal("bulk leaves no turn")
		}
		time.Sleep(urgentFor) // of the bubble's clock
		turns.give(wire.LaneBulk)
		if last := take(wire.LaneBulk); !has(fourth) || !has(last) {
			t.Error("bulk leaves a turn to nobody")
		}
	})
}
