package store_test

import (
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestAFreshLeaseIsNotWrittenAgain: its holder keeps it nevertheless. An older lease is extended,
// another holder takes it over, and an older attempt gets nothing.
func TestAFreshLeaseIsNotWrittenAgain(t *testing.T) {
	f := setUp(t, store.Options{})
	up := f.upload(t, f.a, f.collection, text("a.txt", "hello"))
	item := wire.Attempt{Version: up.Version, Attempt: one[int](t, f, f.a, `SELECT attempt FROM versions WHERE id = $1`, up.Version)}
	if got, err := f.ClaimVersions(t.Context(), f.a.Tenant, []wire.Attempt{item}, batch.Lease{Holder: "a", TTL: time.Hour}); err != nil || len(got) != 1 {
		t.Fatalf("claimed %v, %v", got, err)
	}
	const row = `SELECT holder || ' ' || (expires_at > now() + interval '55 min') || ' ' || ctid::text FROM leases WHERE subject_id = $1`
	extend := func(item wire.Attempt, holder string, most int) string {
		t.Helper()
		got, err := f.ExtendLeases(t.Context(), f.a.Tenant, []wire.Attempt{item}, batch.Lease{Holder: holder, TTL: time.Hour})
		if err != nil || len(got) != most || most == 1 && got[0] != item.Version {
			t.Fatalf("%s has %v, %v", holder, got, err)
		}
		return one[string](t, f, f.a, row, up.Version)
	}
	claimed := one[string](t, f, f.a, row, up.Version)
	if got := extend(item, "a", 1); got != claimed {
		t.Errorf("it was %s and is %s", claimed, got)
	}
	if got := extend(item, "b", 1); got == claimed || got[:6] != "b true" {
		t.Errorf("taken over it is %s", got)
	}
	execAs(t, f, f.a, `UPDATE leases SET expires_at = now() + interval '50 min' WHERE subject_id = $1`, up.Version)
	if got := extend(item, "b", 1); got[:6] != "b true" {
		t.Errorf("extended it is %s", got)
	}
	old := item
	old.Attempt--
	before := one[string](t, f, f.a, row, up.Version)
	if got := extend(old, "c", 0); got != before {
		t.Errorf("another attempt made it %s", got)
	}
}
