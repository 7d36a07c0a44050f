package corpus

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store/storetest"
)

// TestAPageOfMissingVersionsReadsOnlyItsDocuments: a rebuild lists what it has to build in pages,
// so a page that read all documents would make it quadratic.
func TestAPageOfMissingVersionsReadsOnlyItsDocuments(t *testing.T) {
	c := storetest.Filled(t)
	as := func(ctx context.Context, fn func(context.Context, pgx.Tx) error) error {
		return c.Store.AsTenant(ctx, c.Tenant, fn)
	}
	var end uuid.UUID
	if err := as(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT id FROM documents ORDER BY id DESC OFFSET 100 LIMIT 1`).Scan(&end)
	}); err != nil {
		t.Fatal(err)
	}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			if _, err := c.Owner.Exec(t.Context(), `ANALYZE`); err != nil {
				t.Fatal(err)
			}
		}
		all, rows := storetest.Reads(t, as, missingPageSQL, c.Tenant, c.ID, 2, 4000, uuid.Nil)
		if rows != 1500 {
			t.Fatalf("%d documents", rows)
		}
		for _, after := range []uuid.UUID{{}, end} {
			if page, rows := storetest.Reads(t, as, missingPageSQL, c.Tenant, c.ID, 2, 100, after); rows != 100 || page > all/10 {
				t.Errorf("statistics %t: a page of %d documents after %s read %d buffers, all documents %d", analyzed, rows, after, page, all)
			}
		}
	}
}
