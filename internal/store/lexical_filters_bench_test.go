package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// insertDocuments writes n documents directly into the tables, in one segment; the document with
// number i has the metadata number = i.
func (f *fixture) insertDocuments(b *testing.B, n int) {
	b.Helper()
	r := rand.New(rand.NewPCG(71, 72))
	docs := make([]segment.VersionText, n)
	ids := make([][3]uuid.UUID, n)
	var documents, versions, entries []uuid.UUID
	for i := range docs {
		words := make([]string, 20)
		for j := range words {
			words[j] = fmt.Sprintf("w%d", r.IntN(1+r.IntN(5000)))
		}
		ids[i] = [3]uuid.UUID{schema.NewID(), schema.NewID(), schema.NewID()}
		documents, versions, entries = append(documents, ids[i][0]), append(versions, ids[i][1]), append(entries, ids[i][2])
		docs[i] = segment.VersionText{Entry: entries[i], Version: versions[i], Sections: [][][]string{{words}}}
	}
	built, err := segment.Build(schema.NewID(), docs)
	if err != nil {
		b.Fatal(err)
	}
	err = f.AsTenant(b.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(`INSERT INTO documents (tenant_id, id, collection_id, external_id, live_version_id, last_version_id)
			SELECT $1, d, $2, i::text, v, v FROM unnest($3::uuid[], $4::uuid[]) WITH ORDINALITY AS x (d, v, i)`, f.a.Tenant, f.collection, documents, versions)
		batch.Queue(`INSERT INTO versions (tenant_id, id, document_id, collection_id, number, state, title, sha256, bytes, fingerprint)
			SELECT tenant_id, live_version_id, id, collection_id, 1, 'ready', 'A title', '\x00', 1, 'f' FROM documents`)
		batch.Queue(`INSERT INTO version_metadata (tenant_id, version_id, key, ordinal, text_value, int_value)
			SELECT $1, v, 'number', 0, i - 1, i - 1 FROM unnest($2::uuid[]) WITH ORDINALITY AS x (v, i)`, f.a.Tenant, versions)
		batch.Queue(`INSERT INTO lexical_entries (tenant_id, collection_id, generation, id, version_id)
			SELECT $1, $2, 1, * FROM unnest($3::uuid[], $4::uuid[])`, f.a.Tenant, f.collection, entries, versions)
		batch.Queue(`INSERT INTO lexical_segments (tenant_id, id, collection_id, generation, header, documents, passages, bytes)
			VALUES ($1, $2, $3, 1, $4, $5, $6, $7)`, f.a.Tenant, built.ID, f.collection, built.Header, built.Documents, built.Passages, built.Bytes)
		for i, p := range built.Pages {
			var first, last []byte // null: the page belongs to the directory
			if p.First != "" || p.Last != "" {
				first, last = []byte(p.First), []byte(p.Last)
			}
			batch.Queue(`INSERT INTO lexical_pages (tenant_id, segment_id, page, first_term, last_term, data) VALUES ($1, $2, $3, $4, $5, $6)`,
				f.a.Tenant, built.ID, i, first, last, p.Data)
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		b.Fatal(err)
	}
	execute(b, f.owner, `ANALYZE`)
}

// BenchmarkFilteredSearch searches a collection of 100,000 documents with a filter that matches one
// in a hundred, and one that matches half: with cached matches, and with the versions read for each
// search.
func BenchmarkFilteredSearch(b *testing.B) {
	const documents = 100_000
	f := setUp(b, store.Options{})
	f.insertDocuments(b, documents)
	x := newIndex(f)
	query := func(i int) lexical.TermQuery {
		return lexical.TermQuery{Unit: schema.UnitPassage, Terms: []string{fmt.Sprintf("w%d", 5+i%10), fmt.Sprintf("w%d", 15+i%50), fmt.Sprintf("w%d", 65+i%100)}, K: 10, Settings: lexical.Defaults}
	}
	sql := `SELECT d.live_version_id FROM documents d
WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.deleted_at IS NULL AND d.live_version_id IS NOT NULL
  AND ` + fmt.Sprintf(store.VisibleSQL, "d.live_version_id", "$3") + `
  AND (d.live_version_id IN (SELECT m.version_id FROM version_metadata m WHERE m.tenant_id = $1 AND m.key = $4 AND (m.int_value < $5::bigint))) IS TRUE`
	for _, leaves := range []int{documents / 100, documents / 2} {
		filter := schema.Filter{where("number", schema.OpLt, fmt.Sprint(leaves))}
		args := []any{f.a.Tenant, f.collection, []string{}, "number", leaves}
		ask := func(b *testing.B, q lexical.TermQuery) {
			r, err := x.Search(b.Context(), f.a.Tenant, f.collection, q)
			if err != nil || len(r.Hits) == 0 {
				b.Fatalf("%d hits, %v", len(r.Hits), err)
			}
		}
		b.Run(fmt.Sprintf("kept/%d", leaves), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				q := query(i)
				q.Filter = filter
				ask(b, q)
			}
			b.ReportMetric(float64(x.Stats().Filters.Bytes), "kept-bytes")
		})
		b.Run(fmt.Sprintf("read/%d", leaves), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				q := query(i)
				err := f.AsTenant(b.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
					ids, err := store.IDs(tx.Query(ctx, sql, args...))
					q.Versions = lexical.VersionsOf(ids)
					return err
				})
				if err != nil || q.Versions.Len() != leaves {
					b.Fatalf("%d versions, %v", q.Versions.Len(), err)
				}
				ask(b, q)
			}
		})
		b.Logf("read %d:\n%s", leaves, explain(b, f, sql, args...))
	}
	b.Run("unfiltered", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := x.Search(b.Context(), f.a.Tenant, f.collection, query(i)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// explain returns the plan and cost of a statement that the tenant runs.
func explain(b *testing.B, f *fixture, sql string, args ...any) string {
	b.Helper()
	var lines []string
	err := f.AsTenant(b.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) `+sql, args...)
		if err != nil {
			return err
		}
		lines, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
