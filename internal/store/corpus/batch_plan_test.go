package corpus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/storetest"
)

// TestBatchesCompareNoRowsWithEachOther: the statements of a batch of 200 versions look up each by
// its key. A join of the versions with the batch would compare 40,000 pairs, and with old
// statistics all of a tenant's versions.
func TestBatchesCompareNoRowsWithEachOther(t *testing.T) {
	const ones, texts = `array_fill(1, ARRAY[200])`, `array_fill('[]'::text, ARRAY[200])`
	c := storetest.Filled(t)
	var versions, documents string
	if err := c.Store.AsTenant(t.Context(), c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT quote_literal(array_agg(id)), quote_literal(array_agg(document_id))
			FROM (SELECT id, document_id FROM versions LIMIT 200) v`).Scan(&versions, &documents)
	}); err != nil {
		t.Fatal(err)
	}
	undo := errors.New("undo")
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			if _, err := c.Owner.Exec(t.Context(), "ANALYZE"); err != nil {
				t.Fatal(err)
			}
		}
		for what, x := range map[string]struct {
			sql, types, state string
			arguments         []string
		}{
			"claim":          {claimSQL, "uuid[], int[], text, interval", "queued", []string{versions, ones, `'h'`, `'1 min'`}},
			"extend leases":  {extendSQL, "uuid[], int[], text, interval", "processing", []string{versions, ones, `'h'`, `'1 min'`}},
			"read sources":   {sourcesSQL, "uuid[], int[]", "processing", []string{versions, ones}},
			"read artifacts": {artifactsSQL, "uuid[], int[], text", "processing", []string{versions, ones, `'parsed'`}},
			"save artifacts": {saveArtifactsSQL, "uuid, text, uuid[], int[], bytea[]", "processing", []string{
				`'` + c.Tenant.String() + `'`, `'parsed'`, versions, ones, `array_fill('x'::bytea, ARRAY[200])`}},
			"reset parses":    {resetParsesSQL, "uuid[], int[]", "processing", []string{versions, ones}},
			"lock for parses": {deathsSQL, "uuid[], int[]", "processing", []string{versions, ones}},
			"begin parses":    {beginParsesSQL, "uuid[], int[], text, int", "processing", []string{versions, ones, `'h'`, "1"}},
			"end parses":      {endParsesSQL, "uuid[], int[], text", "processing", []string{versions, ones, `'h'`}},
			"make ready": {readySQL, "uuid[], text[], text[], int[], int[], int[], text[], bool[]", "processing", []string{
				versions, texts, texts, ones, ones, ones, texts, `array_fill(false, ARRAY[200])`}},
			"set live versions": {moveDocumentsSQL, "uuid[], uuid[]", "processing", []string{documents, versions}},
		} {
			err := c.Store.AsTenant(t.Context(), c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, fmt.Sprintf(`UPDATE versions SET state = '%s' WHERE id = ANY (%s::uuid[])`, x.state, versions)); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, `SELECT `+store.OnePlanSQL); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, "PREPARE batch ("+x.types+") AS "+x.sql, pgx.QueryExecModeSimpleProtocol); err != nil {
					return err
				}
				explain := "EXPLAIN (ANALYZE) EXECUTE batch (" + strings.Join(x.arguments, ", ") + "); DEALLOCATE batch"
				rows, err := tx.Query(ctx, explain, pgx.QueryExecModeSimpleProtocol)
				if err != nil {
					return err
				}
				lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if err != nil {
					return err
				}
				if plan := strings.Join(lines, "\n"); strings.Contains(plan, "Rows Removed by Join Filter") || strings.Contains(plan, "Seq Scan") {
					t.Errorf("%s, analyzed %t:\n%s", what, analyzed, plan)
				}
				return undo
			})
			if !errors.Is(err, undo) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}
