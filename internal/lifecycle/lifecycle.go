// Package lifecycle is the one contract for everything in Sluice that runs: how it starts, how it
// stops, and how others learn that it ended by itself. It has ready-made implementations of the
// contract (Func, Loop, Group) and runs whole programs (Main); package lifecycletest has the
// conformance test.
package lifecycle

import (
	"context"
	"errors"
)

// ErrStarted is returned by Start when the service is running already.
var ErrStarted = errors.New("already started")

// ErrEnded is what Group reports when a member ended without an error and without being stopped.
var ErrEnded = errors.New("ended by itself")

// Service is something that runs.
//
// All methods may be called from any goroutine at any time. A service may be started again after it
// was stopped.
type Service interface {
	// Start returns nil when the service is ready. ctx bounds only the start, not the life
	// afterwards; its values are inherited. When Start fails nothing is left running. A running
	// service returns ErrStarted.
	Start(ctx context.Context) error

	// Stop stops taking new work at once, then waits for the work in progress. When ctx ends first,
	// that work is cancelled, Stop still waits for it to unwind, and the error wraps ctx.Err(). It
	// returns nil when nothing runs: before Start or after another Stop.
	Stop(ctx context.Context) error

	// Done is closed whenever the service isn't running. The channel belongs to one run: ask for it
	// after Start.
	Done() <-chan struct{}

	// Err returns why the last run ended: nil while it runs and after a clean Stop.
	Err() error
}
