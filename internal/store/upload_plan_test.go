package store_test

import (
	"fmt"
	"testing"

	"github.com/sluice-rag/sluice/internal/store"
)

// TestAnUploadIsPlannedOnce: a connection plans the statements of uploads once, for any values.
func TestAnUploadIsPlannedOnce(t *testing.T) {
	f := setUp(t, store.Options{MaxConns: 1})
	for i := range 3 {
		f.upload(t, f.a, f.collection, text(fmt.Sprintf("d%d", i), fmt.Sprintf("words %d", i)))
	}
	for _, table := range []string{"documents", "versions", "blobs", "blob_chunks", "outbox"} {
		n := one[int](t, f, f.a, `SELECT count(*) FROM pg_prepared_statements
			WHERE ltrim(statement, E'\n') LIKE 'INSERT INTO ' || $1 || ' %' AND generic_plans >= 3 AND custom_plans = 0`, table)
		if n != 1 {
			t.Errorf("%d statements that write %s are planned once, want 1", n, table)
		}
	}
}
