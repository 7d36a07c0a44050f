package clusters

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/storetest"
)

// TestMeansReadTheirOwnPassages: the vectors of 400 sections are found by their passages, whatever
// the statistics are.
func TestMeansReadTheirOwnPassages(t *testing.T) {
	c := storetest.Filled(t)
	// A collection's first documents: too few rows for statistics.
	if err := c.Store.AsTenant(t.Context(), c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		for _, sql := range []string{
			`DELETE FROM vectors_256 WHERE passage_id NOT IN (SELECT id FROM passages p WHERE ordinal = 0 AND section_id IN (SELECT id FROM sections ORDER BY id LIMIT 450))`,
			`DELETE FROM passages WHERE id NOT IN (SELECT passage_id FROM vectors_256)`,
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Owner.Exec(t.Context(), `VACUUM FULL vectors_256_shared, passages`); err != nil {
		t.Fatal(err)
	}
	for _, analyzed := range []string{"", "ANALYZE passages", "ANALYZE vectors_256_shared", "ANALYZE"} {
		if _, err := c.Owner.Exec(t.Context(), analyzed); err != nil {
			t.Fatal(err)
		}
		if err := c.Store.AsTenant(t.Context(), c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			rows, err := tx.Query(ctx, `SELECT id FROM sections WHERE tenant_id = $1 ORDER BY id LIMIT 400`, c.Tenant)
			if err != nil {
				return err
			}
			sections, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
			if err != nil {
				return err
			}
			var plan []struct {
				Plan map[string]any `json:"Plan"`
			}
			if err := tx.QueryRow(ctx, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)"+fmt.Sprintf(meanVectorsSQL, store.VectorTable(256)),
				c.Tenant, sections, 1, []uuid.UUID{uuid.Nil}).Scan(&plan); err != nil {
				return err
			}
			read := int(plan[0].Plan["Shared Hit Blocks"].(float64) + plan[0].Plan["Shared Read Blocks"].(float64))
			t.Logf("after %q: %d buffers", analyzed, read)
			if n := plan[0].Plan["Actual Rows"].(float64); n != 400 {
				t.Errorf("after %q: found %v vectors", analyzed, n)
			}
			if read > 5_000 {
				t.Errorf("after %q: the vectors of 400 sections take %d buffers", analyzed, read)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}
