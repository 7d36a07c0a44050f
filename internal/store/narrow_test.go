package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// reader returns another key of the first tenant, which may query and has some groups.
func (f *fixture) reader(groups ...string) schema.Principal {
	return schema.Principal{Tenant: f.a.Tenant, Key: schema.NewID(), Scopes: []schema.Scope{schema.ScopeQuery}, Groups: groups}
}

// reads checks all ways to read a document's text: the index, the vectors, the version's sections,
// and, if p may see the newest version, its metadata.
func (f *fixture) reads(t *testing.T, x *search.Index, p schema.Principal, w *written, word string, want bool) {
	t.Helper()
	if got := found(t, x, p, f.collection, schema.UnitPassage, word)[w.version] > 0; got != want {
		t.Errorf("groups %v: the index finds %q: %v, want %v", p.Groups, word, got, want)
	}
	hits, err := f.Nearest(t.Context(), query(p, f.collection, make([]float32, dimension), 1000))
	if err != nil {
		t.Fatal(err)
	}
	near := false
	for _, h := range hits {
		near = near || h.Ref.Version == w.version
	}
	if near != want {
		t.Errorf("groups %v: the vectors find %q: %v, want %v", p.Groups, word, near, want)
	}
	f.readsVersion(t, p, w, word, want)
}

func (f *fixture) readsVersion(t *testing.T, p schema.Principal, w *written, word string, want bool) {
	t.Helper()
	sections, _, err := f.DocumentText(t.Context(), p, w.id, schema.TextQuery{Version: w.version})
	switch {
	case err != nil && !errors.Is(err, schema.ErrNotFound) && !errors.Is(err, schema.ErrForbidden):
		t.Fatal(err)
	case (err == nil && strings.Contains(sections[0].Text, word)) != want:
		t.Errorf("groups %v: reads version %s: %v, want %v", p.Groups, w.version, err, want)
	}
}

