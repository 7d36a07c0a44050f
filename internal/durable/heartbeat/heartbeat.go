// Package heartbeat shows Temporal that an activity lives.
package heartbeat

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
)

// Every is how often an activity says that it lives, and hears that it was cancelled, unless it has
// a reason to do so more often.
const Every = 2 * time.Second

// Start records heartbeats with these details until stop is called, or ctx ends. stop waits for the
// one under way.
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

// Faults is how often this activity failed before for a reason that is not its surroundings':
// heartbeats, which have the count alone as their detail, carry it to the next try.
func Faults(ctx context.Context) (n int) {
	if activity.HasHeartbeatDetails(ctx) && activity.GetHeartbeatDetails(ctx, &n) != nil {
		return 0
	}
	return n
}
