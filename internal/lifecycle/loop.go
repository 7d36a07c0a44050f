// This file is the owner of a goroutine.

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
)

// Loop is a Service that owns one goroutine. It is made to be embedded or returned by constructors.
type Loop struct{ *Func }

// LoopFunc is the body of a Loop.
//
// fetch ends when the loop should take no new work; it is what to wait on, poll with and pull with.
// work stays alive until the deadline of Stop is over; it is what to finish with: commits,
// acknowledgements, replies. Returning nil after fetch has ended is a clean stop; so is returning
// an error that comes from the end of fetch. Returning earlier ends the service, with that error.
type LoopFunc func(fetch, work context.Context) error

// NewLoop makes a Loop. prepare, if not nil, runs inside Start: what it needs must be there before
// the loop counts as ready, and its failure is Start's.
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

// begin runs body in a goroutine of its own.
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
		// Asked to stop, and nothing but that went wrong.
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
// the program through the front door, with everything else stopped cleanly.
func protect(fetch, work context.Context, body LoopFunc) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return body(fetch, work)
}

// isCause reports whether err is nothing but the end of ctx.
func isCause(err error, ctx context.Context) bool {
	return errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))
}
