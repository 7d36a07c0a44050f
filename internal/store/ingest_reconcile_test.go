package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// expireLease claims a version and ends its lease, as when its worker is killed.
func expireLease(t *testing.T, f *fixture, version uuid.UUID) {
	t.Helper()
	attempt := one[int](t, f, f.a, `SELECT attempt FROM versions WHERE id = $1`, version)
	got, err := f.ClaimVersions(t.Context(), f.a.Tenant, []wire.Attempt{{Version: version, Attempt: attempt}}, batch.Lease{Holder: "gone", TTL: time.Hour})
	if err != nil || len(got) != 1 {
		t.Fatalf("claimed %v, %v", got, err)
	}
	execAs(t, f, f.a, `UPDATE leases SET expires_at = now() - interval '1 s' WHERE subject_id = $1`, version)
}

func reconcile(t *testing.T, f *fixture, queued, failed int) {
	t.Helper()
	gotQueued, gotFailed, err := f.RequeueExpired(t.Context(), time.Minute, time.Second, 100)
	if err != nil || gotQueued != queued || gotFailed != failed {
		t.Fatalf("queued %d, failed %d, %v; want %d and %d", gotQueued, gotFailed, err, queued, failed)
	}
}

// TestAVersionThatKillsItsWorkersFails: it fails with a reason and an event, and a retry starts
// over. Lost messages do not count as losses.
func TestAVersionThatKillsItsWorkersFails(t *testing.T) {
	f := setUp(t, store.Options{})
	up := f.upload(t, f.a, f.collection, text("poison.txt", "hello"))
	for range 30 {
		if n, err := f.RequeueStranded(t.Context(), f.a.Tenant, time.Now().Add(time.Hour), 10); err != nil || n != 1 {
			t.Fatalf("queued %d, %v", n, err)
		}
	}
	queuedEvents := messages[wire.Event](t, f, wire.EventSubject(f.a.Tenant, "version.queued"))
	if e := queuedEvents[len(queuedEvents)-1]; len(queuedEvents) != 31 || e.ExternalID != "poison.txt" || e.Document != up.Document {
		t.Errorf("%d queued events, the last %+v", len(queuedEvents), e)
	}
	for range 19 {
		expireLease(t, f, up.Version)
		reconcile(t, f, 1, 0)
	}
	expireLease(t, f, up.Version)
	reconcile(t, f, 0, 1)
	doc, err := f.DocumentNamed(t.Context(), f.a, f.collection, "poison.txt")
	if err != nil || doc.State != schema.StateFailed || doc.Reason == nil || doc.Reason.Code != schema.ReasonCrashed || !strings.Contains(doc.Reason.Message, "vanished 20 times") {
		t.Fatalf("got %+v, %v", doc, err)
	}
	events := messages[wire.Event](t, f, wire.EventSubject(f.a.Tenant, "version.failed"))
	if len(events) != 1 || events[0].Version != up.Version || events[0].ExternalID != "poison.txt" || events[0].Reason == nil || events[0].Reason.Code != schema.ReasonCrashed {
		t.Errorf("events: %+v", events)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM leases`); n != 0 {
		t.Errorf("%d leases are left", n)
	}
	if _, err := f.RetryDocument(t.Context(), f.a, up.Document); err != nil {
		t.Fatal(err)
	}
	expireLease(t, f, up.Version)
	reconcile(t, f, 1, 0)
}

func TestOutboxDepthCountsWhatWaits(t *testing.T) {
	f := setUp(t, store.Options{})
	before := one[time.Time](t, f, f.a, `SELECT now()`)
	f.upload(t, f.a, f.collection, text("a.txt", "a"))
	want := one[int64](t, f, f.a, `SELECT count(*) FROM outbox`)
	rows, oldest, err := f.OutboxDepth(t.Context())
	if err != nil || rows != want || rows == 0 || oldest.Before(before) {
		t.Errorf("got %d since %s, %v; want %d", rows, oldest, err, want)
	}
	err = f.AsSystem(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM outbox`)
		return err
	})
	if rows, oldest, e := f.OutboxDepth(t.Context()); err != nil || e != nil || rows != 0 || !oldest.IsZero() {
		t.Errorf("an empty one gave %d since %s, %v, %v", rows, oldest, err, e)
	}
}

// TestSuspectsGoOneAtATime: a version that kills its workers does not drive others to the limit.
func TestSuspectsGoOneAtATime(t *testing.T) {
	f := setUp(t, store.Options{})
	var versions []uuid.UUID
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		versions = append(versions, f.upload(t, f.a, f.collection, text(name, name)).Version)
	}
	execAs(t, f, f.a, `UPDATE versions SET losses = 4`)
	for _, v := range versions {
		expireLease(t, f, v)
	}
	reconcile(t, f, 3, 0) // suspects from here on
	for _, v := range versions {
		expireLease(t, f, v)
	}
	for range 14 {
		reconcile(t, f, 1, 0)
		expireLease(t, f, versions[0])
	}
	reconcile(t, f, 0, 1)
	if state := one[string](t, f, f.a, `SELECT state FROM versions WHERE id = $1`, versions[0]); state != "failed" {
		t.Errorf("the first is %s", state)
	}
	reconcile(t, f, 1, 0)
	if n := one[int](t, f, f.a, `SELECT losses FROM versions WHERE id = $1`, versions[1]); n != 6 {
		t.Errorf("the second lost %d workers", n)
	}
	reconcile(t, f, 0, 0) // the third waits for the second
}
