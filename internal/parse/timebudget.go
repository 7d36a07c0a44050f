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

// timeBudget is the time that a file may take: limit of processor time, and clockFactor times limit
// of elapsed time. It starts with start.
type timeBudget struct {
	limit      time.Duration
	onExceeded func(*Error) // called at most once per start

	mu        sync.Mutex
	timer     *time.Timer
	cpuStart  time.Duration // processor time at the start
	startTime time.Time
}

// start starts the allowance, or restarts it from zero.
func (a *timeBudget) start() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopTimer()
	a.cpuStart, a.startTime = processorTime(), time.Now()
	a.schedule(a.limit)
}

// stop stops the allowance until the next start.
func (a *timeBudget) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopTimer()
}

func (a *timeBudget) stopTimer() {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
}

// schedule calls check after d.
func (a *timeBudget) schedule(d time.Duration) {
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.timer == t {
			a.check()
		}
	})
	a.timer = t
}

func (a *timeBudget) check() {
	used, elapsed := processorTime()-a.cpuStart, time.Since(a.startTime)
	switch {
	case used >= a.limit:
		a.timer = nil
		a.onExceeded(timedOut(a.limit))
	case elapsed >= clockFactor*a.limit:
		a.timer = nil
		a.onExceeded(hung(a.limit))
	default:
		// Using up the rest of the processor time takes at least as long by the clock, since one
		// goroutine parses.
		a.schedule(max(min(a.limit-used, clockFactor*a.limit-elapsed), time.Millisecond))
	}
}

func timedOut(limit time.Duration) *Error {
	return fail(schema.ReasonTimeout, "Parsing took more than %v of processor time. Simplify or split the file, or raise the time limit.", limit)
}

func hung(limit time.Duration) *Error {
	return fail(schema.ReasonTimeout, "Parsing took longer than %v. Simplify or split the file, or raise the time limit.", clockFactor*limit)
}
