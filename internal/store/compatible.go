package store

// This file checks whether this build may work with a database: one with its own migrations, or
// also with newer ones that are compatible.

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"

	"github.com/sluice-rag/sluice/migrations"
	"github.com/sluice-rag/sluice/schema"
)

// CheckSchema returns an error unless this build may work with the database: the database must have
// all migrations of this build, and its other ones must be compatible with older programs. The
// error says what to do.
func (s *Store) CheckSchema(ctx context.Context) error {
	known, err := knownMigrations()
	if err != nil {
		return err
	}
	var applied, raised []int64
	err = s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var err error
		if applied, err = versions(ctx, tx, appliedSQL); err != nil {
			return err
		}
		if compareSchema(known, applied, nil) != nil {
			return nil // the database may be older than the table
		}
		raised, err = versions(ctx, tx, `SELECT migration FROM schema_compatibility ORDER BY migration DESC`)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the schema's version (run sluice migrate if it never ran): %w", err)
	}
	if err := compareSchema(known, applied, raised); err != nil {
		return err
	}
	if n := len(applied) - len(known); n > 0 {
		slog.InfoContext(ctx, "a newer Sluice migrated the database; this version still works with it", "unknown_migrations", n)
	}
	return nil
}

const appliedSQL = `
SELECT version_id FROM (
    SELECT DISTINCT ON (version_id) version_id, is_applied FROM goose_db_version ORDER BY version_id, id DESC
) AS latest
WHERE is_applied AND version_id > 0`

func versions(ctx context.Context, tx pgx.Tx, sql string) ([]int64, error) {
	rows, err := tx.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// compareSchema compares the migrations of a program, known, with those of a database, applied.
// raised are the migrations that a program must know to work with the database. It must know each
// of them, not just a higher one, because parts number their migrations in separate ranges.
func compareSchema(known, applied, raised []int64) error {
	have := map[int64]bool{}
	for _, v := range applied {
		have[v] = true
	}
	required := map[int64]bool{}
	for _, v := range known {
		if !have[v] {
			return fmt.Errorf("the database lacks migration %d, which this version needs; run sluice migrate of this version: %w", v, schema.ErrUnavailable)
		}
		required[v] = true
	}
	for _, v := range raised {
		if !required[v] {
			return fmt.Errorf("a newer Sluice migrated the database, and versions without migration %d may not work with it; upgrade this program: %w",
				v, schema.ErrUnavailable)
		}
	}
	return nil
}

func knownMigrations() ([]int64, error) {
	entries, err := migrations.FS.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	var out []int64
	for _, e := range entries {
		version, err := goose.NumericComponent(e.Name())
		if err != nil {
			return nil, fmt.Errorf("read the name of migration %s: %w", e.Name(), err)
		}
		out = append(out, version)
	}
	return out, nil
}

// HighestMigration returns the highest migration of this build.
func HighestMigration() int64 {
	known, err := knownMigrations()
	if err != nil {
		panic(err) // an embedded migration has no number
	}
	return slices.Max(known)
}

// askSchemaEvery is the time between two checks of AwaitSchema.
const askSchemaEvery = time.Second

// AwaitSchema returns once this build may work with the database at url, or when ctx ends. Until
// then the database may be unreachable, have no such login, or miss migrations; AwaitSchema passes
// each new reason for waiting to report. A malformed URL is an error at once.
func AwaitSchema(ctx context.Context, url string, o Options, report func(error)) error {
	if _, err := poolConfig(url, o); err != nil {
		return err
	}
	reported := ""
	for {
		err := trySchema(ctx, url, o)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait for the database's schema: %w: %w", ctx.Err(), err)
		}
		if err.Error() != reported {
			reported = err.Error()
			report(err)
		}
		timer := time.NewTimer(askSchemaEvery)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
	}
}

func trySchema(ctx context.Context, url string, o Options) error {
	s, err := Open(ctx, url, o)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.CheckSchema(ctx)
}
