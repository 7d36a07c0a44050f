package lifecycle

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// WithParent returns a context that ends when standard input does, which a parent holds open for as
// long as it lives. What the process works on is for nobody then, and its servers may be gone with
// the parent: it ends a quarter of grace later, whatever still runs.
func WithParent(ctx context.Context, grace time.Duration) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // until the process ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel(errors.New("the parent process is gone"))
		time.Sleep(grace / 4)
		os.Exit(1)
	}()
	return ctx
}
