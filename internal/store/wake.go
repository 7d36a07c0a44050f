package store

// This file wakes relays after a commit of messages to the outbox.

import (
	"context"
	"sync/atomic"
)

// OnOutbox sets a function that is called after each commit of messages to the outbox. It must not
// block. Messages of a process that died before the call are found by relays that poll.
func (s *Store) OnOutbox(told func()) { s.told.Store(&told) }

type wroteKey struct{}

// noting returns a context in which a transaction records that it wrote messages.
func noting(ctx context.Context) (context.Context, *atomic.Bool) {
	wrote := new(atomic.Bool)
	return context.WithValue(ctx, wroteKey{}, wrote), wrote
}

// wroteOutbox records that the transaction of ctx writes messages.
func wroteOutbox(ctx context.Context) {
	if wrote, _ := ctx.Value(wroteKey{}).(*atomic.Bool); wrote != nil {
		wrote.Store(true)
	}
}

func (s *Store) wakeRelay() {
	if told := s.told.Load(); told != nil {
		(*told)()
	}
}
