package fairness

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Slots is a semaphore with a queue. Interactive requests are served before background work, which
// leaves a slot free for a while after each such request.
type Slots struct {
	size       int
	foreground *Foreground

	mu      sync.Mutex
	inUse   map[bool]int // key: whether by background work
	waiting map[bool][]chan struct{}
}

// NewSlots returns n slots.
func NewSlots(size int) *Slots {
	return &Slots{size: size, foreground: NewForeground(Recent), inUse: map[bool]int{}, waiting: map[bool][]chan struct{}{}}
}

// free reports whether a slot is free. The mutex must be held.
func (s *Slots) free(background bool) bool {
	if background && s.inUse[true] >= s.foreground.Limit(time.Now(), s.size, max(1, s.size-1)) {
		return false
	}
	return s.inUse[false]+s.inUse[true] < s.size
}

// Acquire waits for a slot. If it returns nil, the slot must be released.
func (s *Slots) Acquire(ctx context.Context, background bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if !background {
		s.foreground.Record(time.Now())
	}
	if s.free(background) {
		s.inUse[background]++
		s.mu.Unlock()
		return nil
	}
	ready := make(chan struct{})
	s.waiting[background] = append(s.waiting[background], ready)
	s.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting[background], ready); i >= 0 {
		s.waiting[background] = slices.Delete(s.waiting[background], i, i+1)
	} else { // the slot was given at the same moment
		s.release(background)
	}
	return ctx.Err()
}

// Release releases a slot.
func (s *Slots) Release(background bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(background)
}

// release gives a slot to the next waiter. Background work that leaves a slot free waits until
// another background slot is released: there always is one.
func (s *Slots) release(background bool) {
	s.inUse[background]--
	for _, next := range []bool{false, true} {
		for len(s.waiting[next]) > 0 && s.free(next) {
			s.inUse[next]++
			close(s.waiting[next][0])
			s.waiting[next] = s.waiting[next][1:]
		}
	}
}
