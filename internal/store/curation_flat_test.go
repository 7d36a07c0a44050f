package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/curate/due"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/schema"
)

// longLane is the lane of statements that fill tables on a busy machine.
const longLane = store.Lane(time.Hour)

// backlog fills a collection with live versions that are in no cluster; the first of them have
// sections. All have entries in the lexical index.
func (f *fixture) backlog(t *testing.T, collection uuid.UUID, versions int) {
	t.Helper()
	const withSections = 2*due.ClusteredVersions + 100
	err := f.In(longLane).AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		for _, sql := range []string{
			`INSERT INTO documents (tenant_id, id, collection_id, external_id, live_version_id, last_version_id)
			 SELECT $1, d.id, $2, 'folder' || d.n % 100 || '/' || d.n, d.id, d.id FROM (SELECT gen_random_uuid() AS id, n FROM generate_series(1, $3::int) n) d`,
			`INSERT INTO versions (tenant_id, id, document_id, collection_id, number, state, sha256, bytes, fingerprint, section_count, passage_count)
			 SELECT $1, id, id, $2, 1, 'ready', 'x', 1, 'x', 1, 1 FROM documents WHERE tenant_id = $1 AND collection_id = $2 AND $3::int > 0`,
			`INSERT INTO lexical_entries (tenant_id, id, collection_id, generation, version_id)
			 SELECT $1, gen_random_uuid(), $2, 1, id FROM versions WHERE tenant_id = $1 AND collection_id = $2 AND $3::int > 0`,
			`INSERT INTO sections (tenant_id, id, version_id, document_id, collection_id, ordinal, body, tokens)
			 SELECT $1, gen_random_uuid(), id, document_id, $2, 0, 'words', 300
			 FROM (SELECT * FROM versions WHERE tenant_id = $1 AND collection_id = $2 ORDER BY id LIMIT least($3::int, ` + fmt.Sprint(withSections) + `)) v`,
		} {
			if _, err := tx.Exec(ctx, sql, f.a.Tenant, collection, versions); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

const buffersSQL = `
SELECT (SELECT sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0)
               + coalesce(toast_blks_read + toast_blks_hit, 0) + coalesce(tidx_blks_read + tidx_blks_hit, 0)) FROM pg_statio_user_tables)::bigint`

// buffers counts the pages of tables and indexes that fn reads through a store of its own.
func (f *fixture) buffers(t *testing.T, fn func(s stores.All)) int64 {
	t.Helper()
	conn := connect(t, f.url)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	read := func() (n int64) {
		if err := conn.QueryRow(t.Context(), buffersSQL).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := read()
	s := open(t, f.url, store.Options{MaxConns: 1, Name: "counted", Lane: longLane})
	fn(s)
	s.Close() // a backend reports its counts when it exits
	for running := true; running; {
		if err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'counted')`).Scan(&running); err != nil {
			t.Fatal(err)
		}
	}
	return read() - before
}

// TestCurationReadsNoMoreAsItsBacklogGrows: one chunk of clustering, a call that finds nothing to
// do, and a search for missing index entries that finds none read no more pages with ten times as
// many versions.
func TestCurationReadsNoMoreAsItsBacklogGrows(t *testing.T) {
	f := setUp(t, store.Options{})
	filling := &fixture{All: stores.Of(f.In(longLane))}
	admin := adminOf(t, f.url)
	for _, table := range []string{"versions", "documents", "lexical_entries", "sections", "cluster_members"} {
		execute(t, admin, `ALTER TABLE `+table+` SET (autovacuum_enabled = false)`) // autovacuum reads, too
	}
	sizes := []int{10_000, 50_000, 100_000}
	collections := map[int]uuid.UUID{}
	for _, size := range sizes {
		c, err := f.CreateCollection(t.Context(), f.a, schema.NewCollection{Name: fmt.Sprint(size)})
		if err != nil {
			t.Fatal(err)
		}
		collections[size] = c.ID
		f.backlog(t, c.ID, size)
	}
	flat := func(what string, read func(s stores.All, size int, collection uuid.UUID)) {
		t.Helper()
		var first int64
		for i, size := range sizes {
			n := f.buffers(t, func(s stores.All) { read(s, size, collections[size]) })
			t.Logf("%s, %d versions: %d pages", what, size, n)
			if i == 0 {
				first = n
			} else if n > first+first/3+20 {
				// The indexes contain all sizes, so they have one height. In a small collection
				// more of the documents next to each other in a folder are in one chunk.
				t.Errorf("%s reads %d pages with %d versions, and %d with %d", what, n, size, first, sizes[0])
			}
		}
	}
	chunk := func(s stores.All, size int, collection uuid.UUID) {
		done, more, err := s.ClusterChanged(t.Context(), f.a.Tenant, collection)
		if done != due.ClusteredVersions || !more || err != nil {
			t.Fatalf("of %d, %d were done, more: %t, %v", size, done, more, err)
		}
	}
	backfill := func(s stores.All, _ int, collection uuid.UUID) {
		if done, left, err := s.BackfillLexical(t.Context(), f.a.Tenant, collection, 256); done != 0 || left != 0 || err != nil {
			t.Fatalf("%d indexed, %d left, %v", done, left, err)
		}
	}
	flat("the first chunk", chunk)
	flat("the second chunk", chunk)
	for _, size := range sizes {
		backfill(filling.All, size, collections[size]) // finds that all have entries
	}
	flat("a look for gaps", backfill)
	execute(t, admin, `ANALYZE`)
	flat("a chunk with statistics", chunk)

	execAs(t, filling, f.a, `INSERT INTO cluster_members (tenant_id, collection_id, generation, section_id, version_id, section, cluster_id, tokens, epoch)
		SELECT tenant_id, collection_id, 1, gen_random_uuid(), id, 0, id, 1, 1 FROM versions WHERE NOT curated`)
	execAs(t, filling, f.a, `UPDATE clusterings c SET changed = 1, members = (SELECT count(*) FROM cluster_members m WHERE m.collection_id = c.collection_id)`)
	execAs(t, filling, f.a, `UPDATE versions SET curated = true`)
	execute(t, admin, `VACUUM versions`)
	flat("a call with nothing to do", func(s stores.All, _ int, collection uuid.UUID) {
		if done, more, err := s.ClusterChanged(t.Context(), f.a.Tenant, collection); done != 0 || more || err != nil {
			t.Fatalf("%d done, more: %t, %v", done, more, err)
		}
	})
}
