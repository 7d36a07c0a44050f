// This file implements the contract once for all services: the order of Start and Stop calls, the
// state between them, and what Done and Err return.

package lifecycle

import (
	"context"
	"fmt"
	"sync"
)

// Run is one run of a service, from its start to its end.
type Run struct {
	// Done is closed when the run is over, for whatever reason.
	Done <-chan struct{}
	// Err returns why it is over; it is called only after Done is closed. A nil Err means that
	// there is never an error.
	Err func() error
	// Stop ends the run as Service.Stop says. It is called at most once, and Done is closed when it
	// returns. Its error is kept as the run's, unless Err returns one.
	Stop func(ctx context.Context) error
}

// Func is a Service made of a function that starts a run. The zero value is not usable; see
// NewFunc.
type Func struct {
	name  string
	start func(ctx context.Context) (Run, error)

	// sem serialises Start and Stop; mu guards the fields below it, for the short time of reading
	// them.
	sem chan struct{}

	mu   sync.Mutex
	run  *Run
	err  error
	done <-chan struct{}
}

// NewFunc returns a Service made of a function that returns when a run is ready. The name appears
// in errors. When start fails it must have undone what it did.
func NewFunc(name string, start func(ctx context.Context) (Run, error)) *Func {
	closed := make(chan struct{})
	close(closed)
	return &Func{name: name, start: start, sem: make(chan struct{}, 1), done: closed}
}

// NewResource returns a Service for something that is opened and closed but runs nothing, such as a
// connection pool. Either function may be nil.
func NewResource(name string, open, shut func(ctx context.Context) error) *Func {
	return NewFunc(name, func(ctx context.Context) (Run, error) {
		if open != nil {
			if err := open(ctx); err != nil {
				return Run{}, err
			}
		}
		done := make(chan struct{})
		return Run{Done: done, Stop: func(ctx context.Context) error {
			defer close(done)
			if shut == nil {
				return nil
			}
			return shut(ctx)
		}}, nil
	})
}

// String returns the name.
func (f *Func) String() string { return f.name }

// Start implements Service.
func (f *Func) Start(ctx context.Context) error {
	select {
	case f.sem <- struct{}{}:
		defer func() { <-f.sem }()
	case <-ctx.Done():
		return fmt.Errorf("starting %s: %w", f.name, context.Cause(ctx))
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("starting %s: %w", f.name, context.Cause(ctx))
	}
	if f.current() != nil {
		return fmt.Errorf("starting %s: %w", f.name, ErrStarted)
	}
	run, err := f.start(ctx)
	if err != nil {
		f.mu.Lock()
		f.err = err
		f.mu.Unlock()
		return fmt.Errorf("starting %s: %w", f.name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run, f.err, f.done = &run, nil, run.Done
	return nil
}

// Stop implements Service.
func (f *Func) Stop(ctx context.Context) error {
	// This wait is not bounded by ctx: the call that holds the turn is bounded itself, and Stop
	// must not return before the service has ended.
	f.sem <- struct{}{}
	defer func() { <-f.sem }()

	run := f.current()
	if run == nil {
		return nil
	}
	err := run.Stop(ctx)
	<-run.Done

	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err = runErr(run); f.err == nil {
		f.err = err
	}
	f.run = nil
	if err != nil {
		return fmt.Errorf("stopping %s: %w", f.name, err)
	}
	return nil
}

// current returns the run in progress, or nil. It first records the end of a run that ended by
// itself.
func (f *Func) current() *Run {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.run == nil {
		return nil
	}
	select {
	case <-f.run.Done:
		f.err = runErr(f.run)
		f.run = nil
	default:
	}
	return f.run
}

// Done implements Service.
func (f *Func) Done() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.done
}

// Err implements Service.
func (f *Func) Err() error {
	f.current()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func runErr(run *Run) error {
	if run.Err == nil {
		return nil
	}
	return run.Err()
}
