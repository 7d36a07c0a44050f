package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// A rebuild that is cancelled while its flip waits for the collection does not go live.
func TestGenerationCancelledDuringItsFlip(t *testing.T) {
	f := setUp(t, store.Options{})
	r, err := f.StartRebuild(t.Context(), f.a, f.collection, schema.NewRebuild{})
	if err != nil {
		t.Fatal(err)
	}
	in := wire.Rebuild{Tenant: f.a.Tenant, Collection: f.collection, Generation: r.Generation}
	flipper := open(t, f.url, store.Options{MaxConns: 1, Name: "flipper"})
	done := make(chan error, 1)
	err = f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM collections WHERE id = $1 FOR UPDATE`, f.collection); err != nil {
			return err
		}
		go func() {
			live, _, err := flipper.FlipGeneration(context.WithoutCancel(ctx), in, time.Minute, 10)
			if live {
				t.Error("it went live")
			}
			done <- err
		}()
		f.awaitLock(t, "flipper")
		_, err := f.CancelRebuild(ctx, f.a, f.collection)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, batch.ErrOver) {
		t.Errorf("the flip gave %v", err)
	}
	if n := one[int](t, f, f.a, `SELECT generation FROM collections WHERE id = $1`, f.collection); n != 1 {
		t.Errorf("generation %d is live", n)
	}
	if s := one[string](t, f, f.a, `SELECT state FROM generations WHERE collection_id = $1 AND number = $2`, f.collection, r.Generation); s != "cancelled" {
		t.Errorf("the generation is %s", s)
	}
}

// TestARefusedDocumentHasFailedBeforeItsCollectionIsUnlocked: a rebuild that goes live right after
// the refusal, before the worker hears of it, finds the document and queues it again.
func TestARefusedDocumentHasFailedBeforeItsCollectionIsUnlocked(t *testing.T) {
	f := setUp(t, store.Options{})
	f.write(t, f.a, f.collection, &written{name: "old", body: "heron"})
	docs := f.prepare(t, f.a, f.collection, &written{name: "new", body: "egret"})
	docs[0].Vectors = batch.NewVectors("another space", dimension, make([]float32, dimension))
	outcomes, err := f.WriteVersions(t.Context(), f.a.Tenant, f.collection, docs)
	if err != nil || len(outcomes) != 1 || outcomes[0].Reason == nil || outcomes[0].Reason.Code != schema.ReasonModel {
		t.Fatalf("outcomes %+v, %v", outcomes, err)
	}
	n, err := f.RetryRefused(t.Context(), wire.Rebuild{Tenant: f.a.Tenant, Collection: f.collection, Generation: 2})
	if err != nil || n != 1 {
		t.Errorf("%d documents are queued again, %v", n, err)
	}
	// The worker reports the failure of an attempt that is over.
	if err := f.FailVersions(t.Context(), f.a.Tenant, []batch.Failure{{Attempt: docs[0].Attempt, Reason: *outcomes[0].Reason}}); err != nil {
		t.Fatal(err)
	}
	if s := one[string](t, f, f.a, `SELECT state FROM versions WHERE id = $1`, docs[0].Version); s != "queued" {
		t.Errorf("the document is %s", s)
	}
}

// awaitLock waits until a connection with that application name waits for a lock.
func (f *fixture) awaitLock(t *testing.T, name string) {
	t.Helper()
	conn := connect(t, f.url)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	for waits := false; !waits; {
		if err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock')`, name).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
}
