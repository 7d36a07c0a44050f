package ingestworker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestStagesRestWhileSomebodySearches as long as they worked, for a second at most, and not when they are cancelled.
func TestStagesRestWhileSomebodySearches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &searches{}
		rested := func(ctx context.Context, worked time.Duration) time.Duration {
			begin := time.Now()
			s.rest(ctx, worked)
			return time.Since(begin)
		}
		if took := rested(t.Context(), time.Minute); took != 0 {
			t.Errorf("it rested for %v although nobody searches", took)
		}
		for worked, want := range map[time.Duration]time.Duration{30 * time.Millisecond: 30 * time.Millisecond, time.Minute: longestRest} {
			s.last.Store(time.Now().UnixNano())
			if took := rested(t.Context(), worked); took != want {
				t.Errorf("after %v it rested for %v, want %v", worked, took, want)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if took := rested(ctx, time.Minute); took != 0 {
			t.Errorf("cancelled, it rested for %v", took)
		}
	})
}
