package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/migrations"
	"github.com/sluice-rag/sluice/schema"
)

// TestLoginsOfProgramsOwnNothing: with a program's credentials one cannot circumvent the separation
// of tenants, nor change the audit log.
func TestLoginsOfProgramsOwnNothing(t *testing.T) {
	f := setUp(t, store.Options{})
	f.upload(t, f.a, f.collection, text("a.txt", "of a"))
	roles := map[string][]string{
		f.url:                         {"", "sluice_app", "sluice_auth", "sluice_system"},
		localtest.VectorURL(t, f.url): {"", "sluice_vectors"},
	}
	for at, roles := range roles {
		conn := connect(t, at)
		defer conn.Close(context.Background()) //nolint:errcheck // a test's
		login := conn.Config().User
		for _, role := range roles {
			if role != "" {
				if _, err := conn.Exec(t.Context(), `SET ROLE `+role); err != nil {
					t.Fatalf("%s: %v", login, err)
				}
			}
			for _, sql := range []string{
				`ALTER TABLE documents NO FORCE ROW LEVEL SECURITY`,
				`ALTER TABLE documents DISABLE ROW LEVEL SECURITY`,
				`CREATE POLICY all_of_it ON documents USING (true)`,
				`ALTER TABLE audit DISABLE TRIGGER append_only`,
				`DELETE FROM audit`, `TRUNCATE audit`, `DROP TABLE audit`,
				`CREATE TABLE public.mine (id int)`, `CREATE SCHEMA mine`,
				`CREATE ROLE mine`, `ALTER ROLE ` + login + ` BYPASSRLS`, `ALTER ROLE ` + login + ` CREATEROLE`,
				`SET ROLE ` + local.Owner, `SET SESSION AUTHORIZATION ` + local.Owner, `GRANT ` + local.Owner + ` TO ` + login,
				`CREATE FUNCTION public.sluice_append_only() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN OLD; END'`,
				`COPY documents TO PROGRAM 'cat'`,
			} {
				_, err := conn.Exec(t.Context(), sql)
				if role == "sluice_system" && sql == `DELETE FROM audit` && err == nil {
					continue // it may delete old entries, and sees no others
				}
				var pg *pgconn.PgError
				if !errors.As(err, &pg) || pg.Code != "42501" {
					t.Errorf("login %s, role %q, %s: %v, want it refused", login, role, sql, err)
				}
			}
			if _, err := conn.Exec(t.Context(), `CREATE TEMPORARY TABLE mine (id int); DROP TABLE mine`); err != nil {
				t.Errorf("login %s, role %q may not make temporary tables: %v", login, role, err)
			}
		}
	}
	// The builder of indexes sees only partitions, and no rows of these.
	conn := connect(t, localtest.VectorURL(t, f.url))
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	for _, sql := range []string{`SELECT FROM documents`, `SELECT FROM api_keys`, `SELECT FROM vectors_256`, `SET ROLE sluice_app`, `SELECT sluice_analyze_grown()`} {
		if _, err := conn.Exec(t.Context(), `SET ROLE sluice_vectors`); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), sql); err == nil {
			t.Errorf("the builder of indexes may %s", sql)
		}
	}
	// Functions that run as the owner check their arguments.
	for _, sql := range []string{`SELECT sluice_attach_vectors(gen_random_uuid())`, `SELECT sluice_drop_vectors(gen_random_uuid())`} {
		var pg *pgconn.PgError
		if _, err := conn.Exec(t.Context(), sql); !errors.As(err, &pg) || pg.Code != "P0002" {
			t.Errorf("%s: %v, want it refused", sql, err)
		}
	}
}

// TestOpenRefusesLoginsWithPowers: a program does not run as the owner or as a superuser, and the
// error says what to do.
func TestOpenRefusesLoginsWithPowers(t *testing.T) {
	f := setUp(t, store.Options{})
	for _, at := range []string{f.owner, adminOf(t, f.url)} {
		_, err := store.Open(t.Context(), at, store.Options{})
		if !errors.Is(err, schema.ErrInvalid) || !strings.Contains(err.Error(), "SLUICE_DATABASE_OWNER_URL") || !strings.Contains(err.Error(), "sluice migrate") {
			t.Errorf("%v", err)
		}
	}
	if err := store.Migrate(t.Context(), f.owner, f.owner, ""); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("migrate with one login for everything: %v", err)
	}
	if err := store.Migrate(t.Context(), f.owner, adminOf(t, f.url), ""); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("migrate with a superuser for programs: %v", err)
	}
}

