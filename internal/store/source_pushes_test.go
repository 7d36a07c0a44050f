package store_test

// Permissions that are pushed while a source is synchronized.

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/source/follow"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/access"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// pushItem pushes an item that one principal may see.
func (f *fixture) pushItem(t *testing.T, of uuid.UUID, item, principal string) {
	t.Helper()
	push := schema.AccessPush{Items: []schema.AccessNode{{ID: item, Entries: []schema.AccessEntry{{Principal: principal}}}}}
	if err := f.PushAccess(t.Context(), f.a, of, push); err != nil {
		t.Fatal(err)
	}
}

// labelItem records that an item's document has got the label that the item should have.
func (f *fixture) labelItem(t *testing.T, of uuid.UUID, item string) {
	t.Helper()
	label, err := f.ItemLabel(t.Context(), f.a.Tenant, of, item)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		return access.MayLabel(ctx, tx, schema.Principal{Tenant: f.a.Tenant, Writes: &schema.SourceWrite{Source: of, Item: item}}, "", []string{label})
	}); err != nil {
		t.Fatal(err)
	}
}

// staleItems names the items whose documents wait for another label.
func (f *fixture) staleItems(t *testing.T, of uuid.UUID) (out []string) {
	t.Helper()
	stale, err := f.StaleItems(t.Context(), f.a.Tenant, of, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stale {
		out = append(out, s.Item)
	}
	return out
}

// goneThenChanged is the documents of a source, none of which exists. It changes something before
// it says so.
type goneThenChanged struct {
	follow.Documents
	change func()
}

func (g goneThenChanged) UpdateDocument(context.Context, schema.Principal, uuid.UUID, schema.DocumentChange) (schema.Document, error) {
	g.change()
	return schema.Document{}, schema.ErrNotFound
}

// A document that is gone is uploaded again, and pushed permissions change, before its item is
// noted to have no document: it still waits for the pushed label.
func TestADocumentUploadedAgainWaitsForItsLabel(t *testing.T) {
	f := setUp(t, store.Options{})
	of := f.followedSource(t, 1)
	f.pushItem(t, of, "i0", "ann")
	again := goneThenChanged{change: func() {
		f.labelItem(t, of, "i0")
		f.pushItem(t, of, "i0", "bob")
	}}
	if _, _, err := follow.Relabel(t.Context(), f, again, f.a, of, 10); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(f.staleItems(t, of)); got != "[i0]" {
		t.Errorf("%s wait for their labels, want i0", got)
	}
	// One that stays gone waits for nothing.
	if _, _, err := follow.Relabel(t.Context(), f, goneThenChanged{change: func() {}}, f.a, of, 10); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(f.staleItems(t, of)); got != "[]" {
		t.Errorf("%s wait for their labels, want none", got)
	}
}

// run begins a run of a source, and returns its first step.
func (f *fixture) run(t *testing.T, of uuid.UUID) wire.SourceSync {
	t.Helper()
	execAs(t, f, f.a, `UPDATE sources SET state = 'waiting', due_at = now() WHERE id = $1`, of)
	job, err := f.AcquireSource(t.Context(), f.a.Tenant, of, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return wire.SourceSync{Tenant: f.a.Tenant, Source: of, Run: job.Run, Attempt: job.Attempt}
}

// list stores a listing of a run, with folders and the item i0, and settles what it found.
func (f *fixture) list(t *testing.T, in wire.SourceSync, i0 source.Item, folders ...source.AccessFolder) {
	t.Helper()
	i0.ID, i0.Path, i0.Version = "i0", "i0", "1"
	job, err := f.SourceJob(t.Context(), in.Tenant, in.Source)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.SaveListing(t.Context(), in, "", follow.ListedPage{Items: []follow.Listed{{Item: i0}}, Folders: folders, Pushed: job.Pushed}); err != nil {
		t.Fatal(err)
	}
	if err := f.RecordOutcome(t.Context(), in, follow.ItemOutcome{Item: "i0", Outcome: follow.Kept, Version: "1"}); err != nil {
		t.Fatal(err)
	}
}

// A folder that is pushed after its place in a complete listing stays until the next one.
func TestAFolderPushedDuringAListingStays(t *testing.T) {
	f := setUp(t, store.Options{})
	of := f.followedSource(t, 1)
	in := f.run(t, of)
	f.list(t, in, source.Item{Access: &source.Access{}})
	push := schema.AccessPush{
		Folders: []schema.AccessNode{{ID: "new", Entries: []schema.AccessEntry{{Principal: "ann"}}}},
		Items:   []schema.AccessNode{{ID: "i0", Folder: "new", Inherits: true}},
	}
	if err := f.PushAccess(t.Context(), f.a, of, push); err != nil {
		t.Fatal(err)
	}
	f.labelItem(t, of, "i0")
	if _, err := f.EndListing(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if label, err := f.ItemLabel(t.Context(), f.a.Tenant, of, "i0"); err != nil || label == schema.NobodyLabel {
		t.Errorf("after the listing the item has the label %q, %v", label, err)
	}
	in = f.run(t, of)
	f.list(t, in, source.Item{Folder: "new", Access: &source.Access{Inherits: true}})
	if _, err := f.EndListing(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if label, err := f.ItemLabel(t.Context(), f.a.Tenant, of, "i0"); err != nil || label != schema.NobodyLabel {
		t.Errorf("after a listing without the folder the item has the label %q, %v", label, err)
	}
}

// A run that has relabelled what was pushed ends only when nothing more has been pushed: a push
// leaves the rest of its documents to the run that it finds.
func TestARunEndsWhenAllDocumentsHaveTheirLabels(t *testing.T) {
	f := setUp(t, store.Options{})
	of := f.followedSource(t, 1)
	for name, end := range map[string]func(in wire.SourceSync) error{
		"after its listing": func(in wire.SourceSync) error {
			_, err := f.EndListing(t.Context(), in)
			return err
		},
		"after its deletions": func(in wire.SourceSync) error {
			_, err := f.FinishRun(t.Context(), in)
			return err
		},
	} {
		in := f.run(t, of)
		f.list(t, in, source.Item{Access: &source.Access{}})
		f.labelItem(t, of, "i0")
		f.pushItem(t, of, "i0", "ann")
		if s, err := f.RunSource(t.Context(), f.a, of); err != nil || s.State != schema.SourceRunning {
			t.Fatalf("%s: %s, %v", name, s.State, err)
		}
		for _, want := range []schema.SourceState{schema.SourceRunning, schema.SourceWaiting} {
			if err := end(in); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if s, err := f.Source(t.Context(), f.a, of); err != nil || s.State != want {
				t.Errorf("%s: the source is %s, want %s; %v wait for their labels, %v", name, s.State, want, f.staleItems(t, of), err)
			}
			f.labelItem(t, of, "i0")
		}
	}
}
