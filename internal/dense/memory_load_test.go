package dense

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/singleflight"
)

// TestConcurrentLoadsSurviveACancelledLeader: the caller that loads may have an earlier deadline
// than the callers that wait for it.
func TestConcurrentLoadsSurviveACancelledLeader(t *testing.T) {
	for _, over := range []error{context.DeadlineExceeded, context.Canceled} {
		synctest.Test(t, func(t *testing.T) {
			var group singleflight.Group
			leader, end := context.WithTimeoutCause(t.Context(), time.Second, nil)
			defer end()
			go func() {
				_, _ = loadOnce(leader, &group, "segments", func() (int, error) {
					<-leader.Done()
					return 0, over
				})
			}()
			synctest.Wait()
			loads := 0
			got, err := loadOnce(t.Context(), &group, "segments", func() (int, error) {
				loads++
				return 7, nil
			})
			if got != 7 || err != nil || loads != 1 {
				t.Errorf("after %v: %d, %v, %d loads of its own", over, got, err, loads)
			}
		})
	}
	broken := errors.New("broken")
	if got, err := loadOnce(t.Context(), new(singleflight.Group), "segments", func() (int, error) { return 0, broken }); got != 0 || !errors.Is(err, broken) {
		t.Errorf("%d, %v", got, err)
	}
}
