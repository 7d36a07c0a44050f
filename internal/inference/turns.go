package inference

// This file bounds how many requests are decoded and tokenised at once, interactive ones first, and how much the
// server holds altogether.

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// urgentFor is how long after an interactive request bulk ones leave a turn to the next.
const urgentFor = time.Second

// turns is a semaphore with a lane that goes first. While that lane is used the other one leaves it a turn, so that it
// doesn't wait for large requests.
type turns struct {
	mu      sync.Mutex
	most    int
	taken   map[wire.Lane]int
	urgent  time.Time // when an interactive request last came
	waiting map[wire.Lane][]chan struct{}
}

func newTurns(n int) *turns {
	return &turns{most: n, taken: map[wire.Lane]int{}, waiting: map[wire.Lane][]chan struct{}{}}
}

// room reports whether a request of a lane may take a turn now. The mutex is held.
func (t *turns) room(lane wire.Lane) bool {
	interactive, bulk := t.taken[wire.LaneInteractive], t.taken[wire.LaneBulk]
	if lane != wire.LaneInteractive && time.Since(t.urgent) < urgentFor && bulk >= max(1, t.most-1) {
		return false
	}
	return interactive+bulk < t.most
}

// take waits for a turn; after a nil error the caller must give it back.
func (t *turns) take(ctx context.Context, lane wire.Lane) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t.mu.Lock()
	if lane == wire.LaneInteractive {
		t.urgent = time.Now()
	}
	if t.room(lane) {
		t.taken[lane]++
		t.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	t.waiting[lane] = append(t.waiting[lane], mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	at := slices.Index(t.waiting[lane], mine)
	if at >= 0 {
		t.waiting[lane] = slices.Delete(t.waiting[lane], at, at+1)
	}
	t.mu.Unlock()
	if at < 0 { // it came in the same moment
		t.give(lane)
	}
	return ctx.Err()
}

// give returns a turn of a lane. Bulk requests that leave a turn wait for one of their own to be given back: there always
// is one.
func (t *turns) give(lane wire.Lane) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken[lane]--
	for _, next := range []wire.Lane{wire.LaneInteractive, wire.LaneBulk} {
		for len(t.waiting[next]) > 0 && t.room(next) {
			t.taken[next]++
			close(t.waiting[next][0])
			t.waiting[next] = t.waiting[next][1:]
		}
	}
}

// load is what a server holds, in bytes of requests and in sequences.
type load struct {
	mu                      sync.Mutex
	bytes, sequences        int
	maxBytes, maxSequences  int
	heldBytes, heldSequence func(change int) // metrics
}

// add takes a request in, or says that the server is full. Bulk requests leave a quarter to interactive ones. A
// request that is larger than the bound alone is taken when nothing else is held.
func (l *load) add(lane wire.Lane, bytes, sequences int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	maxBytes, maxSequences := l.maxBytes, l.maxSequences
	if lane != wire.LaneInteractive {
		maxBytes, maxSequences = maxBytes-maxBytes/4, maxSequences-maxSequences/4
	}
	// What isn't asked for isn't checked: a request that was taken in by its bytes isn't refused for them later.
	if bytes > 0 && l.bytes > 0 && l.bytes+bytes > maxBytes || sequences > 0 && l.sequences > 0 && l.sequences+sequences > maxSequences {
		return fmt.Errorf("the model server holds %d texts in %d bytes already: %w", l.sequences, l.bytes, schema.ErrOverloaded)
	}
	l.change(bytes, sequences)
	return nil
}

func (l *load) remove(bytes, sequences int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.change(-bytes, -sequences)
}

func (l *load) change(bytes, sequences int) {
	l.bytes += bytes
	l.sequences += sequences
	l.heldBytes(bytes)
	l.heldSequence(sequences)
}
