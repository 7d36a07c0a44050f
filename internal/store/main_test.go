package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/schema"
)

func TestMain(m *testing.M) {
	localtest.Main(m, localtest.Need{Postgres: true, Migrate: store.Migrate})
}

// fixture is a migrated database with two tenants, each with a collection.
type fixture struct {
	stores.All
	url        string // as programs log in
	owner      string // as migrations do
	a, b       schema.Principal
	collection uuid.UUID // a's
	foreign    uuid.UUID // b's
	maxBytes   int64     // of an upload; 0: the default
}

func setUp(t testing.TB, o store.Options) *fixture {
	t.Helper()
	f := &fixture{url: localtest.Database(t)}
	f.owner = localtest.OwnerURL(t, f.url)
	f.All = open(t, f.url, o)
	f.a, f.collection = f.tenant(t, "tenant-a")
	f.b, f.foreign = f.tenant(t, "tenant-b")
	return f
}

// uploads returns the uploads as programs use them.
func (f *fixture) uploads() *documents.Uploads {
	return documents.New(f.All, documents.Options{MaxBytes: f.maxBytes})
}

func (f *fixture) Upload(ctx context.Context, p schema.Principal, collection uuid.UUID, uploads []schema.Upload) ([]schema.Uploaded, error) {
	return f.uploads().Upload(ctx, p, collection, uploads)
}

func (f *fixture) UpdateDocument(ctx context.Context, p schema.Principal, id uuid.UUID, c schema.DocumentChange) (schema.Document, error) {
	return f.uploads().UpdateDocument(ctx, p, id, c)
}

// DeleteCollection deletes a collection, and does the background work that follows.
func (f *fixture) DeleteCollection(ctx context.Context, p schema.Principal, id uuid.UUID) error {
	if err := f.All.DeleteCollection(ctx, p, id); err != nil {
		return err
	}
	return f.empty(ctx)
}

// empty empties deleted collections.
func (f *fixture) empty(ctx context.Context) error {
	for {
		if n, err := f.EmptyCollections(ctx, 100); n == 0 || err != nil {
			return err
		}
	}
}

// tenant creates a tenant with a collection, and returns a principal with all rights in it.
func (f *fixture) tenant(t testing.TB, name string) (schema.Principal, uuid.UUID) {
	t.Helper()
	created, err := f.CreateTenant(t.Context(), schema.Principal{}, schema.NewTenant{Name: name}, sealed("admin"))
	if err != nil {
		t.Fatal(err)
	}
	p := schema.Principal{Tenant: created.ID, Key: schema.NewID(), Name: "admin", Scopes: []schema.Scope{schema.ScopeAdmin}}
	c, err := f.CreateCollection(t.Context(), p, schema.NewCollection{Name: "papers"})
	if err != nil {
		t.Fatal(err)
	}
	return p, c.ID
}

var serial atomic.Int64

// throughPooler is the number of connections of the PgBouncer through which stores are opened; 0:
// none. See TestThroughPgBouncer.
var throughPooler int

func sealed(name string) schema.SealedKey {
	n := serial.Add(1)
	return schema.SealedKey{
		NewKey: schema.NewKey{Name: name, Scopes: []schema.Scope{schema.ScopeAdmin}},
		Prefix: "slu_test", Hash: fmt.Appendf(nil, "%032d", n),
	}
}

func open(t testing.TB, url string, o store.Options) stores.All {
	t.Helper()
	o.VectorURL = localtest.VectorURL(t, url)
	return openPlain(t, url, o)
}

// openPlain opens a store without the right to build vector indexes.
func openPlain(t testing.TB, url string, o store.Options) stores.All {
	t.Helper()
	if throughPooler > 0 {
		o.Pooled, o.DirectURL = true, url
		url = localtest.Pooler(t, url, throughPooler)
	}
	s, err := store.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return stores.Of(s)
}

