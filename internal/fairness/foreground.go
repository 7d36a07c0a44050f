package fairness

import (
	"context"
	"sync/atomic"
	"time"
)

// Recent is how long after an interactive request a slot is kept free for the next one.
const Recent = time.Second

// longestPause bounds a Pause. It is well below the heartbeat timeouts of the work that pauses.
const longestPause = time.Second

// Foreground knows whether somebody waits for an answer. Background work gives way while somebody
// does, and for a while after that, because another request may follow. It is safe for concurrent
// use.
type Foreground struct {
	lasts time.Duration
	last  atomic.Pointer[time.Time] // a time.Time with its monotonic reading, so that setting the wall clock has no effect
}

// NewForeground returns a Foreground in which somebody counts as waiting for the duration lasts
// after a request.
func NewForeground(lasts time.Duration) *Foreground { return &Foreground{lasts: lasts} }

// Seen records a request.
func (f *Foreground) Seen(now time.Time) { f.last.Store(&now) }

// Left returns how much longer somebody counts as waiting; 0 if nobody does.
func (f *Foreground) Left(now time.Time) time.Duration {
	last := f.last.Load()
	if last == nil {
		return 0
	}
	return max(0, f.lasts-now.Sub(*last))
}

// Limit returns the number of slots that background work may take: min(few, most) while somebody
// waits for an answer, otherwise most.
func (f *Foreground) Limit(now time.Time, most, few int) int {
	if f.Left(now) > 0 {
		return min(few, most)
	}
	return most
}

// Pause is called after background work that took the given time. While somebody waits for an
// answer, it sleeps for as long, but at most a second, or until ctx ends. So a worker leaves others
// half of the processor time that it would use.
func (f *Foreground) Pause(ctx context.Context, took time.Duration) {
	if f.Left(time.Now()) == 0 {
		return
	}
	timer := time.NewTimer(min(took, longestPause))
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
	foreground *Foreground
	most, few  int
	running    int
}

// NewBackground returns a Background that runs at most most items, or few while somebody waits for
// an answer.
func NewBackground[T comparable](foreground *Foreground, most, few int) *Background[T] {
	return &Background[T]{Queue: NewQueue[T](0), foreground: foreground, most: most, few: min(few, most)}
}

func (b *Background[T]) free(now time.Time) bool {
	return b.running < b.foreground.Limit(now, b.most, b.few)
}

// Until returns how long it takes until more may run although no item ends, which is when nobody
// waits for an answer any more. It is at most a minute.
func (b *Background[T]) Until(now time.Time) time.Duration {
	if left := b.foreground.Left(now); left > 0 && b.running >= b.few && b.running < b.most {
		return left
	}
	return time.Minute
}
