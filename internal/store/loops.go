package store

// This file elects leaders of loops: the lease of a leader is a row of the table loops.

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// electSQL writes only if the holder is elected: other processes just read one row.
const electSQL = `
INSERT INTO loops AS l (name, holder, until)
SELECT $1, $2, now() + $3::interval WHERE NOT EXISTS (SELECT FROM loops WHERE name = $1 AND holder <> $2 AND until >= now())
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE l.holder = excluded.holder OR l.until < now()
RETURNING true`

// Elect implements lifecycle.Elector.
func (s *Store) Elect(ctx context.Context, loop, holder string, ttl time.Duration) (elected bool, err error) {
	err = s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		elected = false
		err := tx.QueryRow(ctx, electSQL, loop, holder, ttl).Scan(&elected)
		if IsNoRows(err) {
			return nil
		}
		return err
	})
	return elected, Wrap(err, "elect a leader of loop %q", loop)
}

// Resign implements lifecycle.Elector.
func (s *Store) Resign(ctx context.Context, loop, holder string) error {
	return Wrap(s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM loops WHERE name = $1 AND holder = $2`, loop, holder)
		return err
	}), "resign as leader of loop %q", loop)
}
