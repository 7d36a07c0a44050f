package store

import (
	"context"
	"fmt"

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
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return fmt.Errorf("listen on %s: %w", channel, translate(err))
		}
	}
}
