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
		return fmt.Errorf("listen on %s: %w", channel, translate(err))
	}
	conn := pooled.Hijack()                      // a listening connection never goes back to the pool
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it is given up either way
	if _, err := conn.Exec(ctx, `LISTEN `+pgx.Identifier{channel}.Sanitize()); err != nil {
		return fmt.Errorf("listen on %s: %w", channel, translate(err))
	}
	for {
		heard()
		if err := notified(ctx, conn); err != nil {
			return fmt.Errorf("listen on %s: %w", channel, translate(err))
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
