package store

// This file tells of messages that were written into the outbox, once they are
// committed.

import (
	"context"
	"sync/atomic"
)

// OnOutbox has told called after each commit that left messages in the outbox. It
// must not wait for anything. What a process that died did not tell of is found
// by relays that look.
func (s *Store) OnOutbox(told func()) { s.told.Store(&told) }

type wroteKey struct{}

// noting returns a context in which a transaction notes that it wrote messages.
func noting(ctx context.Context) (context.Context, *atomic.Bool) {
	wrote := new(atomic.Bool)
	return context.WithValue(ctx, wroteKey{}, wrote), wrote
}

// wroteOutbox notes that the transaction of ctx writes messages.
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
