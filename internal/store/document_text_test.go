package store_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

func TestDocumentTextIsReadAsItWasCut(t *testing.T) {
	f := setUp(t, store.Options{})
	w := &written{name: "open", body: "a/b|c|d/e/f"}
	docs := f.prepare(t, f.a, f.collection, w)
	docs[0].Links = chained(6)
	if outcomes, err := f.WriteVersions(t.Context(), f.a.Tenant, f.collection, docs); err != nil || len(outcomes) > 0 {
		t.Fatalf("outcomes %v, %v", outcomes, err)
	}
	f.curateAll(t, f.a, f.collection)
	read := func(q schema.TextQuery) ([]schema.DocumentSection, string) {
		t.Helper()
		out, next, err := f.DocumentText(t.Context(), f.a, w.id, q)
		if err != nil {
			t.Fatal(err)
		}
		return out, next
	}
	all, next := read(schema.TextQuery{})
	if len(all) != 3 || next != "" {
		t.Fatalf("%d sections, next %q", len(all), next)
	}
	for i, s := range all {
		end := 0
		for j, p := range s.Passages {
			if p.Ordinal != j || p.Start != end {
				t.Errorf("section %d: passage %d is %+v and begins behind %d", i, j, p, end)
			}
			end = p.End
		}
		if s.Ordinal != i || s.Version != w.version || end != len(s.Text) || s.Cluster == nil || s.Location == "" {
			t.Errorf("section %d: %+v", i, s)
		}
	}
	if links := all[2].Passages[0].Links; len(links) != 2 || links[0].Section != 1 || links[0].Passage != 0 || links[0].Weight < 0.99 {
		t.Errorf("links %+v", links)
	}
	first, next := read(schema.TextQuery{PageQuery: schema.PageQuery{Limit: 2}})
	rest, end := read(schema.TextQuery{PageQuery: schema.PageQuery{Limit: 2, Cursor: next}})
	if len(first) != 2 || len(rest) != 1 || rest[0].Ordinal != 2 || end != "" {
		t.Errorf("pages of %d and %d sections, cursors %q and %q", len(first), len(rest), next, end)
	}
	if one, _ := read(schema.TextQuery{Version: w.version, Section: all[1].ID}); len(one) != 1 || one[0].ID != all[1].ID {
		t.Errorf("the section alone: %+v", one)
	}
	for name, q := range map[string]schema.TextQuery{"version": {Version: uuid.New()}, "section": {Section: uuid.New()}} {
		if _, _, err := f.DocumentText(t.Context(), f.a, w.id, q); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("an unknown %s: %v", name, err)
		}
	}
	var field *schema.FieldError
	if _, _, err := f.DocumentText(t.Context(), f.a, w.id, schema.TextQuery{PageQuery: schema.PageQuery{Cursor: "x"}}); !errors.As(err, &field) {
		t.Errorf("a cursor of nobody: %v", err)
	}
}

func TestDocumentTextIsShownToWhoWouldFindIt(t *testing.T) {
	f := setUp(t, store.Options{})
	closed := &written{name: "closed", body: "a", labels: []string{"board"}}
	f.write(t, f.a, f.collection, closed)
	waiting := f.upload(t, f.a, f.collection, text("waiting", "not yet"))
	board, asker := f.a, f.a
	board.Groups = []string{"board"}
	asker.Scopes = []schema.Scope{schema.ScopeQuery}
	for name, c := range map[string]struct {
		p        schema.Principal
		document uuid.UUID
		want     error
	}{
		"of the group":          {board, closed.id, nil},
		"who sees all":          {f.a, closed.id, schema.ErrForbidden},
		"who does not":          {asker, closed.id, schema.ErrNotFound},
		"before it is ready":    {f.a, waiting.Document, schema.ErrNotFound},
		"of another tenant":     {f.b, closed.id, schema.ErrNotFound},
		"of no document at all": {f.a, uuid.New(), schema.ErrNotFound},
	} {
		if _, _, err := f.DocumentText(t.Context(), c.p, c.document, schema.TextQuery{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if err := f.DeleteDocument(t.Context(), f.a, closed.id); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.DocumentText(t.Context(), board, closed.id, schema.TextQuery{Version: closed.version}); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}
