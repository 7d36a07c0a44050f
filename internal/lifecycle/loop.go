// This file has the service that owns a goroutine.

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// Loop is a Service that owns one goroutine. It can be embedded or returned by constructors.
type Loop struct{ *Func }

// LoopFunc is the body of a Loop.
//
// fetch ends when the loop should take no new work; use it for waiting, polling and pulling. work
// stays alive until the deadline of Stop is over; use it for finishing: commits, acknowledgements,
// replies. Returning nil after fetch has ended is a clean stop; so is returning an error that comes
// from the end of fetch. Returning earlier ends the service, with that error.
type LoopFunc func(fetch, work context.Context) error

// NewLoop returns a Loop. prepare, if not nil, runs inside Start: the loop counts as ready only
// when it succeeds, and its error is Start's.
func NewLoop(name string, prepare func(ctx context.Context) error, body LoopFunc) *Loop {
	return &Loop{NewFunc(name, func(ctx context.Context) (Run, error) {
		if prepare != nil {
			if err := prepare(ctx); err != nil {
				return Run{}, err
			}
		}
		return begin(ctx, body), nil
	})}
}

// begin runs body in its own goroutine.
func begin(ctx context.Context, body LoopFunc) Run {
	work, cancelWork := context.WithCancelCause(context.WithoutCancel(ctx))
	fetch, cancelFetch := context.WithCancel(work)
	done := make(chan struct{})
	var failure error
	go func() {
		defer close(done)
		defer cancelWork(nil)
		defer cancelFetch()
		err := protect(fetch, work, body)
		// An error that only comes from the end of fetch is a clean stop.
		if err != nil && (fetch.Err() == nil || !isCause(err, fetch)) {
			failure = err
		}
	}()
	return Run{
		Done: done,
		Err:  func() error { return failure },
		Stop: func(ctx context.Context) error {
			cancelFetch()
			select {
			case <-done:
				return nil
			default:
			}
			select {
			case <-done:
				return nil
			case <-ctx.Done():
				cut := fmt.Errorf("cut short: %w", context.Cause(ctx))
				cancelWork(cut)
				<-done
				return cut
			}
		},
	}
}

// protect turns a panic into an error, so that one loop's bug is reported with its stack and ends
// the program in the regular way, with everything else stopped cleanly.
func protect(fetch, work context.Context, body LoopFunc) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return body(fetch, work)
}

// isCause reports whether err only says that ctx ended.
func isCause(err error, ctx context.Context) bool {
	return errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))
}
