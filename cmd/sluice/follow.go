package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// followedRun describes a server-side run, of which a collection has one at a time.
type followedRun[R any] struct {
	quiet   bool // do not print progress
	number  func(R) int
	running func(R) bool
	text    func(R) string
	poll    func(context.Context) (R, error)
	other   func(number int) string // describes another run that has begun
}

// follow polls the run r until it has ended.
func follow[R any](ctx context.Context, r R, f followedRun[R]) (R, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for number, printed := f.number(r), ""; ; {
		if f.number(r) != number {
			return r, fmt.Errorf("%s has begun: %w", f.other(f.number(r)), schema.ErrConflict)
		}
		if !f.running(r) {
			return r, nil
		}
		if text := f.text(r); text != printed && !f.quiet {
			printed = text
			fmt.Fprintln(os.Stderr, text)
		}
		select {
		case <-ctx.Done():
			return r, fmt.Errorf("stopped waiting; the server goes on: %w", context.Cause(ctx))
		case <-tick.C:
		}
		var err error
		if r, err = f.poll(ctx); err != nil {
			return r, err
		}
	}
}
