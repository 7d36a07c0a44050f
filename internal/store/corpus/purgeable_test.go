package corpus

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/storetest"
)

// TestFailedVersionsAreNotReadAgain: the search for purgeable versions only reads what changed,
// however many versions failed long ago, with and without statistics.
func TestFailedVersionsAreNotReadAgain(t *testing.T) {
	c := storetest.Filled(t)
	in := func(sql string, args ...any) {
		t.Helper()
		if err := c.Store.In(store.Batch).AsTenant(t.Context(), c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, sql, args...)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	in(`UPDATE versions SET finished_at = now() - interval '1 day' WHERE tenant_id = $1`, c.Tenant)
	in(`
		WITH added AS (
		    INSERT INTO documents (tenant_id, id, collection_id, external_id)
		    SELECT $1, gen_random_uuid(), $2, 'failed ' || n FROM generate_series(1, 20000) n RETURNING tenant_id, id, collection_id)
		INSERT INTO versions
		    (tenant_id, id, document_id, collection_id, number, state, sha256, bytes, fingerprint, reason_code, finished_at)
		SELECT tenant_id, gen_random_uuid(), id, collection_id, 1, 'failed', 'x', 1, 'x', 'internal', now() - interval '1 day'
		FROM added`, c.Tenant, c.ID)
	// Five documents have a newer version that is ready now.
	in(`
		WITH five AS (SELECT id, tenant_id, document_id, collection_id FROM versions WHERE tenant_id = $1 AND state = 'failed' LIMIT 5)
		INSERT INTO versions (tenant_id, id, document_id, collection_id, number, state, sha256, bytes, fingerprint, finished_at)
		SELECT tenant_id, gen_random_uuid(), document_id, collection_id, 2, 'ready', 'x', 1, 'x', now() FROM five`, c.Tenant)
	read := func(sql string, args ...any) (buffers, rows int) {
		t.Helper()
		return storetest.Reads(t, c.Store.AsSystem, sql, args...)
	}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			if _, err := c.Owner.Exec(t.Context(), "ANALYZE versions"); err != nil {
				t.Fatal(err)
			}
		}
		whole, rows := read(purgeableSQL, 200, time.Hour)
		if rows != 5 {
			t.Errorf("a look at all failed versions finds %d, want 5", rows)
		}
		changed, rows := read(purgeableSinceSQL, 200, time.Hour, time.Now().Add(-time.Minute))
		if rows != 5 {
			t.Errorf("a look at what changed finds %d, want 5", rows)
		}
		quiet, rows := read(purgeableSinceSQL, 200, time.Hour, time.Now().Add(time.Minute))
		if rows != 0 {
			t.Errorf("a look at nothing finds %d", rows)
		}
		t.Logf("analyzed %t: all %d buffers, what changed %d, nothing %d", analyzed, whole, changed, quiet)
		if changed > 200 || quiet > 50 {
			t.Errorf("analyzed %t: a look read %d buffers where 5 versions changed, %d where none did", analyzed, changed, quiet)
		}
	}
	// The first look checks all failed versions, later ones what changed.
	s := New(c.Store)
	if n, err := s.PurgeOnce(t.Context(), 200); err != nil || n != 5 {
		t.Fatalf("purged %d, %v", n, err)
	}
	for _, want := range []int{0, 1, 0} {
		if want == 1 {
			in(`
				INSERT INTO versions (tenant_id, id, document_id, collection_id, number, state, sha256, bytes, fingerprint, finished_at)
				SELECT tenant_id, gen_random_uuid(), document_id, collection_id, 2, 'ready', 'x', 1, 'x', now() FROM versions
				WHERE tenant_id = $1 AND state = 'failed' AND purged_at IS NULL LIMIT 1`, c.Tenant)
		}
		if n, err := s.PurgeOnce(t.Context(), 200); err != nil || n != want {
			t.Errorf("purged %d, want %d; %v", n, want, err)
		}
	}
}

func TestLooksAtFailedVersions(t *testing.T) {
	var f failedChecks
	now := time.Now()
	first, _, whole := f.next(now)
	if !whole {
		t.Error("the first look is not at all versions")
	}
	if _, _, whole := f.next(now); !whole {
		t.Error("a look is at what changed, though the first one is not over")
	}
	f.record(first)
	second, since, whole := f.next(now.Add(time.Minute))
	if whole || !since.Equal(now.Add(-lateCommit)) {
		t.Errorf("the second look: whole %t, since %s", whole, since)
	}
	f.record(second)
	f.record(first) // from a slower caller
	if _, since, whole = f.next(now.Add(2 * time.Minute)); whole || !since.Equal(now.Add(time.Minute-lateCommit)) {
		t.Errorf("the third look: whole %t, since %s", whole, since)
	}
	if _, _, whole = f.next(now.Add(allFailedEvery)); !whole {
		t.Error("what was missed is never looked at again")
	}
}
