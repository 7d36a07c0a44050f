package waittest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// limited is a test of a binary with a deadline; what it fails with is kept.
type limited struct {
	*testing.T
	at     time.Time
	failed string
}

func (l *limited) Deadline() (time.Time, bool) { return l.at, !l.at.IsZero() }

func (l *limited) Fatalf(format string, args ...any) {
	l.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// run gives f a test whose binary has so long; zero is without end.
func run(t *testing.T, long time.Duration, f func(l *limited)) *limited {
	l := &limited{T: t}
	if long > 0 {
		l.at = time.Now().Add(long)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(l)
	}()
	<-done
	return l
}

func TestContextEndsBeforeTheTestBinary(t *testing.T) {
	for long, before := range map[time.Duration]time.Duration{10 * time.Minute: 20 * time.Second, 100 * time.Second: 10 * time.Second} {
		l := run(t, long, func(l *limited) {
			at, ok := Context(l).Deadline()
			if margin := l.at.Sub(at); !ok || margin < before-before/10 || margin > before {
				t.Errorf("of %v %v are left, %v", long, margin, ok)
			}
			if left := Left(l); left > long-before+before/10 || left < long/2 {
				t.Errorf("%v of %v are left", left, long)
			}
		})
		if l.failed != "" {
			t.Error(l.failed)
		}
	}
	run(t, 0, func(l *limited) {
		if at, ok := Context(l).Deadline(); ok {
			t.Errorf("without a deadline it ends at %v", at)
		}
	})
	ctx := run(t, time.Nanosecond, func(*limited) {})
	if over := Context(ctx); !errors.Is(context.Cause(over), errDeadline) {
		t.Errorf("it ended for %v", context.Cause(over))
	}
}

func TestWaitsSayWhatTheyWaitedFor(t *testing.T) {
	over := run(t, time.Nanosecond, func(l *limited) { Receive(l, make(chan int), "the second heron") })
	if !strings.Contains(over.failed, "the second heron") || !strings.Contains(over.failed, "-timeout") {
		t.Errorf("it fails with %q", over.failed)
	}
	over = run(t, time.Nanosecond, func(l *limited) { Until(l, func() string { return "3 of 4 herons" }) })
	if !strings.Contains(over.failed, "3 of 4 herons") {
		t.Errorf("it fails with %q", over.failed)
	}
}

func TestWaitsEndWhenTheThingHappens(t *testing.T) {
	for _, long := range []time.Duration{0, time.Hour} {
		given := run(t, long, func(l *limited) {
			ch := make(chan int)
			go func() { ch <- 7 }()
			if n := Receive(l, ch, "a number"); n != 7 {
				t.Errorf("received %d", n)
			}
			looks := 0
			Until(l, func() string {
				if looks++; looks < 3 {
					return "not yet"
				}
				return ""
			})
			if looks != 3 {
				t.Errorf("looked %d times", looks)
			}
		})
		if given.failed != "" {
			t.Error(given.failed)
		}
	}
}

func TestStartIsBoundedByTheLengthOfTheTests(t *testing.T) {
	ctx, cancel := Start(t.Context())
	defer cancel()
	_, limited := t.Deadline()
	if _, ok := ctx.Deadline(); ok != limited {
		t.Errorf("bounded: %v, the tests: %v", ok, limited)
	}
}

func TestWorkIsNotWaiting(t *testing.T) {
	work := Work(t, func() {
		for begin := used(t); used(t)-begin < 50*time.Millisecond; {
			_ = begin
		}
	})
	if work < 50*time.Millisecond {
		t.Errorf("50 ms of work are counted as %v", work)
	}
	waited := make(chan struct{})
	time.AfterFunc(200*time.Millisecond, func() { close(waited) }) //house:clock what is waited for
	if work := Work(t, func() { <-waited }); work > 150*time.Millisecond {
		t.Errorf("waiting for 200 ms is counted as %v of work", work)
	}
}
