package parse

import (
	"sync"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// clockFactor is how many times its processor time a file may take by the clock.
// Parsers have a low priority: on a busy machine a file waits for most of its
// time, and that is not the file's doing. One that sleeps must end as well.
const clockFactor = 10

// allowance is the time a file may take: limit of the processor, clockFactor
// times that by the clock. It begins with start.
type allowance struct {
	limit time.Duration
	over  func(*Error) // is called once for each start at most

	mu    sync.Mutex
	timer *time.Timer
	spent time.Duration // of the processor, when it began
	since time.Time
}

// start begins the time anew.
func (a *allowance) start() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.halt()
	a.spent, a.since = processorTime(), time.Now()
	a.wait(a.limit)
}

// stop lets no time pass until the next start.
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

// wait looks again after d.
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
		// The rest of the processor time needs at least as long by the clock, as one goroutine
		// parses.
		a.wait(max(min(a.limit-used, clockFactor*a.limit-passed), time.Millisecond))
	}
}

func timedOut(limit time.Duration) *Error {
	return fail(schema.ReasonTimeout, "Parsing took more than %v of processor time. Simplify or split the file, or raise the time limit.", limit)
}

func hung(limit time.Duration) *Error {
	return fail(schema.ReasonTimeout, "Parsing took longer than %v. Simplify or split the file, or raise the time limit.", clockFactor*limit)
}
