package store

// This file brings a database to this build's schema, and checks that it is.

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/sluice-rag/sluice/migrations"
	"github.com/sluice-rag/sluice/schema"
)

// Migrate applies the migrations that the database at the URL owner lacks, as
// the user in it, who must own the database and may create roles. Then it makes
// the logins of the URLs program and vectors as far as they are not there; each
// may be empty. Several processes may do so at once: one works, the others wait
// for it.
func Migrate(ctx context.Context, owner, program, vectors string) error {
	config, err := pgx.ParseConfig(owner)
	if err != nil {
		return &schema.FieldError{Field: "database url", Problem: err.Error()}
	}
	config.RuntimeParams["application_name"] = "sluice migrate"
	db := stdlib.OpenDB(*config)
	defer db.Close() //nolint:errcheck // nothing is left to lose
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS,
		goose.WithSessionLocker(sessionLock{}),
		goose.WithAllowOutofOrder(true), // parts number their migrations in ranges of their own
		goose.WithDisableGlobalRegistry(true),
	)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return fmt.Errorf("migrate the database at %s: %w", address(config), explain(err))
	}
	for _, r := range results {
		slog.InfoContext(ctx, "migrated the database", "migration", r.Source.Path, "took", r.Duration)
	}
	return makeLogins(ctx, config, program, vectors)
}

func makeLogins(ctx context.Context, owner *pgx.ConnConfig, program, vectors string) error {
	conn, err := pgx.ConnectConfig(ctx, owner)
	if err != nil {
		return fmt.Errorf("connect to make logins: %w", Translate(err))
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is left to lose
	for _, l := range []struct {
		setting, url string
		roles        []string
	}{{databaseSetting, program, programRoles}, {vectorSetting, vectors, vectorRoles}} {
		if l.url == "" {
			continue
		}
		if err := makeLogin(ctx, conn, l.setting, l.url, l.roles); err != nil {
			return err
		}
	}
	return nil
}

// explain adds the remedy to errors that a fresh server gives.
func explain(err error) error {
	err = Translate(err)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "0A000" || pg.Code == "58P01" || pg.Code == "22023") && pg.Routine == "parse_extension_control_file" {
		return fmt.Errorf("pgvector is not installed on the database server; install postgresql-<version>-pgvector (0.8 or newer): %w", err)
	}
	return err
}

// CheckSchema reports whether the database has exactly the migrations that
// this build knows. The error says what to do.
func (s *Store) CheckSchema(ctx context.Context) error {
	var applied []int64
	err := s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, appliedSQL)
		if err != nil {
			return err
		}
		applied, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	})
	if err != nil {
		return fmt.Errorf("read the schema's version (run sluice migrate if it never ran): %w", err)
	}
	known, err := knownMigrations()
	if err != nil {
		return err
	}
	return compareSchema(known, applied)
}

const appliedSQL = `
SELECT version_id FROM (
    SELECT DISTINCT ON (version_id) version_id, is_applied FROM goose_db_version ORDER BY version_id, id DESC
) AS latest
WHERE is_applied AND version_id > 0`

func compareSchema(known, applied []int64) error {
	have := map[int64]bool{}
	for _, v := range applied {
		have[v] = true
	}
	for _, v := range known {
		if !have[v] {
			return fmt.Errorf("the database lacks migration %d; run sluice migrate: %w", v, schema.ErrUnavailable)
		}
		delete(have, v)
	}
	for v := range have {
		return fmt.Errorf("a newer Sluice migrated the database (migration %d is not known here); update this one: %w", v, schema.ErrUnavailable)
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

// sessionLock lets one process migrate at a time. It asks again and again
// rather than wait inside Postgres: a waiting statement holds a snapshot, which
// CREATE INDEX CONCURRENTLY of the lock's holder would wait for in turn.
type sessionLock struct{}

const (
	migrationLock = 0x736c7569636501 // "sluice", 1
	lockPoll      = 50 * time.Millisecond
)

// SessionLock implements lock.SessionLocker.
func (sessionLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for {
		var got bool
		if err := conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, int64(migrationLock)).Scan(&got); err != nil {
			return fmt.Errorf("take the migration lock: %w", err)
		}
		if got {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for another process's migration: %w", ctx.Err())
		case <-poll.C:
		}
	}
}

// SessionUnlock implements lock.SessionLocker.
func (sessionLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, int64(migrationLock)); err != nil {
		return fmt.Errorf("give back the migration lock: %w", err)
	}
	return nil
}
