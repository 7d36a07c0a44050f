package store_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/schema"
)

// TestAListReadsItsPage: a page of a list costs the same in a small collection and in a large one,
// while they are filled and statistics are old.
func TestAListReadsItsPage(t *testing.T) {
	f := setUp(t, store.Options{})
	admin := adminOf(t, f.url)
	for _, table := range []string{"versions", "documents", "lexical_entries", "sections"} { // what backlog fills
		execute(t, admin, `ALTER TABLE `+table+` SET (autovacuum_enabled = false)`) // autovacuum reads, too
	}
	collections := map[int]uuid.UUID{}
	fill := func(size int) {
		c, err := f.CreateCollection(t.Context(), f.a, schema.NewCollection{Name: fmt.Sprint(size)})
		if err != nil {
			t.Fatal(err)
		}
		f.backlog(t, c.ID, size)
		execAs(t, f, f.a, `UPDATE versions SET state = 'processing' WHERE collection_id = $1`, c.ID)
		collections[size] = c.ID
	}
	fill(300)
	execute(t, admin, `ANALYZE`)
	fill(10_000)
	const pages, limit = 2, 100
	for _, size := range []int{300, 10_000} {
		for _, state := range []schema.State{"", schema.StateProcessing} {
			for _, sort := range []schema.DocumentSort{schema.SortOldest, schema.SortNewest, schema.SortName, schema.SortLargest, schema.SortSmallest, schema.SortState} {
				most := int64(15) // pages of tables and indexes for a document
				if state != "" && slices.Contains([]schema.DocumentSort{schema.SortName, schema.SortLargest, schema.SortSmallest}, sort) {
					most = 40 // no index has the order: up to 1,000 documents of the state are sorted
				}
				n := f.buffers(t, func(s stores.All) {
					q := schema.DocumentQuery{PageQuery: schema.PageQuery{Limit: limit}, State: state, Sort: sort}
					for range pages {
						list, next, err := s.Documents(t.Context(), f.a, collections[size], q)
						if err != nil || len(list) != limit || next == "" {
							t.Fatalf("%d documents, next %q, %v", len(list), next, err)
						}
						q.Cursor = next
					}
				})
				t.Logf("of %d, state %q, %s: %d", size, state, sort, n)
				if n > pages*limit*most {
					t.Errorf("of %d documents, state %q, %s first: %d read %d pages of tables and indexes", size, state, sort, pages*limit, n)
				}
			}
		}
	}
}
