package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// PresenceClass is the first key of the advisory locks that show that a process is alive.
const PresenceClass = 0x51C1CE

// Session is a worker's own connection, outside the pool. While it is open nobody takes the
// holder's leases for those of a dead process; when the process ends, the last packet of the
// connection makes the server release its lock. It must not go through a pooler of transactions.
type Session struct {
	conn *pgx.Conn
}

// OpenSession opens a session for a holder of leases.
func (s *Store) OpenSession(ctx context.Context, holder string) (*Session, error) {
	conn, err := s.own(ctx)
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", Translate(err))
	}
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock_shared($1, hashtext($2))`, PresenceClass, holder); err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("take the presence lock of %s: %w", holder, Translate(err))
	}
	return &Session{conn: conn}, nil
}

// own returns a connection that belongs to the caller: one with a lock never returns to the pool.
func (s *Store) own(ctx context.Context) (*pgx.Conn, error) {
	if s.options.Pooled {
		return s.direct(ctx)
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Hijack(), nil
}

// checkAfter is how long a session may be silent before it is checked that it is alive, and that
// its server accepts writes: nobody would look for its lock on a standby.
const checkAfter = 10 * time.Second

// Hold returns the error when the session breaks or ctx ends. The session must be closed then.
func (s *Session) Hold(ctx context.Context) error {
	for {
		// No notification is ever sent: this reads what the server sends when it closes the
		// connection.
		wait, cancel := context.WithTimeout(ctx, checkAfter)
		_, err := s.conn.WaitForNotification(wait)
		cancel()
		if err == nil {
			continue
		}
		if ctx.Err() == nil && !s.conn.IsClosed() {
			checkCtx, cancel := context.WithTimeout(ctx, checkAfter)
			err = checkWritable(checkCtx, s.conn)
			cancel()
			if err == nil {
				continue
			}
			if ctx.Err() == nil {
				err = &rolledBackError{err}
			}
		}
		return fmt.Errorf("hold a session: %w", Translate(err))
	}
}

// Close ends the session.
func (s *Session) Close(ctx context.Context) error { return s.conn.Close(ctx) }
