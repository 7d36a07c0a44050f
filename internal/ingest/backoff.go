package ingest

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is a pause that doubles from first to most, with jitter.
type backoff struct {
	first, max time.Duration
	now        time.Duration
}

// next returns the next pause before jitter.
func (b *backoff) next() time.Duration { return min(max(b.now, b.first), b.max) }

func (b *backoff) reset() { b.now = 0 }

// wait returns the next pause, with jitter.
func (b *backoff) wait() time.Duration {
	pause := b.next()
	b.now = 2 * pause
	return pause/2 + rand.N(pause/2+1)
}

// sleep pauses, or returns at once when ctx ends.
func (b *backoff) sleep(ctx context.Context) {
	timer := time.NewTimer(b.wait())
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
