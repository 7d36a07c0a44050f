package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Listen calls heard once when it listens on channel (what was notified before
// is lost to it, so the caller should look then), and after each notification
// again, until ctx ends or the connection breaks; it returns why. It holds one
// connection of its own.
func (s *Store) Listen(ctx context.Context, channel string, heard func()) error {
	pooled, err := s.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", channel, Translate(err))
	}
	conn := pooled.Hijack()                      // a listening connection never goes back to the pool
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it is given up either way
	if _, err := conn.Exec(ctx, `LISTEN `+pgx.Identifier{channel}.Sanitize()); err != nil {
		return fmt.Errorf("listen on %s: %w", channel, Translate(err))
	}
	for {
		heard()
		if err := notified(ctx, conn); err != nil {
			return fmt.Errorf("listen on %s: %w", channel, Translate(err))
		}
	}
}

// askAfter is how long a connection that listens may be silent before it is
// asked whether it lives, and leads to a server that takes writes: nothing is
// notified of on another one.
const askAfter = 10 * time.Second

// notified returns when the next notification has come.
func notified(ctx context.Context, conn *pgx.Conn) error {
	for {
		wait, cancel := context.WithTimeout(ctx, askAfter)
		_, err := conn.WaitForNotification(wait)
		cancel()
		if err == nil || ctx.Err() != nil || conn.IsClosed() {
			return err
		}
		asking, cancel := context.WithTimeout(ctx, askAfter)
		err = takesWrites(asking, conn)
		cancel()
		if err != nil && ctx.Err() == nil {
			return &undone{err}
		}
		if err != nil {
			return err
		}
	}
}

// PresenceClass is the first key of the advisory locks that say "I live".
const PresenceClass = 0x51C1CE

// Session is a worker's own connection, outside the pool. It hears of new
// outbox rows, and as long as it is open no one takes the holder's leases for
// those of a dead process.
type Session struct {
	conn *pgx.Conn
}

// OpenSession opens a session for a holder of leases.
func (s *Store) OpenSession(ctx context.Context, holder string) (*Session, error) {
	pooled, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", Translate(err))
	}
	conn := pooled.Hijack()
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock_shared($1, hashtext($2))`, PresenceClass, holder); err != nil {
		return nil, fmt.Errorf("take the presence lock of %s: %w", holder, Translate(closeAfter(ctx, conn, err)))
	}
	if _, err := conn.Exec(ctx, `LISTEN sluice_outbox`); err != nil {
		return nil, fmt.Errorf("listen for outbox rows: %w", Translate(closeAfter(ctx, conn, err)))
	}
	return &Session{conn: conn}, nil
}

func closeAfter(ctx context.Context, conn *pgx.Conn, err error) error {
	_ = conn.Close(context.WithoutCancel(ctx))
	return err
}

// Wait returns when rows were added to the outbox since the call before. After
// an error, that of ctx included, the session must be closed.
func (s *Session) Wait(ctx context.Context) error {
	if err := notified(ctx, s.conn); err != nil {
		return fmt.Errorf("wait for outbox rows: %w", Translate(err))
	}
	return nil
}

// Close ends the session.
func (s *Session) Close(ctx context.Context) error { return s.conn.Close(ctx) }