// as returns a database's URL with another login.
func as(t testing.TB, at, login, password string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(login, password)
	return u.String()
}

// TestInstallationsOfOneLoginAreCarriedOver: a database that a single login created, owned and used
// works with separate logins of programs after a migration as that login.
func TestInstallationsOfOneLoginAreCarriedOver(t *testing.T) {
	program, builder := fmt.Sprintf("carried_%x", schema.NewID()), fmt.Sprintf("builder_%x", schema.NewID())
	pg := localtest.Postgres(t)
	t.Cleanup(func() {
		execute(t, pg.AdminURL("postgres"), `DROP ROLE IF EXISTS `+program+`; DROP ROLE IF EXISTS `+builder)
	})
	owner := emptyDatabase(t)
	config, err := pgx.ParseConfig(owner)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close() //nolint:errcheck // a test's
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithAllowOutofOrder(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), 94); err != nil {
		t.Fatal(err)
	}
	// What the older version left: two tenants, a document each, and a collection
	// with a partition of its own.
	admin := pg.AdminURL(config.Database)
	ours, theirs, collection, shard := schema.NewID(), schema.NewID(), schema.NewID(), schema.NewID()
	conn := connect(t, admin)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	for _, q := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO tenants (id, name) VALUES ($1, 'ours'), ($2, 'theirs')`, []any{ours, theirs}},
		{`INSERT INTO spaces (name, dimension) VALUES ($1, 256)`, []any{space}},
		{`INSERT INTO collections (tenant_id, id, name, space_id) SELECT $1, $2, 'papers', id FROM spaces`, []any{ours, collection}},
		{`INSERT INTO documents (tenant_id, id, collection_id, external_id) VALUES ($1, gen_random_uuid(), $2, 'old.txt')`, []any{ours, collection}},
		{`INSERT INTO vector_shards (tenant_id, id, collection_id, generation, dimension, indexed) VALUES ($1, $2, $3, 1, 256, 0)`, []any{ours, shard, collection}},
	} {
		if _, err := conn.Exec(t.Context(), q.sql, q.args...); err != nil {
			t.Fatalf("%s: %v", q.sql, err)
		}
	}
	partition := fmt.Sprintf("vectors_256_%x", shard[:])
	execute(t, owner, `CREATE TABLE `+partition+` (LIKE vectors_256 INCLUDING DEFAULTS INCLUDING STORAGE);
		ALTER TABLE `+partition+` ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
		ALTER TABLE vectors_256 ATTACH PARTITION `+partition+` FOR VALUES IN ('`+shard.String()+`');
		CREATE INDEX `+partition+`_hnsw ON `+partition+` USING hnsw (embedding halfvec_ip_ops)`)

	for _, password := range []string{"one", "another 'password'"} { // changing the URL changes the password
		programURL, vectorURL := as(t, owner, program, password), as(t, owner, builder, password)
		if err := store.Migrate(t.Context(), owner, programURL, vectorURL); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(t.Context(), programURL, store.Options{OwnVectorsAbove: 20, KeepSuperseded: -1, VectorURL: vectorURL})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.CheckSchema(t.Context()); err != nil {
			t.Error(err)
		}
		s.Close()
	}
	f := &fixture{url: as(t, owner, program, "another 'password'"), owner: owner, collection: collection,
		a: schema.Principal{Tenant: ours, Key: schema.NewID(), Name: "admin", Scopes: []schema.Scope{schema.ScopeAdmin}}}
	opened, err := store.Open(t.Context(), f.url, store.Options{OwnVectorsAbove: 20, KeepSuperseded: -1, VectorURL: as(t, owner, builder, "another 'password'")})
	if err != nil {
		t.Fatal(err)
	}
	f.All = stores.Of(opened)
	defer f.Close()
	f.upload(t, f.a, collection, text("new.txt", "new"))
	if n := one[int](t, f, f.a, `SELECT count(*) FROM documents`); n != 2 {
		t.Errorf("%d documents, want the old and the new one", n)
	}
	// The old partition gets more vectors than it had, is replaced by one with a new index, and is
	// dropped.
	r := rand.New(rand.NewPCG(61, 62))
	d := &insertedDocument{}
	for range 60 {
		d.vectors = append(d.vectors, unit(r))
	}
	f.plant(t, f.a, collection, []*insertedDocument{d})
	f.tend(t, f.a, collection)
	hits, err := f.Nearest(t.Context(), dense.NearestQuery{Principal: f.a, Collection: collection, Space: space, Vector: d.vectors[7], K: 100})
	if err != nil || len(hits) == 0 || hits[0].Passage != d.passages[7] {
		t.Errorf("%d hits, %v", len(hits), err)
	}
	if indexed := one[int64](t, f, f.a, `SELECT sum(indexed)::bigint FROM vector_shards WHERE retired_at IS NULL`); indexed != 60 {
		t.Errorf("the index has %d vectors, want 60", indexed)
	}
	if err := f.DeleteCollection(t.Context(), f.a, collection); err != nil {
		t.Fatal(err)
	}
	f.tend(t, f.a, collection)
	f.purgeAll(t)
	if n := one[int](t, f, f.a, `SELECT count(*) FROM vector_shards`); n != 0 {
		t.Errorf("%d shards are left", n)
	}
	var left uuid.NullUUID
	if err := conn.QueryRow(t.Context(), `SELECT id FROM vector_shards`).Scan(&left); !errors.Is(err, pgx.ErrNoRows) {
		t.Errorf("shard %v, %v", left, err)
	}
}

// TestTablesAreLookedAtWhenRowsCame: periodic calls check the sizes of tables only after rows were
// inserted.
func TestTablesAreLookedAtWhenRowsCame(t *testing.T) {
	f := setUp(t, store.Options{})
	admin := adminOf(t, f.url)
	execute(t, admin, `CREATE SEQUENCE public.looks; GRANT ALL ON SEQUENCE public.looks TO PUBLIC`)
	execute(t, admin, `CREATE OR REPLACE FUNCTION sluice_analyze_grown() RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
		BEGIN PERFORM nextval('public.looks'); RETURN NULL; END $$`)
	const calls = 10
	lookups := func() (n int) {
		t.Helper()
		conn := connect(t, admin)
		defer conn.Close(context.Background()) //nolint:errcheck // a test's
		count := func() (n int) {
			if err := conn.QueryRow(t.Context(), `SELECT last_value - (NOT is_called)::int FROM public.looks`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		before := count()
		for range calls {
			if err := f.AnalyzeChanged(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return count() - before
	}
	if n := lookups(); n == 0 {
		t.Error("the first call looks at no table")
	}
	// Connections report late what they inserted.
	waittest.Until(t, func() string {
		if n := lookups(); n > 0 {
			return fmt.Sprintf("%d of %d calls look at the tables though no row came", n, calls)
		}
		return ""
	})
	execAs(t, f, f.a, `INSERT INTO documents (tenant_id, id, collection_id, external_id) VALUES ($1, gen_random_uuid(), $2, 'new')`, f.a.Tenant, f.collection)
	waittest.Until(t, func() string {
		if lookups() == 0 {
			return "no call looks at the tables after a row came"
		}
		return ""
	})
}

// TestBulkWritesAreAnalysed: without autovacuum, a filled table soon has statistics, and no table
// is analysed again before it has grown fourfold.
func TestBulkWritesAreAnalysed(t *testing.T) {
	f := setUp(t, store.Options{})
	execute(t, adminOf(t, f.url), `ALTER TABLE documents SET (autovacuum_enabled = false)`)
	pages := func() (n int) {
		t.Helper()
		return one[int](t, f, f.a, `SELECT relpages FROM pg_class WHERE oid = 'documents'::regclass`)
	}
	add := func(n int) {
		t.Helper()
		execAs(t, f, f.a, `INSERT INTO documents (tenant_id, id, collection_id, external_id)
			SELECT $1, gen_random_uuid(), $2, gen_random_uuid()::text FROM generate_series(1, $3)`, f.a.Tenant, f.collection, n)
		if err := f.AnalyzeGrown(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	add(10)
	if n := pages(); n > 0 {
		t.Errorf("a table of 10 rows was analysed: %d pages", n)
	}
	add(5000)
	first := pages()
	if first == 0 {
		t.Error("a table of 5,000 rows was not analysed")
	}
	add(10000)
	if n := pages(); n != first {
		t.Errorf("analysed before it had grown fourfold: %d pages, then %d", first, n)
	}
	add(10000)
	if n := pages(); n <= first {
		t.Errorf("not analysed after it had grown fourfold: %d pages, then %d", first, n)
	}
}
