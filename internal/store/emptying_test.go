package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestDeletingACollectionHidesItsDocumentsAtOnce: it does so without changing them; they retire
// some at a time, by any process.
func TestDeletingACollectionHidesItsDocumentsAtOnce(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	const documents = 7
	var ups []schema.Uploaded
	for i := range documents {
		up := f.upload(t, f.a, f.collection, text(fmt.Sprint(i), fmt.Sprint("words ", i)))
		if i < 4 {
			f.goLive(t, f.a, up.Document, up.Version)
		}
		ups = append(ups, up)
	}
	f.fail(t, f.a, ups[6].Version)
	live, waiting, failed := ups[0], ups[5], ups[6]
	question := f.ask(t, f.a, f.collection, live.Version, true)
	other, err := f.CreateCollection(t.Context(), f.a, schema.NewCollection{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	kept := f.upload(t, f.a, other.ID, text("kept", "words"))

	if err := f.All.DeleteCollection(t.Context(), f.a, f.collection); err != nil {
		t.Fatal(err)
	}
	retired := func() int { return one[int](t, f, f.a, `SELECT count(*) FROM documents WHERE deleted_at IS NOT NULL`) }
	if n := retired(); n != 0 {
		t.Errorf("the request itself had %d documents retire", n)
	}
	for what, try := range map[string]func() error{
		"collection": func() error { _, err := f.Collection(t.Context(), f.a, f.collection.String()); return err },
		"delete":     func() error { return f.All.DeleteCollection(t.Context(), f.a, f.collection) },
		"documents": func() error {
			_, _, err := f.Documents(t.Context(), f.a, f.collection, schema.DocumentQuery{})
			return err
		},
		"document": func() error { _, err := f.Document(t.Context(), f.a, live.Document); return err },
		"named":    func() error { _, err := f.DocumentNamed(t.Context(), f.a, f.collection, "0"); return err },
		"content":  func() error { _, _, err := f.OpenContent(t.Context(), f.a, live.Document, uuid.Nil); return err },
		"update": func() error {
			_, err := f.UpdateDocument(t.Context(), f.a, live.Document, schema.DocumentChange{Metadata: &schema.Metadata{"k": "v"}})
			return err
		},
		"retry":      func() error { _, err := f.RetryDocument(t.Context(), f.a, failed.Document); return err },
		"delete one": func() error { return f.DeleteDocument(t.Context(), f.a, live.Document) },
		"upload": func() error {
			_, err := f.Upload(t.Context(), f.a, f.collection, []schema.Upload{text("8", "8")})
			return err
		},
		"place": func() error { _, err := f.CollectionState(t.Context(), f.a, f.collection); return err },
	} {
		if err := try(); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if hidden, err := f.SourcesHidden(t.Context(), f.a, question); err != nil || !hidden {
		t.Errorf("an answer that was built on it is hidden: %t, %v", hidden, err)
	}
	if got, err := f.ClaimVersions(t.Context(), f.a.Tenant, []wire.Attempt{{Version: waiting.Version, Attempt: 1}}, batch.Lease{Holder: "a worker", TTL: time.Minute}); err != nil || len(got) != 0 {
		t.Errorf("a worker got %v, %v", got, err)
	}
	if _, err := f.CreateCollection(t.Context(), f.a, schema.NewCollection{Name: "papers"}); err != nil {
		t.Errorf("its name is not free: %v", err)
	}

	for want := range documents {
		if n := retired(); n > want {
			t.Errorf("%d documents retired after %d steps", n, want)
		}
		// Another process does each step: the state is in the database only.
		if n, err := open(t, f.url, store.Options{}).EmptyCollections(t.Context(), 1); err != nil || n != 1 {
			t.Fatalf("took %d steps, %v", n, err)
		}
	}
	if err := f.empty(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := retired(); n != documents {
		t.Errorf("%d of %d documents retired", n, documents)
	}
	if n, err := f.EmptyCollections(t.Context(), 1); err != nil || n != 0 {
		t.Errorf("there was more to do: %d, %v", n, err)
	}
	ended := append(messages[wire.Event](t, f, wire.EventSubject(f.a.Tenant, "version.superseded")), messages[wire.Event](t, f, wire.EventSubject(f.a.Tenant, "version.cancelled"))...)
	if len(ended) != documents {
		t.Errorf("%d events of versions that ended: %+v", len(ended), ended)
	}
	if n := len(messages[wire.Event](t, f, wire.EventSubject(f.a.Tenant, "collection.deleted"))); n != 1 {
		t.Errorf("%d events of the deletion", n)
	}
	if n := f.purgeAll(t); n != documents {
		t.Errorf("%d versions were purged", n)
	}
	if d, err := f.Document(t.Context(), f.a, kept.Document); err != nil || d.State != schema.StateQueued {
		t.Errorf("another collection's document: %+v, %v", d, err)
	}
}
