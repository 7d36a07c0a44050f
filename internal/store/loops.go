package store

// This file says which process runs a loop that one process runs at a time.

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Whoever does not get it has read one row and written none.
const leadSQL = `
INSERT INTO loops AS l (name, holder, until)
SELECT $1, $2, now() + $3::interval WHERE NOT EXISTS (SELECT FROM loops WHERE name = $1 AND holder <> $2 AND until >= now())
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE l.holder = excluded.holder OR l.until < now()
RETURNING true`

// Lead implements lifecycle.Elector.
func (s *Store) Lead(ctx context.Context, loop, holder string, ttl time.Duration) (leads bool, err error) {
	err = s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		leads = false
		err := tx.QueryRow(ctx, leadSQL, loop, holder, ttl).Scan(&leads)
		if IsNoRows(err) {
			return nil
		}
		return err
	})
	return leads, Wrap(err, "take the lead of loop %q", loop)
}

// Yield implements lifecycle.Elector.
func (s *Store) Yield(ctx context.Context, loop, holder string) error {
	return Wrap(s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM loops WHERE name = $1 AND holder = $2`, loop, holder)
		return err
	}), "yield the lead of loop %q", loop)
}
