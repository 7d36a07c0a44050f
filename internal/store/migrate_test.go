package store_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/migrations"
	"github.com/sluice-rag/sluice/schema"
)

func TestMigrateBySeveralProcessesAtOnce(t *testing.T) {
	ctx := t.Context()
	url := emptyDatabase(t)
	other := emptyDatabase(t) // roles belong to the server: another database's migration finds them
	if _, err := store.Open(ctx, localtest.ProgramURL(t, url), store.Options{}); !errors.Is(err, schema.ErrUnavailable) || !strings.Contains(err.Error(), "sluice migrate") {
		t.Fatalf("open before migration: %v", err)
	}
	var wg sync.WaitGroup
	errs := make([]error, 12)
	for i := range errs {
		wg.Go(func() {
			owner := map[bool]string{true: url, false: other}[i < 8]
			errs[i] = store.Migrate(ctx, owner, localtest.ProgramURL(t, owner), localtest.VectorURL(t, owner))
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	s := open(t, localtest.ProgramURL(t, url), store.Options{})
	if err := s.CheckSchema(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestCheckSchemaSaysWhatToDo(t *testing.T) {
	ctx := t.Context()
	url := localtest.Database(t)
	s := open(t, url, store.Options{})
	owner := connect(t, localtest.OwnerURL(t, url))
	defer owner.Close(context.Background()) //nolint:errcheck // a test's
	for _, c := range []struct{ change, message string }{
		{`UPDATE goose_db_version SET is_applied = false WHERE version_id = 4`, "run sluice migrate"},
		{`UPDATE goose_db_version SET is_applied = true`, ""},
		{`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99998, true)`, ""}, // a newer, compatible one
		{`SELECT sluice_least_compatible(200)`, ""},
		{`SELECT sluice_least_compatible(99998)`, "upgrade this program"},
		{`DELETE FROM schema_compatibility WHERE migration = 99998`, ""},
		{`DROP TABLE goose_db_version`, "run sluice migrate"},
	} {
		if _, err := owner.Exec(ctx, c.change); err != nil {
			t.Fatal(err)
		}
		err := s.CheckSchema(ctx)
		if c.message == "" && err == nil {
			continue
		}
		if c.message == "" || !errors.Is(err, schema.ErrUnavailable) || !strings.Contains(err.Error(), c.message) {
			t.Errorf("after %s: %v", c.change, err)
		}
	}
}

// downTo migrates a database down to a migration.
func downTo(t *testing.T, owner string, version int64) {
	t.Helper()
	config, err := pgx.ParseConfig(owner)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close() //nolint:errcheck // a test's
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.DownTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
}

func TestMigrationsGoDownAndUpAgain(t *testing.T) {
	url := localtest.Database(t)
	owner := localtest.OwnerURL(t, url)
	downTo(t, owner, 0)
	if err := store.Migrate(t.Context(), owner, url, localtest.VectorURL(t, url)); err != nil {
		t.Fatal(err)
	}
	if err := open(t, url, store.Options{}).CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestKeysGoDownWithTheirScopes: a key keeps the scopes that the version before knows, and ends if
// it had no other.
func TestKeysGoDownWithTheirScopes(t *testing.T) {
	url := localtest.Database(t)
	f := fixture{All: open(t, url, store.Options{})}
	admin, collection := f.tenant(t, "keys")
	for name, scopes := range map[string][]schema.Scope{
		"both": {schema.ScopeCurate, schema.ScopeQuery}, "curator": {schema.ScopeCurate}, "reader of a collection": nil,
	} {
		key := sealed(name)
		key.Scopes = scopes
		if scopes == nil {
			key.Collections = []schema.CollectionScopes{{Collection: collection, Scopes: []schema.Scope{schema.ScopeQuery}}}
		}
		if _, err := f.CreateKey(t.Context(), admin, admin.Tenant, key); err != nil {
			t.Fatal(err)
		}
	}
	owner := localtest.OwnerURL(t, url)
	downTo(t, owner, 223)
	conn := connect(t, owner)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	if _, err := conn.Exec(t.Context(), `SELECT set_config('sluice.tenant', $1, false)`, admin.Tenant.String()); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := conn.QueryRow(t.Context(), `
		SELECT string_agg(name || ' ' || scopes::text || CASE WHEN revoked_at IS NULL THEN '' ELSE ' ended' END, '; ' ORDER BY name)
		FROM api_keys WHERE name <> 'admin'`).Scan(&got); err != nil {
		t.Fatal(err)
	}
	if want := "both {query}; curator {query} ended; reader of a collection {query} ended"; got != want {
		t.Errorf("the keys are %s, want %s", got, want)
	}
}

// TestAProgramWaitsDuringAMigration: it waits while the database has no schema, knows no such
// login, or misses a migration.
func TestAProgramWaitsDuringAMigration(t *testing.T) {
	url := emptyDatabase(t)
	program := localtest.ProgramURL(t, url)
	output, ended := make(chan string, 100), make(chan error, 1)
	go func() {
		ended <- store.AwaitSchema(t.Context(), program, store.Options{MaxConns: 1}, func(err error) { output <- err.Error() })
	}()
	if first := waittest.Receive(t, output, "what is waited for"); !strings.Contains(first, "sluice migrate") && !strings.Contains(first, "authentication") {
		t.Errorf("it waits for %s", first)
	}
	if err := store.Migrate(t.Context(), url, program, localtest.VectorURL(t, url)); err != nil {
		t.Fatal(err)
	}
	if err := waittest.Receive(t, ended, "the end of waiting"); err != nil {
		t.Fatal(err)
	}
	owner := connect(t, url)
	defer owner.Close(context.Background()) //nolint:errcheck // a test's
	if _, err := owner.Exec(t.Context(), `DELETE FROM goose_db_version WHERE version_id = (SELECT max(version_id) FROM goose_db_version)`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := store.AwaitSchema(ctx, program, store.Options{MaxConns: 1}, func(err error) {
		output <- err.Error()
		cancel()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("without its last migration: %v", err)
	}
	for len(output) > 1 {
		<-output
	}
	if last := waittest.Receive(t, output, "what is waited for"); !strings.Contains(last, "lacks migration") {
		t.Errorf("without its last migration it waits for %s", last)
	}
	if err := store.AwaitSchema(t.Context(), "postgres://%zz", store.Options{}, func(err error) { t.Error(err) }); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("a URL that is none: %v", err)
	}
}
