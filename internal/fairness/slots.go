package fairness

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Slots are waited for. What somebody waits for goes before work in the background, which for a while after each such
// request leaves a slot to the next one.
type Slots struct {
	n          int
	foreground *Foreground

	mu    sync.Mutex
	kinds [2]slotKind
}

// The kinds of work, in the order in which it is served.
const (
	inForeground = iota
	inBackground
)

// slotKind is work of a kind.
type slotKind struct {
	held    int
	waiting []chan struct{}
}

// NewSlots makes n slots.
func NewSlots(n int) *Slots { return &Slots{n: n, foreground: NewForeground(Recent)} }

func kindOf(background bool) int {
	if background {
		return inBackground
	}
	return inForeground
}

// free reports whether work of a kind may have a slot now. The mutex is held.
func (s *Slots) free(kind int) bool {
	behind := s.kinds[inBackground].held
	if kind == inBackground && behind >= s.foreground.Limit(time.Now(), s.n, max(1, s.n-1)) {
		return false
	}
	return s.kinds[inForeground].held+behind < s.n
}

// Acquire waits for a slot; after a nil error it must be released.
func (s *Slots) Acquire(ctx context.Context, background bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	at := kindOf(background)
	kind := &s.kinds[at]
	if !background {
		s.foreground.Seen(time.Now())
	}
	if s.free(at) {
		kind.held++
		s.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	kind.waiting = append(kind.waiting, mine)
	s.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	i := slices.Index(kind.waiting, mine)
	if i >= 0 {
		kind.waiting = slices.Delete(kind.waiting, i, i+1)
	}
	s.mu.Unlock()
	if i < 0 { // it came in the same moment
		s.Release(background)
	}
	return ctx.Err()
}

// Release gives a slot back. Work in the background that leaves a slot waits for one of its own to be released: there
// always is one.
func (s *Slots) Release(background bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds[kindOf(background)].held--
	for at := range s.kinds {
		for kind := &s.kinds[at]; len(kind.waiting) > 0 && s.free(at); kind.waiting = kind.waiting[1:] {
			kind.held++
			close(kind.waiting[0])
		}
	}
}
