package fairness

import (
	"context"
	"sync/atomic"
	"time"
)

// Recent is how long after a request that somebody waits for a part keeps a slot free for the next
// one.
const Recent = time.Second

// longestPause bounds a Pause. It is well within the heartbeats of what pauses.
const longestPause = time.Second

// Foreground knows whether somebody waits for an answer. Work in the background gives way while
// somebody does, and for a while after, in which the next request may come. It is safe for
// concurrent use.
type Foreground struct {
	lasts time.Duration
	last  atomic.Pointer[time.Time] // whole, so that a wall clock that is set changes nothing
}

// NewForeground makes one in which a request counts for so long.
func NewForeground(lasts time.Duration) *Foreground { return &Foreground{lasts: lasts} }

// Seen takes note of a request.
func (f *Foreground) Seen(now time.Time) { f.last.Store(&now) }

// Left is for how much longer somebody counts as waiting; 0 when nobody does.
func (f *Foreground) Left(now time.Time) time.Duration {
	last := f.last.Load()
	if last == nil {
		return 0
	}
	return max(0, f.lasts-now.Sub(*last))
}

// Limit is how many slots work in the background may hold: most, or few while somebody waits for an
// answer.
func (f *Foreground) Limit(now time.Time, most, few int) int {
	if f.Left(now) > 0 {
		return min(few, most)
	}
	return most
}

// Pause follows work in the background that took so long. While somebody waits for an answer it
// waits as long, a second at most, or until ctx ends: of the processors that one worker keeps busy,
// others have half.
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

// Background is work in the background that waits, and a bound on what runs of it, which is lower
// while somebody waits for an answer. It is not safe for concurrent use.
type Background[T comparable] struct {
	*Queue[T]
	foreground *Foreground
	most, few  int
	running    int
}

// NewBackground makes one of which most run, or few while somebody waits for an answer.
func NewBackground[T comparable](foreground *Foreground, most, few int) *Background[T] {
	return &Background[T]{Queue: NewQueue[T](0), foreground: foreground, most: most, few: min(few, most)}
}

func (b *Background[T]) free(now time.Time) bool {
	return b.running < b.foreground.Limit(now, b.most, b.few)
}

// Until is how long it takes, a minute at most, until more may run without any item's end: until
// nobody waits for an answer any more.
func (b *Background[T]) Until(now time.Time) time.Duration {
	if left := b.foreground.Left(now); left > 0 && b.running >= b.few && b.running < b.most {
		return left
	}
	return time.Minute
}
