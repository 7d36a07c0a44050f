package store

// This file migrates databases while others use them.

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/migrations"
)

const (
	later = `
-- +goose Up
CREATE TABLE half_done ();
ALTER TABLE documents ADD half int;

-- +goose Down
`
	laterIndex = `-- +goose NO TRANSACTION
-- +goose Up
DROP INDEX CONCURRENTLY IF EXISTS documents_half;
CREATE INDEX CONCURRENTLY documents_half ON documents (created_at);

-- +goose Down
`
)

// migrated is a database, and a migrator that knows more migrations.
type migrated struct {
	migrator
	url, owner string
	db         *sql.DB // as the owner
}

func migratedWith(t *testing.T, more map[string]string) *migrated {
	t.Helper()
	files := fstest.MapFS{}
	entries, err := fs.ReadDir(migrations.FS, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := fs.ReadFile(migrations.FS, e.Name())
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = &fstest.MapFile{Data: text}
	}
	for name, text := range more {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	m := &migrated{migrator: newMigrator(files), url: localtest.Database(t)}
	m.owner = localtest.OwnerURL(t, m.url)
	config, err := pgx.ParseConfig(m.owner)
	if err != nil {
		t.Fatal(err)
	}
	m.db = stdlib.OpenDB(*config)
	t.Cleanup(func() { m.db.Close() }) //nolint:errcheck // a test's
	m.locks = 20 * time.Millisecond
	m.pause = func(_ context.Context, d time.Duration) error {
		t.Errorf("pauses for %s", d)
		return nil
	}
	return m
}

// hold executes SQL in a transaction, which the returned function commits.
func (m *migrated) hold(t *testing.T, sql string) (end func()) {
	t.Helper()
	tx, err := m.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() }) //nolint:errcheck // it has ended by then, but for a failure
	if _, err := tx.ExecContext(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return func() {
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	}
}

