package bus

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestAStreamIsAskedForAgain: a server that lost a request answers the next one.
func TestAStreamIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		asked := 0
		lost := func(ctx context.Context) error {
			asked++
			if asked < 3 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		if err := retryUnanswered(ctx, lost); err != nil || asked != 3 {
			t.Errorf("asked %d times: %v", asked, err)
		}
		refused := errors.New("no such server")
		asked = 0
		if err := retryUnanswered(ctx, func(context.Context) error { asked++; return refused }); !errors.Is(err, refused) || asked != 1 {
			t.Errorf("what is refused was asked %d times: %v", asked, err)
		}
		begin := time.Now()
		if err := retryUnanswered(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without any answer: %v", err)
		}
		if over := time.Since(begin); over > time.Minute {
			t.Errorf("it went on for %s", over)
		}
	})
}
