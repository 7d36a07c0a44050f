package store_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/schema"
)

// TestANewTenantReadsItsOwnRowsOnce: with statistics of the time before it came, the documents of a
// tenant are listed and clustered through their keys. If the planner assumed a row of this tenant in
// each table, each row would be joined by reading all of them.
func TestANewTenantReadsItsOwnRowsOnce(t *testing.T) {
	const documents = 2_000
	f := setUp(t, store.Options{})
	before := *f
	admin := adminOf(t, f.url)
	for _, table := range []string{"versions", "documents", "lexical_entries", "sections", "cluster_members"} {
		execute(t, admin, `ALTER TABLE `+table+` SET (autovacuum_enabled = false)`)
	}
	before.a, before.b = f.b, f.a
	before.backlog(t, f.foreign, 4*documents)
	execute(t, admin, `ANALYZE`)
	f.backlog(t, f.collection, documents)

	for what, read := range map[string]func(s stores.All) error{
		"a list of documents": func(s stores.All) error {
			list, _, err := s.Documents(t.Context(), f.a, f.collection, schema.DocumentQuery{})
			if len(list) == 0 {
				t.Error("no documents are listed")
			}
			return err
		},
		"a chunk of clustering": func(s stores.All) error {
			_, _, err := s.ClusterChanged(t.Context(), f.a.Tenant, f.collection)
			return err
		},
		"clustering all again": func(s stores.All) error {
			_, err := s.RebuildClusters(t.Context(), f.a.Tenant, f.collection, 1)
			return err
		},
	} {
		n := f.buffers(t, func(s stores.All) {
			if err := read(s); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		})
		t.Logf("%s: %d pages", what, n)
		if n > 50*documents {
			t.Errorf("%s reads %d pages for %d documents", what, n, documents)
		}
	}
}

// TestColumnsWithoutStatistics: no table has statistics of tenants or collections.
func TestColumnsWithoutStatistics(t *testing.T) {
	f := setUp(t, store.Options{})
	conn := connect(t, f.owner)
	defer conn.Close(t.Context()) //nolint:errcheck // a test's
	rows, err := conn.Query(t.Context(), `
		SELECT t.relname || '.' || a.attname FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid
		WHERE t.relnamespace = 'public'::regnamespace AND t.relkind IN ('r', 'p') AND a.attname IN ('tenant_id', 'collection_id') AND NOT a.attisdropped
		  AND a.attstattarget IS DISTINCT FROM 0 AND t.relname !~ '^audit_reads_\d'`)
	if err != nil {
		t.Fatal(err)
	}
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range columns {
		t.Errorf("ANALYZE collects statistics of %s: SET STATISTICS 0, as migration 252 says", c)
	}
}
