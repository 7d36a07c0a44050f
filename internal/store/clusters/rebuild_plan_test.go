package clusters

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store/storetest"
)

// TestLiveDocumentsAreFoundByTheirVersions: a rebuild looks each document's version up by its id,
// also when the statistics come from a time when few versions were ready. Otherwise an index of the
// ready ones is read whole for each.
func TestLiveDocumentsAreFoundByTheirVersions(t *testing.T) {
	c := storetest.Filled(t)
	as := func(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
		return c.Store.AsTenant(ctx, c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lookUpSQL); err != nil {
				return err
			}
			return do(ctx, tx)
		})
	}
	state := func(state string) {
		t.Helper()
		if err := as(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE versions SET state = $2, finished_at = now() WHERE tenant_id = $1`, c.Tenant, state)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, analyzed := range []string{"", "processing", "ready"} {
		if analyzed != "" {
			state(analyzed)
			if _, err := c.Owner.Exec(t.Context(), `ANALYZE documents, versions`); err != nil {
				t.Fatal(err)
			}
			state("ready")
		}
		buffers, rows := storetest.Reads(t, as, liveDocumentsSQL, c.Tenant, c.ID)
		t.Logf("analyzed when %q: %d buffers, %d rows", analyzed, buffers, rows)
		if rows == 0 || buffers > 10*rows+100 {
			t.Errorf("analyzed when %q: %d documents take %d buffers", analyzed, rows, buffers)
		}
	}
}
