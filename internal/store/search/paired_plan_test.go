package search

import (
	"context"
	"regexp"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store/storetest"
)

// documentScan matches a scan of documents in a plan, with how often it ran.
var documentScan = regexp.MustCompile(`on documents.*loops=(\d+)`)

// TestPairedLooksUpOnlyNearDuplicates: of 200 candidates, of which three have near-duplicates, the
// documents of those three are looked up.
func TestPairedLooksUpOnlyNearDuplicates(t *testing.T) {
	c := storetest.Filled(t)
	var versions []uuid.UUID
	err := c.Store.AsTenant(t.Context(), c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, `SELECT array_agg(id) FROM (SELECT id FROM versions LIMIT 200) v`).Scan(&versions); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO document_signatures (tenant_id, collection_id, version_id, signature, keys, paired)
			SELECT $1, $2, id, '', '{}', n <= 3 FROM unnest($3::uuid[]) WITH ORDINALITY AS v (id, n)`, c.Tenant, c.ID, versions)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			if _, err := c.Owner.Exec(t.Context(), "ANALYZE"); err != nil {
				t.Fatal(err)
			}
		}
		whole := explained(t, c.Store, c.Tenant, "EXPLAIN (ANALYZE) "+pairedSQL, c.Tenant, c.ID, []string{}, versions)
		if scans := documentScan.FindAllStringSubmatch(whole, -1); len(scans) != 1 || scans[0][1] != "3" {
			t.Errorf("analyzed %t: documents are looked up %v times, want one scan with 3:\n%s", analyzed, scans, whole)
		}
	}
}
