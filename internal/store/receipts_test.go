package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/receipt"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// quoted stores an answer for a reader that quotes a document's second section.
func (f *fixture) quoted(t *testing.T, p schema.Principal, w *written, quote string) wire.QuestionInput {
	t.Helper()
	_, in := f.question(t, p, true)
	section := one[uuid.UUID](t, f, p, `SELECT id FROM sections WHERE version_id = $1 AND ordinal = 1`, w.version)
	a := schema.Answer{Answer: quote, Supported: true, Plan: "naive", Origin: schema.Origin{PlanSHA256: "aa", Pack: "pack", PackVersion: "2", PackSHA256: "bb"},
		Citations: []schema.Citation{{Document: w.name, DocumentID: w.id, Quote: quote, Page: 3, Boxes: []schema.Box{{Page: 3, Left: 1.05, Bottom: 2, Right: 3.95, Top: 4}},
			Span: schema.Span{Version: w.version, Section: section, Start: 0, End: len(quote)}}}}
	if err := f.SaveAnswer(t.Context(), in, a); err != nil {
		t.Fatal(err)
	}
	return in
}

// TestReceiptsSayWhatIsStored, also when the cited version was replaced and purged.
func TestReceiptsSayWhatIsStored(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	w := &written{name: "a.md", body: "first|second"}
	f.write(t, f.a, f.collection, w)
	execAs(t, f, f.a, `UPDATE versions SET file_name = 'folder/a.md' WHERE id = $1`, w.version)
	asker := f.reader()
	in := f.quoted(t, asker, w, "second")
	sum := one[string](t, f, f.a, `SELECT encode(sha256, 'hex') FROM versions WHERE id = $1`, w.version)
	size := one[int64](t, f, f.a, `SELECT bytes FROM versions WHERE id = $1`, w.version)
	check := func(what string) {
		t.Helper()
		r, err := f.Receipt(t.Context(), asker, in.Question)
		if err != nil {
			t.Fatal(what, err)
		}
		if r.Question != "How long?" || r.Answer != "second" || !r.Supported || r.QuestionID != in.Question || r.AnsweredAt == "" ||
			r.Plan != (receipt.AnsweringPlan{Name: "naive", SHA256: "aa"}) || r.Pack != (receipt.AnsweringPack{Name: "pack", Version: "2", SHA256: "bb"}) {
			t.Errorf("%s: %+v", what, r)
		}
		if len(r.Citations) != 1 {
			t.Fatalf("%s: %+v", what, r)
		}
		c := r.Citations[0]
		if c.Section != 1 || c.Version != w.version || c.Document != "a.md" || c.File.SHA256 != sum || c.File.Bytes != size || c.File.Name != "folder/a.md" || c.File.Language != "en" ||
			c.Page != 3 || len(c.Boxes) != 1 || c.Boxes[0] != (receipt.Box{Page: 3, Left: 21, Bottom: 40, Right: 79, Top: 80}) || c.Quote != "second" || c.End != 6 {
			t.Errorf("%s: %+v", what, c)
		}
	}
	check("a stored version")
	f.write(t, f.a, f.collection, &written{name: "a.md", body: "other"})
	check("a replaced version")
	f.purgeAll(t)
	if !one[bool](t, f, f.a, `SELECT purged_at IS NOT NULL FROM versions WHERE id = $1`, w.version) {
		t.Fatal("the version was not purged")
	}
	check("a purged version")

	// An answer from before sections were recorded, as stored here, has no receipt once the version
	// is purged.
	old := f.ask(t, asker, f.collection, w.version, true)
	if _, err := f.Receipt(t.Context(), asker, old); !errors.Is(err, schema.ErrConflict) || !strings.Contains(err.Error(), w.version.String()) {
		t.Errorf("an old answer from a purged version: %v", err)
	}
}

// TestReceiptsAreForReaders: a principal that may not read an answer gets no receipt of it.
func TestReceiptsAreForReaders(t *testing.T) {
	f := setUp(t, store.Options{})
	w := &written{name: "a", body: "first|second"}
	f.write(t, f.a, f.collection, w)
	asker := f.reader()
	in := f.quoted(t, asker, w, "second")
	_, waiting := f.question(t, asker, true)
	legal := asker
	legal.Groups = []string{"legal"}
	check := func(who string, p schema.Principal, question uuid.UUID, want error) {
		t.Helper()
		r, err := f.Receipt(t.Context(), p, question)
		if !errors.Is(err, want) || err != nil && r.Answer != "" {
			t.Errorf("%s: %+v, %v, want %v", who, r, err, want)
		}
	}
	check("the asker", asker, in.Question, nil)
	check("an admin", f.a, in.Question, nil)
	check("another key", f.reader(), in.Question, schema.ErrNotFound)
	check("another tenant", f.b, in.Question, schema.ErrNotFound)
	check("nobody's question", asker, uuid.New(), schema.ErrNotFound)
	check("a question without an answer", asker, waiting.Question, schema.ErrConflict)
	labels := []string{"legal"}
	if _, err := f.UpdateDocument(t.Context(), f.a, w.id, schema.DocumentChange{Labels: &labels}); err != nil {
		t.Fatal(err)
	}
	check("the asker, of what is closed", asker, in.Question, schema.ErrForbidden)
	check("an admin, of what is closed", f.a, in.Question, schema.ErrForbidden)
	check("a reader of the group", legal, in.Question, nil)
	if err := f.DeleteDocument(t.Context(), f.a, w.id); err != nil {
		t.Fatal(err)
	}
	check("a reader of the group, of what is deleted", legal, in.Question, schema.ErrForbidden)
	f.purgeAll(t)
	if _, err := f.Receipt(t.Context(), legal, in.Question); err == nil {
		t.Error("an answer that was removed has a receipt")
	}
}
