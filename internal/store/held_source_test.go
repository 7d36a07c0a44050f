package store_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// TestALostSourceWritesNothing: a worker whose source has another attempt by now neither uploads,
// changes nor deletes documents.
func TestALostSourceWritesNothing(t *testing.T) {
	f := setUp(t, store.Options{})
	id := schema.NewID()
	folder := schema.NewSource{ID: id, CollectionID: f.collection, Name: "folder", Driver: "folder", Paused: true,
		SourceSettings: schema.SourceSettings{Settings: map[string]string{}, MaxShorter: 100}}
	if _, err := f.CreateSource(t.Context(), f.a, folder); err != nil {
		t.Fatal(err)
	}
	worker := f.a
	worker.Holds = &schema.SourceAttempt{Source: id, Attempt: 0}
	up := f.upload(t, worker, f.collection, text("a", "A."))
	labels := []string{"board"}
	if _, err := f.UpdateDocument(t.Context(), worker, up.Document, schema.DocumentChange{Labels: &labels}); err != nil {
		t.Fatal(err)
	}
	worker.Holds = &schema.SourceAttempt{Source: id, Attempt: 1}
	for what, write := range map[string]func() error{
		"an upload": func() error {
			_, err := f.Upload(t.Context(), worker, f.collection, []schema.Upload{text("b", "B.")})
			return err
		},
		"a change": func() error {
			_, err := f.UpdateDocument(t.Context(), worker, up.Document, schema.DocumentChange{Labels: &[]string{}})
			return err
		},
		"a deletion": func() error { return f.DeleteDocument(t.Context(), worker, up.Document) },
	} {
		if err := write(); !errors.Is(err, schema.ErrLostLease) {
			t.Errorf("%s gave %v, want ErrLostLease", what, err)
		}
	}
	admin := f.a
	admin.Scopes, admin.Groups = []schema.Scope{schema.ScopeAdmin}, labels
	if d, err := f.Document(t.Context(), admin, up.Document); err != nil || !slices.Equal(d.Labels, labels) {
		t.Errorf("the document is %+v, %v", d, err)
	}
}
