//go:build cgo

package apiserver_test

import (
	"context"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// Sizes at which a collection is measured, in documents.
const smallCollection, largeCollection = 2_000, 20_000

// allowedGrowth has the statements that may grow, by a part of their text, with the reason.
var allowedGrowth = map[string]string{
	"position(lower(": "a search for a part of a name goes through all names of the collection",
	"FROM versions\nWHERE state = 'failed' AND finished_at >= now() - interval '24 hours'": "the failures of a day are counted, for operators",
	"interval '59 minutes'":                           "what an hour ended is counted, for operators",
	"finished_at >= now() - interval '1 hour'":        "what tenants did in an hour is counted, for operators",
	"FROM webhook_deliveries WHERE state = 'waiting'": "no vacuum has removed the rows that were delivered",
	"nearest AS MATERIALIZED":                         "the exact scan of a collection's vectors",
	"SELECT d.live_version_id FROM documents d\nWHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.deleted_at IS NULL AND d.live_version_id IS NOT NULL\n": "a filter names all versions of the collection that match it",
	"DELETE FROM slow_queries WHERE tenant_id = $1 AND id IN (": "the slow searches and questions of a tenant are ranked, of which 200 of a kind are kept; how many there are is up to the machine",
	"INSERT INTO reparses":                  "the documents of a collection that is parsed again are counted, to tell how far it is",
	"FROM generations g LEFT JOIN spaces s": "the documents of a collection that is rebuilt are counted, to tell how far it is",
	"sluice_raise_lexical_revision(":        "what a function's statements touch counts by itself; its call counts what reading the catalog takes, too",
	"FROM outbox":                           "no vacuum has removed the rows that were relayed",
	"INSERT INTO lexical_segments":          "a segment is as large as what it is of; a merge writes what several were of",
}

// TestStatementsDontGrowWithTheirTables: with the statistics of empty tables and generic plans, no
// statement of any operation that the API describes, nor of answering and of ingestion, touches
// more buffers in a large collection than in a small one. The server logs every statement,
// including those of triggers and constraints. Searches only find the postings of documents that
// the test ingests: documents loaded in bulk have none.
func TestStatementsDontGrowWithTheirTables(t *testing.T) {
	checkGrowth(t, newGrowthTest(t, false))
}

// TestStatementsOfANewTenantDontGrow is the same with the statistics of another tenant of the size
// of the large collection, and with the plans that programs use. The statistics list all tenants,
// so the planner assumes that no rows belong to any other.
func TestStatementsOfANewTenantDontGrow(t *testing.T) {
	checkGrowth(t, newGrowthTest(t, true))
}

func checkGrowth(t *testing.T, g *growthTest) {
	t.Helper()
	g.grow(1, smallCollection)
	small := g.measure("small")
	g.grow(smallCollection+1, largeCollection)
	large := g.measure("large")
	if len(large) < 300 {
		t.Errorf("only %d statements were seen", len(large))
	}
	for part := range allowedGrowth {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(large)), func(sql string) bool { return strings.Contains(sql, part) }) {
			t.Errorf("no statement has %q any more", part)
		}
	}
	detected := false
	for _, sql := range slices.Sorted(maps.Keys(large)) {
		before, after := small[sql], large[sql]
		if before.times == 0 || after.mean() <= after.maxBuffers(before.mean()) {
			continue
		}
		if sql == growingSQL {
			detected = true
			continue
		}
		if slices.ContainsFunc(slices.Collect(maps.Keys(allowedGrowth)), func(part string) bool { return strings.Contains(sql, part) }) {
			continue
		}
		t.Errorf("%.0f buffers at %d documents, %.0f at %d (of %d and %d runs):\n%s\n%s\nat %d:\n%s", before.mean(), smallCollection,
			after.mean(), largeCollection, before.times, after.times, strings.TrimSpace(sql), after.plan, smallCollection, before.plan)
	}
	if !detected {
		t.Error("a statement that grows on purpose was not noticed")
	}
}

// growingSQL is a statement that grows, to check that the test detects it.
const growingSQL = `SELECT count(body) FROM sections`

