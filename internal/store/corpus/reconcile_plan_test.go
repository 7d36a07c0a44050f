package corpus

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/storetest"
)

// TestUnfinishedVersionsAreFoundAmongMany: the search for them reads no ready versions, with and
// without statistics.
func TestUnfinishedVersionsAreFoundAmongMany(t *testing.T) {
	c := storetest.Filled(t)
	s := New(c.Store)
	add := func(n int, state string) {
		t.Helper()
		if err := c.Store.In(store.Batch).AsTenant(t.Context(), c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `
				WITH added AS (
				    INSERT INTO documents (tenant_id, id, collection_id, external_id)
				    SELECT $1, gen_random_uuid(), $2, $4 || ' ' || n FROM generate_series(1, $3::int) n RETURNING tenant_id, id, collection_id)
				INSERT INTO versions (tenant_id, id, document_id, collection_id, number, state, sha256, bytes, fingerprint, queued_at, finished_at)
				SELECT tenant_id, gen_random_uuid(), id, collection_id, 1, $4, 'x', 1, 'x', now() - interval '1 h', CASE $4 WHEN 'ready' THEN now() END FROM added`,
				c.Tenant, c.ID, n, state)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	add(100_000, "ready")
	add(20, "queued")
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			if _, err := c.Owner.Exec(t.Context(), "ANALYZE versions"); err != nil {
				t.Fatal(err)
			}
		}
		read, n := storetest.Reads(t, func(ctx context.Context, fn func(context.Context, pgx.Tx) error) error {
			return c.Store.AsTenant(ctx, c.Tenant, fn)
		}, strandedSQL, 500, c.Tenant, time.Now())
		if n != 20 {
			t.Errorf("found %d versions", n)
		}
		t.Logf("analyzed %t: %d buffers", analyzed, read)
		if read > 300 {
			t.Errorf("analyzed %t: looking for stranded versions read %d buffers", analyzed, read)
		}
	}
	if n, err := s.RequeueStranded(t.Context(), c.Tenant, time.Now(), 500); err != nil || n != 20 {
		t.Errorf("queued %d again, %v", n, err)
	}
}

// TestTheOldestMessageIsFoundBehindOthers: the search for a subject's oldest row in the outbox
// reads no rows of other subjects, also with statistics from when all rows were of one.
func TestTheOldestMessageIsFoundBehindOthers(t *testing.T) {
	c := storetest.Filled(t)
	add := func(n int, subject string) {
		t.Helper()
		if err := c.Store.In(store.Batch).AsTenant(t.Context(), c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `
				INSERT INTO outbox (tenant_id, subject, message_id, payload)
				SELECT $1, $2, $2 || n, '{}' FROM generate_series(1, $3::int) n`, c.Tenant, subject, n)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	add(20_000, "first")
	if _, err := c.Owner.Exec(t.Context(), "ANALYZE outbox"); err != nil {
		t.Fatal(err)
	}
	add(20, "last")
	if read, n := storetest.Reads(t, c.Store.AsSystem, oldestUnpublishedSQL, []string{"last"}); n != 1 || read > 10 {
		t.Errorf("looking for the oldest row found %d rows in %d buffers", n, read)
	}
}
