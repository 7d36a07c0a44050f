package ingestworker

// A store that an older build filled: with text, passages and vectors, and without an index,
// clusters or generations.

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/migrations"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// olderMigration is the last migration of the older build.
const olderMigration = 32

// oldSQL are rows as that build wrote them: documents of two sections with two
// passages each.
const oldSQL = `
WITH t AS (INSERT INTO tenants (id, name) VALUES ($1, 'old') RETURNING id),
s AS (INSERT INTO spaces (name, dimension) VALUES ('scripted', 256) RETURNING id),
c AS (INSERT INTO collections (tenant_id, id, name, space_id) SELECT t.id, $2, 'docs', s.id FROM t, s RETURNING id),
n AS MATERIALIZED (SELECT i, gen_random_uuid() AS document, gen_random_uuid() AS version FROM generate_series(1, 30) i),
d AS (INSERT INTO documents (tenant_id, id, collection_id, external_id, live_version_id, last_version_id, last_number)
      SELECT $1, document, $2, 'old-' || i, version, version, 1 FROM n),
v AS (INSERT INTO versions (tenant_id, id, document_id, collection_id, number, state, title, sha256, bytes, fingerprint,
                            section_count, passage_count, finished_at)
      SELECT $1, version, document, $2, 1, 'ready', 'Title ' || i, sha256(i::text::bytea), 40, 'f', 2, 4, now() - interval '1 day' FROM n),
x AS MATERIALIZED (SELECT n.*, o, gen_random_uuid() AS section FROM n, generate_series(0, 1) o),
y AS (INSERT INTO sections (tenant_id, id, version_id, document_id, collection_id, ordinal, body, tokens)
      SELECT $1, section, version, document, $2, o, 'An elder sentence.  Some words of it.', 8 FROM x),
z AS MATERIALIZED (SELECT x.*, k, gen_random_uuid() AS passage FROM x, generate_series(0, 1) k),
p AS (INSERT INTO passages (tenant_id, id, section_id, version_id, collection_id, ordinal, start_byte, end_byte, tokens)
      SELECT $1, passage, section, version, $2, k, CASE k WHEN 0 THEN 0 ELSE 20 END, CASE k WHEN 0 THEN 20 ELSE 37 END, 4 FROM z)
INSERT INTO vectors_256 (tenant_id, collection_id, space_id, passage_id, version_id, embedding)
SELECT $1, $2, s.id, passage, version, array_fill(0.0625::real, ARRAY[256])::halfvec FROM z, s`

func TestStoreOfAnOlderBuildIsCuratedWithoutUploads(t *testing.T) {
	ctx := t.Context()
	pg := localtest.Postgres(t)
	name := "old_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	run := func(url, sql string, args ...any) {
		t.Helper()
		conn, err := pgx.Connect(context.Background(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background()) //nolint:errcheck // a connection of a test
		if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
			t.Fatalf("%.60s: %v", sql, err)
		}
	}
	run(pg.AdminURL("postgres"), "CREATE DATABASE "+name+" OWNER "+local.Owner)
	t.Cleanup(func() { run(pg.AdminURL("postgres"), "DROP DATABASE "+name+" WITH (FORCE)") })
	run(pg.AdminURL(name), "CREATE EXTENSION IF NOT EXISTS vector")
	url := pg.OwnerURL(name)
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*config)
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.FS, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(ctx, olderMigration); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	tenant, collection := schema.NewID(), schema.NewID()
	run(pg.AdminURL(name), oldSQL, tenant, collection)

	if err := store.Migrate(ctx, url, pg.ProgramURL(name), pg.VectorURL(name)); err != nil {
		t.Fatal(err)
	}
	w := newWorldOn(t, pg.ProgramURL(name))
	w.collection = collection
	w.principal = schema.Principal{Tenant: tenant, Key: schema.NewID(), Name: "test", Scopes: []schema.Scope{schema.ScopeAdmin}}
	w.settings.CurateAfter = time.Second
	w.start()
	w.curated()
	w.checkStored()
	w.checkGeneration()
	if n := w.count(`SELECT count(*) FROM clusters`); n == 0 {
		t.Error("no clusters")
	}
	index := search.NewIndex(w.store, 1<<20)
	for unit, want := range map[schema.Unit]int{schema.UnitPassage: 60, schema.UnitSection: 60, schema.UnitDocument: 30, schema.UnitCluster: 1} {
		found, err := index.SearchText(w.context(), tenant, collection, "elder", lexical.TermQuery{Unit: unit, K: 500, Settings: lexical.Defaults})
		w.ok(err)
		if len(found.Hits) < want || unit != schema.UnitCluster && len(found.Hits) != want {
			t.Errorf("%s: %d found, want %d", unit, len(found.Hits), want)
		}
	}
	vectors, space, err := w.models.Encode(ctx, wire.LaneInteractive, []string{"a question"})
	w.ok(err)
	hits, err := w.store.Nearest(w.context(), dense.NearestQuery{Principal: w.principal, Collection: collection, Space: space, Vector: vectors.Row(0), K: 500})
	w.ok(err)
	if len(hits) != 120 {
		t.Errorf("vectors: %d found, want 120", len(hits))
	}
	c, err := w.store.Collection(w.context(), w.principal, collection.String())
	w.ok(err)
	if want := (schema.Segmentation{By: schema.BySegmenter, CoarseTokens: 400, MinTokens: 24, MaxTokens: 400}); c.Segmentation != want {
		t.Errorf("the collection is cut by %+v, not by %+v as before", c.Segmentation, want)
	}
	if r := w.rebuild(schema.NewRebuild{}); r.Segmentation != c.Segmentation {
		t.Errorf("rebuilt by %+v", r.Segmentation)
	}
	if r := w.awaitRebuild(schema.GenerationLive); r.Versions != 30 {
		t.Errorf("rebuilt: %+v", r)
	}
	w.checkGeneration()
}
