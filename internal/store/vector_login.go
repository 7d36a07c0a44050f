package store

// This file gives access to the partitions of vectors as their owner.

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/tcp"
)

// ErrBusy means that another process is changing the same vectors, or that searches have the table
// locked.
var ErrBusy = errors.New("another process tends it")

// Execute runs a statement outside a transaction.
func Execute(ctx context.Context, conn *pgx.Conn, sql string) error {
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// ErrNoVectorLogin means that this process may not change partitions.
var ErrNoVectorLogin = errors.New(vectorSetting + " is not set")

// AsVectors runs fn on a connection as the owner of partitions, who sees no tenant's rows. Only one
// process at a time does so for a key; for others the error is ErrBusy.
func (s *Store) AsVectors(ctx context.Context, key uuid.UUID, fn func(ctx context.Context, conn *pgx.Conn) error) error {
	if s.options.VectorURL == "" {
		return ErrNoVectorLogin
	}
	// Not a connection of the pool: fn uses others of the pool, and closing this one at the end
	// releases the lock.
	o := s.options
	o.Pooled = false
	config, err := poolConfig(o.VectorURL, o)
	if err != nil {
		return err
	}
	config.ConnConfig.RuntimeParams["statement_timeout"] = "0" // building an index takes up to hours, during which the server sends nothing
	config.ConnConfig.DialFunc = tcp.Dialer().DialContext
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return fmt.Errorf("connect: %w", explainPooler(err, vectorSetting, adviceDirect))
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
	// Unlocks explicitly: a closed connection releases the lock only when its server process has
	// ended, and until then others would get ErrBusy.
	defer func() {
		if !conn.IsClosed() {
			_, _ = conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock_all()`) // if it fails, closing releases the lock
		}
	}()
	if err := Execute(ctx, conn, `SET ROLE `+string(roleVectors)); err != nil {
		return err
	}
	return fn(ctx, conn)
}
