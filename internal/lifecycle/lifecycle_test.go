package lifecycle_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/lifecycle/lifecycletest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// untilFetchEnds is a loop body that does nothing until fetch ends.
func untilFetchEnds(fetch, _ context.Context) error {
	<-fetch.Done()
	return fetch.Err()
}

func TestLoopKeepsTheContract(t *testing.T) {
	lifecycletest.Stress(t, func(*testing.T) lifecycle.Service {
		return lifecycle.NewLoop("idle", nil, untilFetchEnds)
	})
}

func TestResourceKeepsTheContract(t *testing.T) {
	lifecycletest.Stress(t, func(t *testing.T) lifecycle.Service {
		var mu sync.Mutex
		opened := 0
		return lifecycle.NewResource("pool",
			func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				if opened++; opened != 1 {
					t.Errorf("open %d times at once", opened)
				}
				return nil
			},
			func(context.Context) error {
				mu.Lock()
				defer mu.Unlock()
				opened--
				return nil
			})
	})
}

func TestGroupKeepsTheContract(t *testing.T) {
	lifecycletest.Stress(t, func(*testing.T) lifecycle.Service {
		return lifecycle.NewGroup("outer", time.Second,
			lifecycle.NewResource("pool", nil, nil),
			lifecycle.NewGroup("inner", time.Second, lifecycle.NewLoop("idle", nil, untilFetchEnds)),
			lifecycle.NewLoop("busy", nil, func(fetch, work context.Context) error {
				<-fetch.Done()
				return work.Err()
			}))
	})
}

func TestStopStopsFetchingAndWaitsForWork(t *testing.T) {
	fetchEnded, finish := make(chan struct{}), make(chan struct{})
	finished := false
	loop := lifecycle.NewLoop("worker", nil, func(fetch, work context.Context) error {
		<-fetch.Done()
		close(fetchEnded)
		select {
		case <-finish:
			finished = true
			return nil
		case <-work.Done():
			return work.Err()
		}
	})
	if err := loop.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan error)
	go func() { stopped <- loop.Stop(t.Context()) }()
	<-fetchEnded
	select {
	case err := <-stopped:
		t.Fatalf("Stop returned %v with work in hand", err)
	default:
	}
	close(finish)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if !finished {
		t.Error("the work in hand was not finished")
	}
}

func TestStopCancelsWorkWhenItsTimeIsOver(t *testing.T) {
	loop := lifecycle.NewLoop("stubborn", nil, func(_, work context.Context) error {
		<-work.Done()
		return context.Cause(work)
	})
	if err := loop.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	//house:clock the time after which work is cancelled
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	err := loop.Stop(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "stubborn") {
		t.Errorf("Stop: got %v, want a deadline that names the loop", err)
	}
	<-loop.Done()
}

func TestLoopThatFailsSaysWhy(t *testing.T) {
	broken := errors.New("broken")
	for name, body := range map[string]lifecycle.LoopFunc{
		"error": func(_, _ context.Context) error { return broken },
		"panic": func(_, _ context.Context) error { panic(broken.Error()) },
	} {
		t.Run(name, func(t *testing.T) {
			loop := lifecycle.NewLoop("failing", nil, body)
			if err := loop.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-loop.Done()
			if err := loop.Err(); err == nil || !strings.Contains(err.Error(), "broken") {
				t.Errorf("Err: got %v, want broken", err)
			}
			if err := loop.Stop(t.Context()); err != nil {
				t.Errorf("Stop after the end: %v", err)
			}
			if loop.Err() == nil {
				t.Error("Stop made the failure disappear")
			}
		})
	}
}

func TestLoopIsNotReadyBeforeItsPreparation(t *testing.T) {
	missing := errors.New("missing stream")
	loop := lifecycle.NewLoop("consumer", func(context.Context) error { return missing }, untilFetchEnds)
	if err := loop.Start(t.Context()); !errors.Is(err, missing) {
		t.Errorf("Start: got %v, want %v", err, missing)
	}
	<-loop.Done()
}

// recorder records the order in which its services start and stop.
type recorder struct {
	mu  sync.Mutex
	log []string
}

func (r *recorder) add(s string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, s)
	return nil
}

func (r *recorder) service(name string) lifecycle.Service {
	return lifecycle.NewResource(name,
		func(context.Context) error { return r.add("+" + name) },
		func(context.Context) error { return r.add("-" + name) })
}

func TestGroupStartsInOrderAndStopsInReverse(t *testing.T) {
	var r recorder
	group := lifecycle.NewGroup("all", time.Second, r.service("a"), r.service("b"), r.service("c"))
	if err := group.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := group.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := strings.Fields("+a +b +c -c -b -a"); !slices.Equal(r.log, want) {
		t.Errorf("order: got %v, want %v", r.log, want)
	}
}

