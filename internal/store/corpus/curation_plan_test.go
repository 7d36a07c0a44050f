package corpus

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/curate/due"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/storetest"
)

// TestChangesAreFoundAmongManyCollections: the search for changed collections reads nothing about
// unchanged ones.
func TestChangesAreFoundAmongManyCollections(t *testing.T) {
	c := storetest.Filled(t)
	as := func(lane store.Lane, sql string, args ...any) {
		t.Helper()
		if err := c.Store.In(lane).AsTenant(t.Context(), c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, sql, args...)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	as(store.Batch, `UPDATE versions SET curated = true WHERE tenant_id = $1`, c.Tenant)
	as(store.Batch, `
		INSERT INTO collections (tenant_id, id, name) SELECT $1, gen_random_uuid(), 'c' || n FROM generate_series(1, 3000) n`, c.Tenant)
	as(store.Batch, `
		INSERT INTO lexical_segments (tenant_id, id, collection_id, generation, header, documents, passages, bytes, created_at)
		SELECT $1, gen_random_uuid(), id, 1, 'x', 1, 1, 1000, now() - interval '1 day'
		FROM collections, generate_series(1, 4) n WHERE tenant_id = $1`, c.Tenant)
	read := func(sql string, args ...any) (buffers, rows int) {
		t.Helper()
		return storetest.Reads(t, c.Store.AsSystem, sql, args...)
	}
	// Index and visibility map are as after a vacuum, which autovacuum does after a while.
	for _, sql := range []string{`VACUUM lexical_segments`, `VACUUM versions`} {
		if _, err := c.Owner.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{0, 1} {
		if want == 1 {
			as(store.Batch, `INSERT INTO reclusterings (tenant_id, collection_id) VALUES ($1, $2)`, c.Tenant, c.ID)
		}
		changes, rows := read(uncuratedChangesSQL, uuid.Nil, -time.Minute, time.Hour, 200)
		if rows != want || changes > 60 {
			t.Errorf("a look at changes found %d collections, want %d, and read %d buffers", rows, want, changes)
		}
		everything, rows := read(toCurateSQL, uuid.Nil, -time.Minute, time.Hour, 200, due.MergeFan)
		if rows != want {
			t.Errorf("a look at everything found %d collections, want %d", rows, want)
		}
		t.Logf("changes %d buffers, everything %d", changes, everything)
	}
}