// growthTest is an API on a database of its own, without planner statistics or with those of
// another tenant.
type growthTest struct {
	*world
	postgres   *local.Postgres
	log        string
	read       int64
	collection uuid.UUID
	model      *modelclient.Client
}

func newGrowthTest(t *testing.T, others bool) *growthTest {
	t.Helper()
	dir := localtest.Dir(t)
	pg, err := local.StartPostgres(t.Context(), local.PostgresOptions{Dir: dir, Throwaway: true, Settings: map[string]string{
		"autovacuum": "off", "session_preload_libraries": "auto_explain",
		"auto_explain.log_analyze": "on", "auto_explain.log_buffers": "on", "auto_explain.log_timing": "off",
		"auto_explain.log_format": "json", "auto_explain.log_nested_statements": "on", "auto_explain.log_min_duration": "-1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	owner := pg.OwnerURL(local.Database)
	if err := store.Migrate(t.Context(), owner, pg.URL(), ""); err != nil {
		t.Fatal(err)
	}
	g := &growthTest{postgres: pg, log: filepath.Join(dir, "server.log")}
	url := pg.URL()
	if others {
		g.admin(t, `ALTER ROLE postgres SET session_replication_role = replica`) // no foreign keys
		g.growOf(t, uuid.New(), uuid.New(), smallCollection+largeCollection+1, smallCollection+2*largeCollection)
		g.admin(t, `ALTER ROLE postgres RESET session_replication_role`)
	} else {
		url += "&plan_cache_mode=force_generic_plan"
	}
	g.admin(t, `ANALYZE`)
	g.admin(t, `ALTER ROLE `+local.Program+` SET auto_explain.log_min_duration = 0`)
	g.world = newWorldAt(t, url, store.Options{Lane: store.Batch, KeepSuperseded: -1, MaxConns: growthSessions})
	var made schema.Collection
	g.post("/v1/collections", map[string]any{"name": "papers"}, "").want(http.StatusCreated, &made)
	g.collection = made.ID
	g.startParts()
	g.write("first") // gives the collection its space, and its index a segment
	g.curateAll()
	return g
}

func (g *growthTest) admin(t *testing.T, sql string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), g.postgres.AdminURL(local.Database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// growSQL creates documents $3 to $4, ready and curated, except for the first ten of all, which
// failed. Their ids are in the order of their creation, as always.
var growSQL = []string{
	`CREATE OR REPLACE FUNCTION pg_temp.named(kind text, n int) RETURNS uuid LANGUAGE sql IMMUTABLE AS
	 $$ SELECT (lpad(to_hex(1700000000000 + n), 12, '0') || '7' || substr(md5(kind || n), 1, 3) || '8' || substr(md5(kind || n), 5, 15))::uuid $$`,
	`INSERT INTO blobs (tenant_id, sha256, bytes) SELECT $1, sha256(n::text::bytea), length(n::text) FROM generate_series($3::int, $4::int) n WHERE $2::uuid IS NOT NULL`,
	`INSERT INTO blob_chunks (tenant_id, sha256, ordinal, data) SELECT $1, sha256(n::text::bytea), 0, n::text::bytea FROM generate_series($3::int, $4::int) n WHERE $2::uuid IS NOT NULL`,
	`INSERT INTO documents (tenant_id, id, collection_id, external_id, live_version_id, last_version_id, last_number)
	 SELECT $1, pg_temp.named('d', n), $2, 'folder/document ' || md5(n::text), CASE WHEN n > 10 THEN pg_temp.named('v', n) END, pg_temp.named('v', n), 1
	 FROM generate_series($3::int, $4::int) n`,
	`INSERT INTO versions (tenant_id, id, document_id, collection_id, number, state, reason_code, reason, title, media_type, sha256, bytes, fingerprint,
	     section_count, passage_count, curated, finished_at)
	 SELECT $1, pg_temp.named('v', n), pg_temp.named('d', n), $2, 1, CASE WHEN n > 10 THEN 'ready' ELSE 'failed' END,
	     CASE WHEN n <= 10 THEN 'broken' END, CASE WHEN n <= 10 THEN 'no text' END, 'Title ' || n, 'text/plain', sha256(n::text::bytea), 100 + n % 977,
	     n::text, 1, 1, true, now()
	 FROM generate_series($3::int, $4::int) n`,
	`INSERT INTO version_labels (tenant_id, version_id, label)
	 SELECT $1, pg_temp.named('v', n), 'staff' FROM generate_series($3::int, $4::int) n WHERE n % 4 = 0 AND $2::uuid IS NOT NULL`,
	`INSERT INTO version_metadata (tenant_id, version_id, key, ordinal, text_value, int_value)
	 SELECT $1, pg_temp.named('v', n), 'year', 0, (n % 50)::text, n % 50 FROM generate_series($3::int, $4::int) n WHERE $2::uuid IS NOT NULL`,
	`INSERT INTO sections (tenant_id, id, version_id, document_id, collection_id, ordinal, body, tokens)
	 SELECT $1, pg_temp.named('s', n), pg_temp.named('v', n), pg_temp.named('d', n), $2, 0, 'words of ' || n, 3 FROM generate_series($3::int, $4::int) n`,
	`INSERT INTO passages (tenant_id, id, section_id, version_id, collection_id, ordinal, start_byte, end_byte, tokens)
	 SELECT $1, pg_temp.named('p', n), pg_temp.named('s', n), pg_temp.named('v', n), $2, 0, 0, 5, 3 FROM generate_series($3::int, $4::int) n`,
	`INSERT INTO vectors_256 (tenant_id, collection_id, space_id, passage_id, version_id, embedding)
	 SELECT $1, $2, coalesce((SELECT space_id FROM collections WHERE id = $2), 1), pg_temp.named('p', n), pg_temp.named('v', n),
	     array_fill(0.0625, ARRAY[256])::real[]::halfvec
	 FROM generate_series($3::int, $4::int) n`,
}

// grow loads documents in bulk, without the store.
func (g *growthTest) grow(from, to int) {
	g.t.Helper()
	g.growOf(g.t, g.principal().Tenant, g.collection, from, to)
}

// growOf loads documents of a tenant that need not exist.
func (g *growthTest) growOf(t *testing.T, tenant, collection uuid.UUID, from, to int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), g.postgres.AdminURL(local.Database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	for i, sql := range growSQL {
		args := []any{tenant, collection, from, to}
		if i == 0 {
			args = nil
		}
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func (g *growthTest) principal() schema.Principal { return g.world.admin }

// document returns the id of a document in a state.
func (g *growthTest) document(state string, at int) (document uuid.UUID) {
	g.t.Helper()
	conn, err := pgx.Connect(g.t.Context(), g.postgres.AdminURL(local.Database)) // its statements are not measured
	if err != nil {
		g.t.Fatal(err)
	}
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	if err := conn.QueryRow(g.t.Context(), `SELECT document_id FROM versions WHERE state = $1 ORDER BY id OFFSET $2 LIMIT 1`, state, at).Scan(&document); err != nil {
		g.t.Fatal(err)
	}
	return document
}

// measure calls everything and returns the buffers that its statements touched.
func (g *growthTest) measure(name string) map[string]statementUse {
	g.t.Helper()
	document := g.document("ready", 500)
	section := scalar[uuid.UUID](g.world, `SELECT id FROM sections WHERE document_id = $1`, document)
	// Sessions that began when the tables were smaller might keep plans for those sizes. The store
	// avoids that with custom plans; here the sessions are ended.
	g.admin(g.t, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '`+local.Program+`'`)
	g.explained() // discard earlier statements
	g.callAll(name, document, section)
	g.list()
	g.change(name)
	g.write(name)
	g.curateAll()
	g.storeSlowSearch(g.principal().Tenant, "words of "+name)
	scalar[int](g.world, growingSQL)
	if _, err := g.store.Sections(g.t.Context(), g.principal(), []uuid.UUID{section}); err != nil {
		g.t.Fatal(err)
	}
	return g.explained()
}
