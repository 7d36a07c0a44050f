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
	"github.com/sluice-rag/sluice/migrations"
	"github.com/sluice-rag/sluice/schema"
)

func TestMigrateBySeveralProcessesAtOnce(t *testing.T) {
	ctx := t.Context()
	url := emptyDatabase(t)
	other := emptyDatabase(t) // roles are the server's: another database's migration runs into them
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
	for _, c := range []struct{ change, says string }{
		{`UPDATE goose_db_version SET is_applied = false WHERE version_id = 4`, "run sluice migrate"},
		{`UPDATE goose_db_version SET is_applied = true`, ""},
		{`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99998, true)`, ""}, // of a newer version, which lets this one go on
		{`SELECT sluice_least_compatible(200)`, ""},
		{`SELECT sluice_least_compatible(99998)`, "upgrade this program"},
		{`DELETE FROM schema_compatibility WHERE migration = 99998`, ""},
		{`DROP TABLE goose_db_version`, "run sluice migrate"},
	} {
		if _, err := owner.Exec(ctx, c.change); err != nil {
			t.Fatal(err)
		}
		err := s.CheckSchema(ctx)
		if c.says == "" && err == nil {
			continue
		}
		if c.says == "" || !errors.Is(err, schema.ErrUnavailable) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("after %s: %v", c.change, err)
		}
	}
}

func TestMigrationsGoDownAndUpAgain(t *testing.T) {
	url := localtest.Database(t)
	owner := localtest.OwnerURL(t, url)
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
	if _, err := provider.DownTo(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if err := store.Migrate(t.Context(), owner, url, localtest.VectorURL(t, url)); err != nil {
		t.Fatal(err)
	}
	if err := open(t, url, store.Options{}).CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}
