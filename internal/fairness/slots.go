package fairness

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Slots are waited for. What somebody waits for goes before work in the background, which for a
// while after each such request leaves a slot to the next one.
type Slots struct {
	n          int
	foreground *Foreground

	mu      sync.Mutex
	held    map[bool]int // by the foreground, and by the background
	waiting map[bool][]chan struct{}
}

// NewSlots makes n slots.
func NewSlots(n int) *Slots {
	return &Slots{n: n, foreground: NewForeground(Recent), held: map[bool]int{}, waiting: map[bool][]chan struct{}{}}
}

// free reports whether there is a slot now. The mutex is held.
func (s *Slots) free(background bool) bool {
	if background && s.held[true] >= s.foreground.Limit(time.Now(), s.n, max(1, s.n-1)) {
		return false
	}
	return s.held[false]+s.held[true] < s.n
}

// Acquire waits for a slot; after a nil error it must be released.
func (s *Slots) Acquire(ctx context.Context, background bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if !background {
		s.foreground.Seen(time.Now())
	}
	if s.free(background) {
		s.held[background]++
		s.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	s.waiting[background] = append(s.waiting[background], mine)
	s.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := slices.Index(s.waiting[background], mine); at >= 0 {
		s.waiting[background] = slices.Delete(s.waiting[background], at, at+1)
	} else { // it came in the same moment
		s.release(background)
	}
	return ctx.Err()
}

// Release gives a slot back.
func (s *Slots) Release(background bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(background)
}

// release hands a slot to who is next. Work in the background that leaves a slot waits for one of
// its own to be released: there always is one.
func (s *Slots) release(background bool) {
	s.held[background]--
	for _, next := range []bool{false, true} {
		for len(s.waiting[next]) > 0 && s.free(next) {
			s.held[next]++
			close(s.waiting[next][0])
			s.waiting[next] = s.waiting[next][1:]
		}
	}
}
