package lifecycle

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// WithParent returns a context that ends when standard input does, which the parent process holds
// open as long as it lives. Nobody needs the process's work after that, and its servers may be gone
// with the parent, so the process exits a quarter of grace later, whatever still runs.
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