func (m *migrated) count(t *testing.T, sql string) (n int) {
	t.Helper()
	if err := m.db.QueryRowContext(t.Context(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// checkUnchanged checks that nothing of the later migration is done, that nobody waits, and that
// programs may use the database.
func (m *migrated) checkUnchanged(t *testing.T) {
	t.Helper()
	if n := m.count(t, `SELECT count(*) FROM pg_class WHERE relname = 'half_done'`); n != 0 {
		t.Error("the migration is half done")
	}
	if n := m.count(t, `SELECT count(*) FROM pg_locks WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); n != 0 {
		t.Errorf("%d wait for locks", n)
	}
	if n := m.count(t, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`); n != 0 {
		t.Error("the lock of migrations is still held")
	}
	m.count(t, `SELECT count(*) FROM documents`)
	s, err := Open(t.Context(), m.url, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestAMigrationWithoutItsLockComesBackInARetry(t *testing.T) {
	m := migratedWith(t, map[string]string{"90001_later.sql": later})
	end := m.hold(t, `LOCK TABLE documents IN ACCESS SHARE MODE`) // like a reader
	m.pauses = []time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour}
	var pauses []time.Duration
	m.pause = func(_ context.Context, d time.Duration) error {
		m.checkUnchanged(t)
		if pauses = append(pauses, d); len(pauses) == 2 {
			end()
		}
		return nil
	}
	if err := m.up(waittest.Context(t), m.db); err != nil {
		t.Fatal(err)
	}
	if len(pauses) != 2 || pauses[1] != 2*time.Hour {
		t.Errorf("pauses of %v", pauses)
	}
	if n := m.count(t, `SELECT count(*) FROM goose_db_version WHERE version_id = 90001`); n != 1 {
		t.Errorf("the migration is noted %d times", n)
	}
	m.count(t, `SELECT count(half) FROM documents`)
}

func TestAMigrationThatNeverGetsItsLockGivesUp(t *testing.T) {
	m := migratedWith(t, map[string]string{"90001_later.sql": later})
	end := m.hold(t, `LOCK TABLE documents IN ACCESS SHARE MODE`)
	m.pauses = nil
	err := m.up(waittest.Context(t), m.db)
	if err == nil || !strings.Contains(err.Error(), "90001_later.sql was tried 1 times and did not get its locks") || !strings.Contains(err.Error(), "run sluice migrate again") {
		t.Errorf("gave up with %v", err)
	}
	m.checkUnchanged(t)
	end()
	if err := m.up(waittest.Context(t), m.db); err != nil {
		t.Fatal(err)
	}
	m.count(t, `SELECT count(half) FROM documents`)
}

func TestPausesOfMigrationsEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pause(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := pause(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

// What waits outside of a transaction blocks nobody, and a retry would start over.
func TestIndexesWaitForOldTransactionsDuringTheirBuild(t *testing.T) {
	m := migratedWith(t, map[string]string{"90001_index.sql": laterIndex})
	m.locks = time.Millisecond
	end := m.hold(t, `LOCK TABLE documents IN ROW EXCLUSIVE MODE`) // like a writer
	done := make(chan error, 1)
	go func() { done <- m.up(waittest.Context(t), m.db) }()
	waittest.Until(t, func() string {
		select {
		case err := <-done:
			t.Fatalf("it has not waited: %v", err)
		default:
		}
		if m.count(t, `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'CREATE INDEX CONCURRENTLY documents_half%'`) == 0 {
			return "the index does not wait"
		}
		return ""
	})
	end()
	if err := waittest.Receive(t, done, "the end of the migration"); err != nil {
		t.Error(err)
	}
	if n := m.count(t, `SELECT count(*) FROM pg_index WHERE indexrelid = 'documents_half'::regclass AND indisvalid`); n != 1 {
		t.Error("there is no index")
	}
}

const (
	toFill = `
-- +goose Up
CREATE TABLE filled (tenant_id uuid NOT NULL DEFAULT gen_random_uuid(), n int NOT NULL, twice int, thrice int);
INSERT INTO filled (n) SELECT generate_series(1, 5000);
SELECT sluice_protect('filled');
GRANT SELECT, UPDATE ON filled TO sluice_app;

-- +goose Down
`
	fillingAlone = `-- +goose NO TRANSACTION
-- +goose Up
CALL sluice_backfill('filled', 'thrice = 3 * n', 'thrice IS NULL');

-- +goose Down
`
	filling = `-- +goose NO TRANSACTION
-- +goose Up
CALL sluice_backfill('filled', 'twice = 2 * n', 'twice IS NULL', 2);

-- +goose Down
`
)

func TestBackfillsCommitChunksDuringOthersTransactions(t *testing.T) {
	m := migratedWith(t, map[string]string{"90001_to_fill.sql": toFill, "90002_alone.sql": fillingAlone})
	if err := m.up(waittest.Context(t), m.db); err != nil {
		t.Fatal(err)
	}
	admin, err := pgx.Connect(t.Context(), localtest.Postgres(t).AdminURL(databaseOf(t, m.owner)))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // a test's
	var alone int
	if err := admin.QueryRow(t.Context(), `SELECT count(*) FROM filled WHERE thrice = 3 * n`).Scan(&alone); err != nil || alone != 5000 {
		t.Fatalf("%d of 5000 rows are filled: %v", alone, err)
	}
	left := func() (n int) {
		t.Helper()
		if err := admin.QueryRow(t.Context(), `SELECT count(*) FROM filled WHERE twice IS NULL`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := left(); n != 5000 {
		t.Fatalf("%d rows are to be filled", n)
	}
	holder, err := pgx.Connect(t.Context(), localtest.Postgres(t).AdminURL(databaseOf(t, m.owner)))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // a test's
	m.files.(fstest.MapFS)["90003_filling.sql"] = &fstest.MapFile{Data: []byte(filling)}
	start := func(ctx context.Context) <-chan error {
		done := make(chan error, 1)
		go func() { done <- m.up(ctx, m.db) }()
		return done
	}
	// As an interrupted backfill leaves it: creating the policy locks the whole table for a moment.
	if _, err := m.db.ExecContext(t.Context(), `CREATE POLICY backfill ON filled TO CURRENT_USER USING (true)`); err != nil {
		t.Fatal(err)
	}
	// Somebody holds a row, and the rows that were filled before are visible to others meanwhile.
	if _, err := holder.Exec(t.Context(), `BEGIN; SELECT FROM filled WHERE n = 2500 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := start(ctx)
	waittest.Until(t, func() string {
		select {
		case err := <-done:
			t.Fatalf("it ended while a row was locked: %v", err)
		default:
		}
		if n := left(); n != 1 {
			return fmt.Sprintf("%d rows are left", n)
		}
		return ""
	})
	cancel()
	if err := waittest.Receive(t, done, "the end of a migration that is interrupted"); err == nil {
		t.Fatal("it ended well though a row is left")
	}
	done = start(t.Context())
	if _, err := holder.Exec(t.Context(), `UPDATE filled SET n = 7 WHERE n = 2500; COMMIT`); err != nil { // the row moves
		t.Fatal(err)
	}
	if err := waittest.Receive(t, done, "the end of the migration"); err != nil {
		t.Fatal(err)
	}
	var right, policies int
	if err := admin.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM filled WHERE twice = 2 * n), (SELECT count(*) FROM pg_policy WHERE polname = 'backfill')`).
		Scan(&right, &policies); err != nil {
		t.Fatal(err)
	}
	if right != 5000 || policies != 0 {
		t.Errorf("%d of 5000 rows are right; %d policies are left", right, policies)
	}
	if _, err := m.db.ExecContext(t.Context(), `CALL sluice_backfill('vectors_256', 'version_id = version_id', 'false')`); err == nil || !strings.Contains(err.Error(), "name each of its partitions") {
		t.Errorf("of a table with partitions: %v", err)
	}
}

func databaseOf(t *testing.T, url string) string {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return config.Database
}