// emptyDatabase returns the owner's URL of a database that was not migrated.
func emptyDatabase(t testing.TB) string {
	t.Helper()
	pg := localtest.Postgres(t)
	name := fmt.Sprintf("empty_%d", serial.Add(1))
	execute(t, pg.AdminURL("postgres"), "CREATE DATABASE "+name+" OWNER "+local.Owner)
	t.Cleanup(func() { execute(t, pg.AdminURL("postgres"), "DROP DATABASE "+name+" WITH (FORCE)") })
	execute(t, pg.AdminURL(name), "CREATE EXTENSION IF NOT EXISTS vector")
	return pg.OwnerURL(name)
}

func execute(t testing.TB, url, sql string) {
	t.Helper()
	conn := connect(t, url)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	if _, err := conn.Exec(context.Background(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// one scans the single row of a query that runs as p's tenant.
func one[T any](t testing.TB, f *fixture, p schema.Principal, sql string, args ...any) T {
	t.Helper()
	var out T
	err := f.AsTenant(t.Context(), p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql, args...).Scan(&out)
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return out
}

// execAs executes SQL as p's tenant.
func execAs(t testing.TB, f *fixture, p schema.Principal, sql string, args ...any) {
	t.Helper()
	err := f.AsTenant(t.Context(), p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql, args...)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// text is an upload of a document whose content is text.
func text(id, content string) schema.Upload {
	return schema.Upload{ExternalID: id, MediaType: "text/plain", FileName: id, Content: strings.NewReader(content)}
}

// upload uploads one document and returns the result.
func (f *fixture) upload(t testing.TB, p schema.Principal, collection uuid.UUID, u schema.Upload) schema.Uploaded {
	t.Helper()
	out, err := f.Upload(t.Context(), p, collection, []schema.Upload{u})
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// goLive does the last step of ingestion: it writes text for the version, and makes the version
// live in place of the previous one.
func (f *fixture) goLive(t testing.TB, p schema.Principal, document, version uuid.UUID) {
	t.Helper()
	err := f.AsTenant(t.Context(), p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		section, passage := schema.NewID(), schema.NewID()
		for _, q := range []struct {
			sql  string
			args []any
		}{
			{`INSERT INTO spaces (name, dimension) VALUES ('test', 256) ON CONFLICT DO NOTHING`, nil},
			{`INSERT INTO sections (tenant_id, id, version_id, document_id, collection_id, ordinal, body, tokens)
			  SELECT $1, $2, id, document_id, collection_id, 0, 'hello', 1 FROM versions WHERE id = $3`, []any{p.Tenant, section, version}},
			{`INSERT INTO passages (tenant_id, id, section_id, version_id, collection_id, ordinal, start_byte, end_byte, tokens)
			  SELECT $1, $2, $3, id, collection_id, 0, 0, 5, 1 FROM versions WHERE id = $4`, []any{p.Tenant, passage, section, version}},
			{`INSERT INTO vectors_256 (tenant_id, collection_id, space_id, passage_id, version_id, embedding)
			  SELECT $1, collection_id, (SELECT id FROM spaces WHERE name = 'test'), $2, id, array_fill(0.5, ARRAY[256])::real[]::halfvec
			  FROM versions WHERE id = $3`, []any{p.Tenant, passage, version}},
			{`INSERT INTO artifacts (tenant_id, version_id, attempt, stage, data) VALUES ($1, $2, 1, 'parsed', 'x')`, []any{p.Tenant, version}},
			{`UPDATE versions SET state = 'superseded' WHERE id = (SELECT live_version_id FROM documents WHERE id = $1)`, []any{document}},
			{`UPDATE versions SET state = 'ready', passage_count = 1, section_count = 1, finished_at = now() WHERE id = $1`, []any{version}},
			{`UPDATE documents SET live_version_id = $2 WHERE id = $1`, []any{document, version}},
		} {
			if _, err := tx.Exec(ctx, q.sql, q.args...); err != nil {
				return fmt.Errorf("%s: %w", q.sql, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// fail does what ingestion does with a document that it cannot read.
func (f *fixture) fail(t testing.TB, p schema.Principal, version uuid.UUID) {
	t.Helper()
	execAs(t, f, p, `UPDATE versions SET state = 'failed', reason_code = 'broken', reason = 'not a PDF', finished_at = now(), parses = 3 WHERE id = $1`, version)
}
