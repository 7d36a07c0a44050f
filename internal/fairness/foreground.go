package fairness

import (
	"context"
	"sync/atomic"
	"time"
)

// Recent is how long after an interactive request a slot is kept free for the next one.
const Recent = time.Second

// maxPause bounds a Pause. It is well below the heartbeat timeouts of the work that pauses.
const maxPause = time.Second

// Foreground knows whether somebody waits for an answer. Background work gives way while somebody
// does, and for a while after that, because another request may follow. It is safe for concurrent
// use.
type Foreground struct {
	window time.Duration
	last   atomic.Pointer[time.Time] // a time.Time with its monotonic reading, so that setting the wall clock has no effect
}

// NewForeground returns a Foreground in which somebody counts as waiting for the duration window
// after a request.
func NewForeground(window time.Duration) *Foreground { return &Foreground{window: window} }

// Record records a request.
func (f *Foreground) Record(now time.Time) { f.last.Store(&now) }

// Remaining returns how much longer somebody counts as waiting; 0 if nobody does.
func (f *Foreground) Remaining(now time.Time) time.Duration {
	last := f.last.Load()
	if last == nil {
		return 0
	}
	return max(0, f.window-now.Sub(*last))
}

// Limit returns the number of slots that background work may take: min(reducedLimit, limit) while
// somebody waits for an answer, otherwise limit.
func (f *Foreground) Limit(now time.Time, limit, reducedLimit int) int {
	if f.Remaining(now) > 0 {
		return min(reducedLimit, limit)
	}
	return limit
}

// Pause is called after background work that took the given time. While somebody waits for an
// answer, it sleeps for as long, but at most a second, or until ctx ends. So a worker leaves others
// half of the processor time that it would use.
func (f *Foreground) Pause(ctx context.Context, elapsed time.Duration) {
	if f.Remaining(time.Now()) == 0 {
		return
	}
	timer := time.NewTimer(min(elapsed, maxPause))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Background is a queue of background work with a bound on how much of it runs at once, which is
// lower while somebody waits for an answer. It is not safe for concurrent use.
type Background[T comparable] struct {
	*Queue[T]
	foreground          *Foreground
	limit, reducedLimit int
	running             int
}

// NewBackground returns a Background that runs at most limit items, or reducedLimit while somebody
// waits for an answer.
func NewBackground[T comparable](foreground *Foreground, limit, reducedLimit int) *Background[T] {
	return &Background[T]{Queue: NewQueue[T](0), foreground: foreground, limit: limit, reducedLimit: min(reducedLimit, limit)}
}

func (b *Background[T]) free(now time.Time) bool {
	return b.running < b.foreground.Limit(now, b.limit, b.reducedLimit)
}

// UntilFree returns how long it takes until more may run although no item ends, which is when
// nobody waits for an answer any more. It is at most a minute.
func (b *Background[T]) UntilFree(now time.Time) time.Duration {
	if remaining := b.foreground.Remaining(now); remaining > 0 && b.running >= b.reducedLimit && b.running < b.limit {
		return remaining
	}
	return time.Minute
}
