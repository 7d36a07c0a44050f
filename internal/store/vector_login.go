package store

// This file is the door of who owns the partitions of vectors.

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/tcp"
)

// ErrBusy says that another process tends the same collection.
var ErrBusy = errors.New("another process tends it")

// Execute runs a statement outside a transaction.
func Execute(ctx context.Context, conn *pgx.Conn, sql string) error {
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// ErrNoVectorLogin says that this process may not change partitions.
var ErrNoVectorLogin = errors.New(vectorSetting + " is not set")

// AsVectors runs fn on a connection as the owner of partitions, who sees no
// tenant's rows. One process at a time does so for a key; the others get ErrBusy.
func (s *Store) AsVectors(ctx context.Context, key uuid.UUID, fn func(ctx context.Context, conn *pgx.Conn) error) error {
	if s.options.VectorURL == "" {
		return ErrNoVectorLogin
	}
	// Not one of the pool: fn takes others of that, and closing this one at the
	// end gives the lock back.
	o := s.options
	o.Pooled = false
	config, err := poolConfig(o.VectorURL, o)
	if err != nil {
		return err
	}
	config.ConnConfig.RuntimeParams["statement_timeout"] = "0" // a graph is built for hours, and nothing is heard meanwhile
	config.ConnConfig.DialFunc = tcp.Dialer().DialContext
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return fmt.Errorf("connect: %w", explainPooler(err, vectorSetting, goDirect))
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is left to lose
	if err := checkPowers(ctx, conn, vectorSetting); err != nil {
		return err
	}
	var got bool
	if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock(hashtextextended('sluice vectors ' || $1::text, 0))`, key.String()).Scan(&got); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if !got {
		return ErrBusy
	}
	// A closed connection gives the lock back only when its server process has
	// ended: whoever comes next would find the collection busy.
	defer func() {
		if !conn.IsClosed() {
			_, _ = conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock_all()`) // else closing does
		}
	}()
	if err := Execute(ctx, conn, `SET ROLE `+string(roleVectors)); err != nil {
		return err
	}
	return fn(ctx, conn)
}
