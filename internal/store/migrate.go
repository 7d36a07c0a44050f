package store

// This file migrates a database to this build's schema.

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/sluice-rag/sluice/migrations"
	"github.com/sluice-rag/sluice/schema"
)

// Migrate applies the missing migrations to the database at the URL owner, as the user in it, who
// must own the database and may create roles. Then it creates the missing logins of the URLs
// program and vectors; each may be empty. Several processes may call it at once: one works, the
// others wait for it.
func Migrate(ctx context.Context, owner, program, vectors string) error {
	config, err := pgx.ParseConfig(owner)
	if err != nil {
		return &schema.FieldError{Field: "database url", Problem: err.Error()}
	}
	config.RuntimeParams["application_name"] = "sluice migrate"
	config.RuntimeParams["jit"] = "off" // a pooler of transactions, which cannot do, refuses it
	db := stdlib.OpenDB(*config)
	defer db.Close() //nolint:errcheck // nothing is left to lose
	if err := newMigrator(migrations.FS).up(ctx, db); err != nil {
		return fmt.Errorf("migrate the database at %s: %w", address(config), explain(explainPooler(err, ownerSetting, adviceDirect)))
	}
	return createLogins(ctx, config, program, vectors)
}

// migrator applies migrations to a database that programs are using. Everybody queues behind a
// migration that waits for a lock, so it waits only briefly, and tries again after a pause.
type migrator struct {
	files  fs.FS
	locks  time.Duration   // longest wait for each lock
	pauses []time.Duration // between the tries of a migration
	pause  func(context.Context, time.Duration) error
}

func newMigrator(files fs.FS) migrator {
	return migrator{
		files: files, locks: 3 * time.Second, pause: pause,
		// Together longer than the transactions of programs, which take two minutes at most.
		pauses: []time.Duration{
			time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second,
			30 * time.Second, 30 * time.Second, 30 * time.Second, 30 * time.Second,
		},
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// up applies the missing migrations, each with its own lock timeout.
func (m migrator) up(ctx context.Context, db *sql.DB) error {
	lock := &sessionLock{}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, m.files,
		goose.WithSessionLocker(lock),
		goose.WithAllowOutofOrder(true), // parts number their migrations in ranges of their own
		goose.WithDisableGlobalRegistry(true),
	)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	for {
		if pending, err := provider.HasPending(ctx); err != nil || !pending {
			return err
		}
		states, err := provider.Status(ctx)
		if err != nil {
			return err
		}
		for _, s := range states {
			if s.State != goose.StatePending {
				continue
			}
			if lock.timeout, err = m.lockTimeout(s.Source.Path); err != nil {
				return err
			}
			err := m.apply(ctx, provider, s.Source)
			if errors.Is(err, goose.ErrAlreadyApplied) {
				break // another process migrates: see what it has left
			}
			if err != nil {
				return err
			}
		}
	}
}

// lockTimeout returns how long a migration may wait for each lock. 0 means for ever, for migrations
// outside of a transaction: nobody queues behind what they wait for in CREATE INDEX CONCURRENTLY.
func (m migrator) lockTimeout(path string) (time.Duration, error) {
	text, err := fs.ReadFile(m.files, path)
	if err != nil {
		return 0, fmt.Errorf("read migration %s: %w", path, err)
	}
	if bytes.Contains(text, []byte("\n-- +goose NO TRANSACTION")) || bytes.HasPrefix(text, []byte("-- +goose NO TRANSACTION")) {
		return 0, nil
	}
	return m.locks, nil
}

func (m migrator) apply(ctx context.Context, provider *goose.Provider, source *goose.Source) error {
	for try := 0; ; try++ {
		result, err := provider.ApplyVersion(ctx, source.Version, true)
		if err == nil {
			slog.InfoContext(ctx, "migrated the database", "migration", source.Path, "took", result.Duration)
			return nil
		}
		if !lockNotGiven(err) {
			return err
		}
		if try == len(m.pauses) {
			return fmt.Errorf("migration %s was tried %d times and did not get its locks within %s each: "+
				"look in pg_stat_activity for old transactions, end them, and run sluice migrate again, which goes on with it: %w", source.Path, try+1, m.locks, err)
		}
		slog.WarnContext(ctx, "a transaction holds a lock that a migration needs; trying again", "migration", source.Path,
			"try", try+1, "of", len(m.pauses)+1, "pause", m.pauses[try], "error", err)
		if err := m.pause(ctx, m.pauses[try]); err != nil {
			return fmt.Errorf("wait to try migration %s again: %w", source.Path, err)
		}
	}
}

// lockNotGiven reports whether a statement waited too long for a lock, or was aborted because of a
// deadlock.
func lockNotGiven(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "55P03" || pg.Code == "40P01")
}

func createLogins(ctx context.Context, owner *pgx.ConnConfig, program, vectors string) error {
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
		if err := createLogin(ctx, conn, l.setting, l.url, l.roles); err != nil {
			return err
		}
	}
	return nil
}

// explain adds the remedy to errors of a server without pgvector.
func explain(err error) error {
	err = Translate(err)
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == "0A000" || pg.Code == "58P01" || pg.Code == "22023") && pg.Routine == "parse_extension_control_file" {
		return fmt.Errorf("pgvector is not installed on the database server; install postgresql-<version>-pgvector (0.8 or newer): %w", err)
	}
	return err
}

// sessionLock lets one process migrate at a time. It polls rather than wait inside Postgres: a
// waiting statement holds a snapshot, for which CREATE INDEX CONCURRENTLY of the lock's holder
// would wait in turn.
type sessionLock struct {
	timeout time.Duration // lock timeout of the session afterwards; 0: none
}

const (
	migrationLock = 0x736c7569636501 // "sluice", 1
	lockPoll      = 50 * time.Millisecond
)

// SessionLock implements lock.SessionLocker.
func (l *sessionLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	poll := time.NewTicker(lockPoll)
	defer poll.Stop()
	for {
		var got bool
		if err := conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, int64(migrationLock)).Scan(&got); err != nil {
			return fmt.Errorf("take the migration lock: %w", err)
		}
		if got {
			if _, err := conn.ExecContext(ctx, `SELECT set_config('lock_timeout', $1, false)`, strconv.FormatInt(l.timeout.Milliseconds(), 10)); err != nil {
				return fmt.Errorf("limit waits for locks: %w", errors.Join(err, l.SessionUnlock(context.WithoutCancel(ctx), conn)))
			}
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
func (*sessionLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	if _, err := conn.ExecContext(ctx, `SELECT pg_advisory_unlock($1)`, int64(migrationLock)); err != nil {
		return fmt.Errorf("give back the migration lock: %w", err)
	}
	return nil
}
