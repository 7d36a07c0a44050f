// Package heartbeat sends Temporal the heartbeats of activities.
package heartbeat

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
)

// Every is how often an activity sends a heartbeat, and learns that it was cancelled, unless it has
// a reason to do so more often.
const Every = 2 * time.Second

// Start sends heartbeats with these details until stop is called or ctx ends. stop waits for a
// heartbeat under way.
func Start(ctx context.Context, every time.Duration, details ...any) (stop func()) {
	done := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				activity.RecordHeartbeat(ctx, details...)
			}
		}
	})
	return func() {
		close(done)
		beating.Wait()
	}
}

// Faults returns how often earlier tries of this activity failed other than through their
// environment. Heartbeats, with the count as their only detail, carry it to the next try.
func Faults(ctx context.Context) (n int) {
	if activity.HasHeartbeatDetails(ctx) && activity.GetHeartbeatDetails(ctx, &n) != nil {
		return 0
	}
	return n
}
