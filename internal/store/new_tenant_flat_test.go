package store_test

import (
	"testing"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/schema"
)

// TestANewTenantReadsItsOwnRowsOnce: with statistics of the time before it came, the documents of a
// tenant are listed and clustered through their keys. They list all tenants, so the planner assumes
// a row of any other in each table, and could join these by comparing all of them.
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

	for _, c := range []struct {
		what string
		read func(s stores.All) error
	}{
		{"a list of documents by the beginning of their names", func(s stores.All) error {
			list, _, err := s.Documents(t.Context(), f.a, f.collection, schema.DocumentQuery{Prefix: "folder", Sort: schema.SortLargest})
			if len(list) == 0 {
				t.Error("no documents are listed")
			}
			return err
		}},
		{"a chunk of clustering", func(s stores.All) error {
			_, _, err := s.ClusterChanged(t.Context(), f.a.Tenant, f.collection)
			return err
		}},
		{"clustering all again", func(s stores.All) error {
			_, err := s.RebuildClusters(t.Context(), f.a.Tenant, f.collection, 1)
			return err
		}},
	} {
		n := f.buffers(t, func(s stores.All) {
			if err := c.read(s); err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
		})
		t.Logf("%s: %d pages", c.what, n)
		if n > 50*documents {
			t.Errorf("%s reads %d pages for %d documents", c.what, n, documents)
		}
	}
}
