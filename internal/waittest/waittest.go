// Package waittest is how tests wait: until what they wait for happens, or until the deadline of
// the test binary is near (go test's -timeout). No test has a patience of its own: how fast the
// machine is says nothing about the code.
//
// A limit that is itself under test, such as the timeout of a request, is no patience. The test of
// this rule (internal/house) takes it where a comment says what it is:
//
//	//house:clock the parser is cut off after this time
//	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
package waittest

import (
	"context"
	"errors"
	"flag"
	"testing"
	"time"
)

// errDeadline is the cause of a context that ended before the test did.
var errDeadline = errors.New("the deadline of the test binary (go test -timeout) is near")

// Context returns a context that ends when the deadline of the test binary is near, and never where
// it has none. It outlives t.Context, so that cleaning up may wait with it.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithoutCancel(t.Context()), context.CancelFunc(func() {})
	if end, ok := deadline(t); ok {
		ctx, cancel = context.WithDeadlineCause(ctx, end, errDeadline) //house:clock the test binary's
	}
	t.Cleanup(cancel)
	return ctx
}

// Left is how long Context lasts, for what takes a duration. Where the test binary has no deadline
// it is a day.
func Left(t testing.TB) time.Duration {
	t.Helper()
	if end, ok := deadline(t); ok {
		return time.Until(end)
	}
	return 24 * time.Hour
}

// Receive returns what ch gives, or the zero value when it is closed. If nothing comes it fails the
// test, which then says what it waited for.
func Receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	over, stop := end(t)
	defer stop()
	select {
	case v := <-ch:
		return v
	case <-over:
		t.Fatalf("still waiting for %s: %v", what, errDeadline)
		panic("unreachable")
	}
}

// Until calls wrong again and again, ever more slowly, until it returns an empty string. If it
// never does, the test fails with what it returned last.
func Until(t testing.TB, wrong func() string) {
	t.Helper()
	over, stop := end(t)
	defer stop()
	pause := 20 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		said := wrong()
		if said == "" {
			return
		}
		// What takes long is asked for less often, so that asking doesn't slow it.
		pause = min(pause+pause/20, 250*time.Millisecond)
		tick.Reset(pause)
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("still so: %s: %v", said, errDeadline)
		}
	}
}

// Start returns a context for what TestMain does before it runs the tests: their deadline has not
// begun, yet its length bounds the start too.
func Start(ctx context.Context) (context.Context, context.CancelFunc) {
	if !flag.Parsed() {
		flag.Parse()
	}
	if f, ok := flag.Lookup("test.timeout").Value.(flag.Getter); ok {
		if limit, ok := f.Get().(time.Duration); ok && limit > 0 {
			return context.WithTimeoutCause(ctx, limit, errDeadline) //house:clock the test binary's
		}
	}
	return context.WithCancel(ctx)
}

// end is closed when Context ends, and never where the test binary has no deadline.
func end(t testing.TB) (over <-chan struct{}, stop func()) {
	at, ok := deadline(t)
	if !ok {
		return nil, func() {}
	}
	ctx, cancel := context.WithDeadline(context.Background(), at) //house:clock the test binary's
	return ctx.Done(), cancel
}

// deadline is when waiting ends: as long before the test binary's deadline as it takes to say what
// was waited for and to stop servers.
func deadline(t testing.TB) (time.Time, bool) {
	limited, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return time.Time{}, false
	}
	at, ok := limited.Deadline()
	if !ok {
		return time.Time{}, false
	}
	return at.Add(-min(20*time.Second, time.Until(at)/10)), true
}
