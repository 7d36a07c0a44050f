package store_test

import (
	"reflect"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// chained links every passage, in a ring, to the previous one, and with half the weight to the
// next.
func chained(passages int) batch.Links {
	out := make(batch.Links, passages)
	for i := range out {
		out[i] = []batch.Link{{To: (i + passages - 1) % passages, Weight: 1}, {To: (i + 1) % passages, Weight: 0.5}}
	}
	return out
}

func TestLinksOfPassagesAreShownToWhoMaySeeThem(t *testing.T) {
	f := setUp(t, store.Options{})
	open := &written{name: "open", body: "a/b|c/d/e"}
	closed := &written{name: "closed", body: "a/b", labels: []string{"board"}}
	bare := &written{name: "bare", body: "a/b"}
	docs := f.prepare(t, f.a, f.collection, open, closed, bare)
	docs[0].Links, docs[1].Links = chained(5), chained(2)
	if outcomes, err := f.WriteVersions(t.Context(), f.a.Tenant, f.collection, docs); err != nil || len(outcomes) > 0 {
		t.Fatalf("outcomes %v, %v", outcomes, err)
	}
	at := func(w *written, section, passage int) lexical.Ref {
		return lexical.Ref{Version: w.version, Section: section, Passage: passage}
	}
	asked := []lexical.Ref{at(open, 0, 0), at(open, 1, 1), at(closed, 0, 0), at(bare, 0, 0), {Version: uuid.New()}}
	links := func(p schema.Principal, k int) map[lexical.Ref][]retrieval.Link {
		t.Helper()
		found, err := f.SearchStore.Links(t.Context(), p, f.collection, retrieval.At{Generation: 1}, asked, k)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	near := func(x float64, want float64) bool { return x > want-1e-4 && x < want+1e-4 }

	found := links(f.a, 5)
	first, second := found[asked[0]], found[asked[1]]
	if len(found) != 2 || len(first) != 2 || first[0].To != at(open, 1, 2) || first[1].To != at(open, 0, 1) || !near(first[0].Weight, 1) || !near(first[1].Weight, 0.5) {
		t.Errorf("the first passage is linked to %v, of %v", first, found)
	}
	if len(second) != 2 || second[0].To != at(open, 1, 0) || second[1].To != at(open, 1, 2) {
		t.Errorf("a passage of the second section is linked to %v", second)
	}
	if some := links(f.a, 1); len(some[asked[0]]) != 1 {
		t.Errorf("of one link %v are shown", some[asked[0]])
	}
	board := f.a
	board.Groups = []string{"board"}
	if found := links(board, 5); len(found) != 3 {
		t.Errorf("who may see the third document is shown the links of %d passages", len(found))
	}
	foreign := f.b
	if found, err := f.SearchStore.Links(t.Context(), foreign, f.collection, retrieval.At{Generation: 1}, asked, 5); err == nil && len(found) > 0 {
		t.Errorf("another tenant is shown %v", found)
	}
	if _, err := f.SearchStore.Links(t.Context(), f.a, f.collection, retrieval.At{Generation: 2}, asked, 5); err == nil {
		t.Error("links of a generation that is not live are shown")
	}

	// A new version replaces the old one, whose rows are purged.
	before := open.version
	again := f.prepare(t, f.a, f.collection, open)
	again[0].Links = chained(5)
	if _, err := f.WriteVersions(t.Context(), f.a.Tenant, f.collection, again); err != nil {
		t.Fatal(err)
	}
	if found := links(f.a, 5); len(found) != 0 {
		t.Errorf("of a version that was replaced are shown %v", found)
	}
	execAs(t, f, f.a, `UPDATE versions SET retired_at = now() - interval '11 minutes' WHERE id = $1`, before)
	f.purgeAll(t)
	if n := one[int](t, f, f.a, `SELECT count(*)::int FROM passage_links WHERE version_id = $1`, before); n != 0 {
		t.Errorf("%d rows of links are left of a purged version", n)
	}
	if n := one[int](t, f, f.a, `SELECT count(*)::int FROM passage_links`); n != 3 {
		t.Errorf("%d rows of links, of three sections", n)
	}
}

func TestABrokenRowOfLinksIsAnError(t *testing.T) {
	f := setUp(t, store.Options{})
	doc := &written{body: "a/b"}
	docs := f.prepare(t, f.a, f.collection, doc)
	docs[0].Links = chained(2)
	if _, err := f.WriteVersions(t.Context(), f.a.Tenant, f.collection, docs); err != nil {
		t.Fatal(err)
	}
	ref := lexical.Ref{Version: doc.version, Passage: 1}
	whole, err := f.SearchStore.Links(t.Context(), f.a, f.collection, retrieval.At{Generation: 1}, []lexical.Ref{ref}, 5)
	if err != nil || len(whole[ref]) != 2 {
		t.Fatalf("links %v, %v", whole, err)
	}
	data := one[[]byte](t, f, f.a, `SELECT links FROM passage_links`)
	for cut := range data {
		execAs(t, f, f.a, `DELETE FROM passage_links`)
		execAs(t, f, f.a, `INSERT INTO passage_links VALUES ($1, $2, 1, 0, $3)`, f.a.Tenant, doc.version, data[:cut])
		if found, err := f.SearchStore.Links(t.Context(), f.a, f.collection, retrieval.At{Generation: 1}, []lexical.Ref{ref}, 5); err == nil && !reflect.DeepEqual(found, whole) {
			t.Errorf("a row cut at %d gives %v", cut, found)
		}
	}
}