func TestGroupThatCannotStartLeavesNothingRunning(t *testing.T) {
	var r recorder
	broken := errors.New("broken")
	bad := lifecycle.NewResource("bad", func(context.Context) error { return broken }, nil)
	group := lifecycle.NewGroup("all", time.Second, r.service("a"), r.service("b"), bad, r.service("c"))
	if err := group.Start(t.Context()); !errors.Is(err, broken) {
		t.Fatalf("Start: got %v, want %v", err, broken)
	}
	if want := strings.Fields("+a +b -b -a"); !slices.Equal(r.log, want) {
		t.Errorf("order: got %v, want %v", r.log, want)
	}
}

func TestGroupEndsWithTheFirstMemberThatEnds(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct{ gives, want error }{
		"failure": {broken, broken},
		"silence": {nil, lifecycle.ErrEnded},
	} {
		t.Run(name, func(t *testing.T) {
			var r recorder
			trip := make(chan struct{})
			fuse := lifecycle.NewLoop("fuse", nil, func(_, _ context.Context) error {
				<-trip
				return tc.gives
			})
			group := lifecycle.NewGroup("all", time.Second, r.service("a"), fuse, r.service("b"))
			if err := group.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			close(trip)
			<-group.Done()
			if err := group.Err(); !errors.Is(err, tc.want) || !strings.Contains(err.Error(), "fuse") {
				t.Errorf("Err: got %v, want %v of fuse", err, tc.want)
			}
			if want := strings.Fields("+a +b -b -a"); !slices.Equal(r.log, want) {
				t.Errorf("order: got %v, want %v", r.log, want)
			}
		})
	}
}

// signalSelf sends this process a real signal.
func signalSelf(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		t.Error(err)
	}
}

func TestMainStopsCleanlyAtASignal(t *testing.T) {
	loop := lifecycle.NewLoop("worker", nil, untilFetchEnds)
	err := lifecycle.Main(t.Context(), slog.New(slog.DiscardHandler), time.Minute, loop, func() { signalSelf(t, syscall.SIGTERM) })
	if err != nil {
		t.Errorf("Main: %v", err)
	}
}

func TestMainCancelsWorkAtASecondSignal(t *testing.T) {
	loop := lifecycle.NewLoop("stubborn", nil, func(fetch, work context.Context) error {
		<-fetch.Done()
		signalSelf(t, syscall.SIGINT)
		<-work.Done()
		return work.Err()
	})
	err := lifecycle.Main(t.Context(), slog.New(slog.DiscardHandler), time.Minute, loop, func() { signalSelf(t, syscall.SIGINT) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Main: got %v, want the work's cancellation", err)
	}
}

func TestMainAbandonsTheStartAtASignal(t *testing.T) {
	stuck := lifecycle.NewResource("stuck", func(ctx context.Context) error {
		signalSelf(t, syscall.SIGINT)
		<-ctx.Done()
		return ctx.Err()
	}, nil)
	err := lifecycle.Main(t.Context(), slog.New(slog.DiscardHandler), time.Minute, stuck, func() { t.Error("ready") })
	if err != nil {
		t.Errorf("Main: %v", err)
	}
}

func TestMainEndsWithTheService(t *testing.T) {
	broken := errors.New("broken")
	loop := lifecycle.NewLoop("failing", nil, func(_, _ context.Context) error { return broken })
	err := lifecycle.Main(t.Context(), slog.New(slog.DiscardHandler), time.Minute, loop, nil)
	if !errors.Is(err, broken) {
		t.Errorf("Main: got %v, want %v", err, broken)
	}
}

func TestMainStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := lifecycle.Main(ctx, slog.New(slog.DiscardHandler), time.Minute, lifecycle.NewLoop("idle", nil, untilFetchEnds), cancel)
	if err != nil {
		t.Errorf("Main: %v", err)
	}
}

func TestShareIsAPartOfTheTime(t *testing.T) {
	//house:clock what is shared
	hour, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	for part, want := range map[float64]time.Duration{0.25: 15 * time.Minute, 0: time.Hour, 1: time.Hour} {
		ctx, cancel := lifecycle.Share(hour, part)
		defer cancel()
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > want || time.Until(deadline) < want-time.Minute {
			t.Errorf("%v of an hour ends in %v", part, time.Until(deadline))
		}
	}
	endless, cancel := lifecycle.Share(t.Context(), 0.5)
	defer cancel()
	if _, ok := endless.Deadline(); ok {
		t.Error("a part of what has no end has one")
	}
}
