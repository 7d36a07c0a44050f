package store

// This file wakes relays after a commit of messages to the outbox.

import (
	"context"
	"sync/atomic"
)

// OnOutbox sets a function that is called after each commit of messages to the outbox. It must not
// block. Messages of a process that died before the call are found by relays that poll.
func (s *Store) OnOutbox(callback func()) { s.onOutbox.Store(&callback) }

type outboxKey struct{}

// trackOutbox returns a context in which a transaction records that it wrote messages.
func trackOutbox(ctx context.Context) (context.Context, *atomic.Bool) {
	wrote := new(atomic.Bool)
	return context.WithValue(ctx, outboxKey{}, wrote), wrote
}

// markOutbox records that the transaction of ctx writes messages.
func markOutbox(ctx context.Context) {
	if wrote, _ := ctx.Value(outboxKey{}).(*atomic.Bool); wrote != nil {
		wrote.Store(true)
	}
}

func (s *Store) wakeRelay() {
	if callback := s.onOutbox.Load(); callback != nil {
		(*callback)()
	}
}
