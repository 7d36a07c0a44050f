// Package lifecycletest is the conformance test of the contract in package lifecycle, run against
// every service.
package lifecycletest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// Stress checks that the services made by factory keep the contract of lifecycle.Service. Each call
// of factory must return a new service that isn't started; what it needs must outlive the test. The
// calling test must not be parallel, or other tests' goroutines look like this service's.
func Stress(t *testing.T, factory func(t *testing.T) lifecycle.Service) {
	t.Helper()
	check := func(name string, f func(t *testing.T, s lifecycle.Service)) {
		t.Run(name, func(t *testing.T) {
			// Goroutines that already run, such as those of a client that factory shares, are not
			// this service's.
			before := goleak.IgnoreCurrent()
			f(t, factory(t))
			waittest.Until(t, func() string {
				if err := goleak.Find(before, idleConnection); err != nil {
					return err.Error()
				}
				return ""
			})
		})
	}

	check("stop before start", func(t *testing.T, s lifecycle.Service) {
		stop(t, s)
		stop(t, s)
		start(t, s)
		stop(t, s)
	})
	check("stop twice", func(t *testing.T, s lifecycle.Service) {
		start(t, s)
		stop(t, s)
		stop(t, s)
	})
	check("start twice", func(t *testing.T, s lifecycle.Service) {
		start(t, s)
		defer stop(t, s)
		if err := s.Start(waittest.Context(t)); !errors.Is(err, lifecycle.ErrStarted) {
			t.Errorf("second Start: got %v, want ErrStarted", err)
		}
		running(t, s)
	})
	check("start again after stop", func(t *testing.T, s lifecycle.Service) {
		for range 3 {
			start(t, s)
			stop(t, s)
		}
	})
	check("start abandoned", func(t *testing.T, s lifecycle.Service) {
		ctx, cancel := context.WithCancel(waittest.Context(t))
		cancel()
		if err := s.Start(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Start with a context that is over: got %v, want context.Canceled", err)
		}
		expectDone(t, s)
		start(t, s)
		stop(t, s)
	})
	check("outlives the context of its start", func(t *testing.T, s lifecycle.Service) {
		ctx, cancel := context.WithCancel(waittest.Context(t))
		if err := s.Start(ctx); err != nil {
			t.Fatalf("Start: %v", err)
		}
		cancel()
		running(t, s)
		stop(t, s)
	})
	check("stop in a hurry", func(t *testing.T, s lifecycle.Service) {
		start(t, s)
		ctx, cancel := context.WithCancel(waittest.Context(t))
		cancel()
		// Work in progress may or may not be cancelled; the service must be over either way.
		if err := s.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Stop with a context that is over: got %v, want nil or context.Canceled", err)
		}
		expectDone(t, s)
	})
	check("concurrently", func(t *testing.T, s lifecycle.Service) {
		ctx := waittest.Context(t)
		var callers sync.WaitGroup
		for range 4 {
			callers.Go(func() {
				for range 3 {
					if err := s.Start(ctx); err != nil && !errors.Is(err, lifecycle.ErrStarted) {
						t.Errorf("Start: %v", err)
					}
				}
			})
			callers.Go(func() {
				for range 3 {
					if err := s.Stop(ctx); err != nil {
						t.Errorf("Stop: %v", err)
					}
					_ = s.Err()
					_ = s.Done()
				}
			})
		}
		callers.Wait()
		stop(t, s)
	})
}

// idleConnection ignores a goroutine that may remain with an idle connection of a pool that factory
// shares: if writing a statement took over 15 ms, pgx reads in the background until the server's
// next message. A pool of the service's own that isn't closed is still found, by its health check.
var idleConnection = goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgconn/internal/bgreader.(*BGReader).bgRead")

func start(t *testing.T, s lifecycle.Service) {
	t.Helper()
	if err := s.Start(waittest.Context(t)); err != nil {
		t.Fatalf("Start: %v", err)
	}
	running(t, s)
}

func stop(t *testing.T, s lifecycle.Service) {
	t.Helper()
	if err := s.Stop(waittest.Context(t)); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	expectDone(t, s)
	if err := s.Err(); err != nil {
		t.Errorf("Err after a clean Stop: got %v, want nil", err)
	}
}

func running(t *testing.T, s lifecycle.Service) {
	t.Helper()
	select {
	case <-s.Done():
		t.Errorf("Done is closed while the service should run; Err: %v", s.Err())
	default:
	}
	if err := s.Err(); err != nil {
		t.Errorf("Err while the service runs: got %v, want nil", err)
	}
}

func expectDone(t *testing.T, s lifecycle.Service) {
	t.Helper()
	select {
	case <-s.Done():
	default:
		t.Error("Done is open though the service should be over")
	}
}
