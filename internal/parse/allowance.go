package parse

import (
	"sync"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// clockFactor is the ratio of a file's limit of elapsed time to its limit of processor time.
// Parsers have a low priority: on a busy machine a parser waits most of the time, which is not the
// file's fault. A parser that sleeps must be ended, too.
const clockFactor = 10

// allowance is the time that a file may take: limit of processor time, and clockFactor times limit
// of elapsed time. It starts with start.
type allowance struct {
	limit time.Duration
	over  func(*Error) // called at most once per start

	mu    sync.Mutex
	timer *time.Timer
	spent time.Duration // processor time at the start
	since time.Time
}

// start starts the allowance, or restarts it from zero.
func (a *allowance) start() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.halt()
	a.spent, a.since = processorTime(), time.Now()
	a.wait(a.limit)
}

// stop stops the allowance until the next start.
func (a *allowance) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.halt()
}

func (a *allowance) halt() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// wait calls look after d.
func (a *allowance) wait(d time.Duration) {
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.timer == t {
			a.look()
		}
	})
	a.timer = t
}

func (a *allowance) look() {
	used, passed := processorTime()-a.spent, time.Since(a.since)
	switch {
	case used >= a.limit:
		a.timer = nil
		a.over(timedOut(a.limit))
	case passed >= clockFactor*a.limit:
		a.timer = nil
		a.over(hung(a.limit))
	default:
		// Using up the rest of the processor time takes at least as long by the clock, since one
		// goroutine parses.
		a.wait(max(min(a.limit-used, clockFactor*a.limit-passed), time.Millisecond))
	}
}

func timedOut(limit time.Duration) *Error {
	return fail(schema.ReasonTimeout, "Parsing took more than %v of processor time. Simplify or split the file, or raise the time limit.", limit)
}

func hung(limit time.Duration) *Error {
	return fail(schema.ReasonTimeout, "Parsing took longer than %v. Simplify or split the file, or raise the time limit.", clockFactor*limit)
}
