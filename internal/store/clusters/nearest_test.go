package clusters

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/storetest"
)

// TestScansFindWhatSearchesFind compares the passages that a scan of all vectors finds for many
// sections with those that Postgres finds for each.
func TestScansFindWhatSearchesFind(t *testing.T) {
	c := storetest.Filled(t)
	if err := c.Store.AsTenant(t.Context(), c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		for _, sql := range []string{
			`CREATE TEMPORARY TABLE random_vectors ON COMMIT DROP AS SELECT tenant_id, collection_id, space_id, passage_id, version_id,
			 l2_normalize(ARRAY(SELECT random() - 0.5 + (version_id IS NULL)::int FROM generate_series(1, 256))::real[]::halfvec) FROM vectors_256`,
			`DELETE FROM vectors_256`,
			`INSERT INTO vectors_256 (tenant_id, collection_id, space_id, passage_id, version_id, embedding) TABLE random_vectors`,
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return fmt.Errorf("%s: %w", sql, err)
			}
		}
		sections, err := store.IDs(tx.Query(ctx, `SELECT id FROM sections ORDER BY id LIMIT 20`))
		if err != nil {
			return err
		}
		of := clustering{tx: tx, tenant: c.Tenant, collection: c.ID, generation: 1}
		where, err := of.vectors(ctx)
		if err != nil {
			return err
		}
		_, vectors, err := of.means(ctx, where, sections)
		if err != nil {
			return err
		}
		scanned, err := of.scan(ctx, where, vectors)
		if err != nil {
			return err
		}
		searched, err := of.search(ctx, where, [][]uuid.UUID{where.bare}, vectors)
		if err != nil {
			return err
		}
		if len(vectors) != 20 {
			t.Fatalf("%d sections have vectors", len(vectors))
		}
		for i := range vectors {
			if len(scanned[i]) != nearPassages || len(searched[i]) != nearPassages {
				t.Fatalf("found %d and %d passages", len(scanned[i]), len(searched[i]))
			}
			for j, s := range searched[i] {
				if math.Abs(s.Distance-scanned[i][j].Distance) > 1e-3 {
					t.Errorf("passage %d near to section %d is at %f, and at %f by the scan", j, i, s.Distance, scanned[i][j].Distance)
				}
			}
			if a, b := searched[i][0].Section, scanned[i][0].Section; a != b {
				t.Errorf("nearest to section %d is %s, and %s by the scan", i, a, b)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