func TestNarrowedLabelsHoldAtOnceThoughTheContentFails(t *testing.T) {
	f := setUp(t, store.Options{})
	x := newIndex(f)
	old := &written{name: "plan", title: "Herons", body: "heron|heron/nest"}
	other := &written{name: "other", body: "heron"}
	f.write(t, f.a, f.collection, old, other)
	f.reads(t, x, f.reader(), old, "heron", true)

	narrow := text("plan", "unreadable")
	narrow.Labels = []string{"legal"}
	up := f.upload(t, f.a, f.collection, narrow)
	for _, state := range []string{"while it waits", "when it has failed"} {
		t.Log(state)
		f.reads(t, x, f.reader(), old, "heron", false)
		f.reads(t, x, f.reader("hr"), old, "heron", false)
		f.reads(t, x, f.reader("legal"), old, "heron", true)
		f.reads(t, x, f.reader(), other, "heron", true)
		if _, err := f.Document(t.Context(), f.reader(), old.id); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("a key without the label sees the document: %v", err)
		}
		f.fail(t, f.a, up.Version)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM lexical_entries WHERE NOT dead`); n != 2 {
		t.Errorf("%d living entries, want one for each document", n)
	}
	// The old content without the label is a change again, which takes effect when it is live.
	again := &written{name: "plan", title: "Herons", body: "heron"}
	docs := f.prepare(t, f.a, f.collection, again)
	f.reads(t, x, f.reader(), old, "heron", false)
	if outcomes, err := f.WriteVersions(t.Context(), f.a.Tenant, f.collection, docs); err != nil || len(outcomes) > 0 {
		t.Fatal(outcomes, err)
	}
	f.reads(t, x, f.reader(), again, "heron", true)
}

func TestWidenedLabelsHoldWhenTheirVersionIsLive(t *testing.T) {
	f := setUp(t, store.Options{})
	x := newIndex(f)
	old := &written{name: "plan", body: "heron", labels: []string{"legal"}}
	f.write(t, f.a, f.collection, old)
	wider := &written{name: "plan", body: "heron", labels: []string{"legal", "hr"}}
	docs := f.prepare(t, f.a, f.collection, wider)
	f.reads(t, x, f.reader("hr"), old, "heron", false)
	f.reads(t, x, f.reader("legal"), old, "heron", true)
	if _, err := f.Document(t.Context(), f.reader("hr"), old.id); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("its title is seen before it is live: %v", err)
	}
	if _, _, err := f.OpenContent(t.Context(), f.reader("hr"), old.id, uuid.Nil); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("its bytes are read before it is live: %v", err)
	}
	if outcomes, err := f.WriteVersions(t.Context(), f.a.Tenant, f.collection, docs); err != nil || len(outcomes) > 0 {
		t.Fatal(outcomes, err)
	}
	f.reads(t, x, f.reader("hr"), wider, "heron", true)
	f.readsVersion(t, f.reader("hr"), old, "heron", false) // what was secret then stays secret
	f.readsVersion(t, f.reader("legal"), old, "heron", true)

	// Other labels exclude those with the old ones at once, and admit others when they are live.
	moved := &written{name: "plan", body: "heron", labels: []string{"board"}}
	docs = f.prepare(t, f.a, f.collection, moved)
	for _, group := range []string{"legal", "hr", "board"} {
		f.reads(t, x, f.reader(group), wider, "heron", false)
	}
	if outcomes, err := f.WriteVersions(t.Context(), f.a.Tenant, f.collection, docs); err != nil || len(outcomes) > 0 {
		t.Fatal(outcomes, err)
	}
	f.reads(t, x, f.reader("board"), moved, "heron", true)
	f.reads(t, x, f.reader("legal"), moved, "heron", false)
}

func TestLabelsThatTheLiveVersionHasCountForEveryVersion(t *testing.T) {
	f := setUp(t, store.Options{})
	first := &written{name: "plan", body: "heron"}
	f.write(t, f.a, f.collection, first)
	f.readsVersion(t, f.reader(), first, "heron", true)
	f.write(t, f.a, f.collection, &written{name: "plan", body: "crane", labels: []string{"legal"}})
	f.readsVersion(t, f.reader(), first, "heron", false)
	f.readsVersion(t, f.reader("legal"), first, "heron", true)
	// As an older build left it: the previous version without labels of its own.
	execAs(t, f, f.a, `DELETE FROM version_labels WHERE version_id = $1`, first.version)
	f.readsVersion(t, f.reader(), first, "heron", false)
	f.readsVersion(t, f.reader("legal"), first, "heron", true)
	sections := one[[]uuid.UUID](t, f, f.a, `SELECT array_agg(id) FROM sections WHERE version_id = $1`, first.version)
	if got, err := f.Sections(t.Context(), f.reader(), sections); err != nil || len(got) != 0 {
		t.Errorf("its sections are read by id: %v, %v", got, err)
	}
}

// TestPatchNarrowsVersionsOnTheirWay: a version that was queued before a change of
// labels does not bring the old ones back.
func TestPatchNarrowsVersionsOnTheirWay(t *testing.T) {
	f := setUp(t, store.Options{})
	x := newIndex(f)
	f.write(t, f.a, f.collection, &written{name: "plan", body: "heron"})
	second := &written{name: "plan", body: "crane"}
	docs := f.prepare(t, f.a, f.collection, second)
	third := f.upload(t, f.a, f.collection, text("plan", "stork"))
	labels := []string{"legal"}
	if _, err := f.UpdateDocument(t.Context(), f.a, third.Document, schema.DocumentChange{Labels: &labels}); err != nil {
		t.Fatal(err)
	}
	if outcomes, err := f.WriteVersions(t.Context(), f.a.Tenant, f.collection, docs); err != nil || len(outcomes) > 0 {
		t.Fatal(outcomes, err)
	}
	f.reads(t, x, f.reader(), second, "crane", false)
	f.reads(t, x, f.reader("legal"), second, "crane", true)
}

// TestManyNarrowedAtOnce: versions that are too many to reindex at once are hidden as well, and
// curation adds them again.
func TestManyNarrowedAtOnce(t *testing.T) {
	f := setUp(t, store.Options{})
	x := newIndex(f)
	var list []*written
	for range 4 {
		list = append(list, &written{name: uuid.NewString(), body: "heron"})
	}
	f.write(t, f.a, f.collection, list...)
	execAs(t, f, f.a, `UPDATE versions SET bytes = 400000`) // two of them fit
	var uploads []schema.Upload
	for _, w := range list {
		u := text(w.name, "unreadable")
		u.Labels = []string{"legal"}
		uploads = append(uploads, u)
	}
	if _, err := f.Upload(t.Context(), f.a, f.collection, uploads); err != nil {
		t.Fatal(err)
	}
	expect(t, x, f.reader(), f.collection, "heron")
	if n := len(found(t, x, f.reader("legal"), f.collection, schema.UnitPassage, "heron")); n != 2 {
		t.Errorf("%d are indexed anew at once, want 2", n)
	}
	if done, left, err := f.BackfillLexical(t.Context(), f.a.Tenant, f.collection, 100); err != nil || done != 2 || left != 0 {
		t.Errorf("curation indexed %d, %d are left, %v", done, left, err)
	}
	expect(t, x, f.reader(), f.collection, "heron")
	if n := len(found(t, x, f.reader("legal"), f.collection, schema.UnitPassage, "heron")); n != 4 {
		t.Errorf("%d are found after curation, want 4", n)
	}
}

func TestNobodyHoldsTheLabelOfNobody(t *testing.T) {
	f := setUp(t, store.Options{})
	u := text("plan", "x")
	u.Labels = []string{schema.NobodyLabel}
	if _, err := f.Upload(t.Context(), f.a, f.collection, []schema.Upload{u}); !errors.Is(err, schema.ErrInvalid) {
		t.Error(err)
	}
}
