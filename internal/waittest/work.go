package waittest

import (
	"syscall"
	"testing"
	"time"
)

// Work is the processor time that f takes, whatever else the machine does meanwhile. It counts the
// whole process: a test that uses it must not be parallel.
func Work(t testing.TB, f func()) time.Duration {
	t.Helper()
	before := used(t)
	f()
	return used(t) - before
}

func used(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatalf("reading the processor time: %v", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
