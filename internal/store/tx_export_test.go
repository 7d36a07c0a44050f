package store

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// ReadTenant is readTenant.
func (s *Store) ReadTenant(ctx context.Context, tenant uuid.UUID, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return s.readTenant(ctx, tenant, fn)
}

// AskTenant is askTenant; it reads no rows.
func (s *Store) AskTenant(ctx context.Context, tenant uuid.UUID, sql string, args ...any) error {
	return s.askTenant(ctx, tenant, sql, args, func(rows pgx.Rows) error {
		rows.Close()
		return rows.Err()
	})
}

// Outside runs a statement on a connection of the pool, through no door.
func (s *Store) Outside(ctx context.Context, sql string) error {
	_, err := s.pool.Exec(ctx, sql)
	return translate(err)
}

// CurationLane is the lane that clustering has.
func (s *Store) CurationLane() Lane { return s.curating().lane }
