package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/lexical/segment"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// written is a document as ingestion writes it. "|" separates sections, "/" passages.
type written struct {
	name, title, body string
	labels            []string
	metadata          schema.Metadata

	id, version uuid.UUID
	attempt     int
}

// write uploads documents and writes them as one batch, after which all are ready.
func (f *fixture) write(t testing.TB, p schema.Principal, collection uuid.UUID, list ...*written) {
	t.Helper()
	outcomes, err := f.WriteVersions(t.Context(), p.Tenant, collection, f.prepare(t, p, collection, list...))
	if err != nil || len(outcomes) > 0 {
		t.Fatalf("outcomes %+v, %v", outcomes, err)
	}
}

// prepare uploads documents and does everything except the last step.
func (f *fixture) prepare(t testing.TB, p schema.Principal, collection uuid.UUID, list ...*written) []batch.Document {
	t.Helper()
	var docs []batch.Document
	for _, w := range list {
		u := text(cmp.Or(w.name, "doc"), w.body+w.title+uuid.NewString())
		u.Title, u.Labels, u.Metadata = w.title, w.labels, w.metadata
		up := f.upload(t, p, collection, u)
		w.id, w.version = up.Document, up.Version
		w.attempt = one[int](t, f, p, `UPDATE versions SET state = 'processing' WHERE id = $1 RETURNING attempt`, w.version)
		docs = append(docs, w.document())
	}
	return docs
}

func (w *written) document() batch.Document {
	d := batch.Document{Attempt: wire.Attempt{Version: w.version, Attempt: w.attempt}}
	passages := 0
	for i, body := range strings.Split(w.body, "|") {
		s := batch.Section{Section: schema.Section{ID: schema.NewID(), Ordinal: i, Tokens: 5}}
		for j, passage := range strings.Split(body, "/") {
			start := len(s.Text)
			s.Text += passage + " "
			s.Passages = append(s.Passages, schema.Passage{ID: schema.NewID(), SectionID: s.ID, Ordinal: j, Start: start, End: len(s.Text), Tokens: 1})
			passages++
		}
		d.Text.Sections = append(d.Text.Sections, s)
	}
	d.Vectors = batch.NewVectors(space, dimension, make([]float32, passages*dimension))
	return d
}

var units = []schema.Unit{schema.UnitPassage, schema.UnitSection, schema.UnitDocument, schema.UnitCluster}

func newIndex(f *fixture) *search.Index { return search.NewIndex(f.SearchStore, 64<<20) }

// found returns the versions with units that share a word with text, and for clusters, which have
// one section each here, their number.
func found(t testing.TB, x *search.Index, p schema.Principal, collection uuid.UUID, unit schema.Unit, text string) map[uuid.UUID]int {
	t.Helper()
	r, err := x.SearchText(t.Context(), p.Tenant, collection, text, lexical.TermQuery{Unit: unit, K: 1000, Settings: lexical.Defaults, Groups: p.Groups})
	if err != nil {
		t.Fatal(err)
	}
	out := map[uuid.UUID]int{}
	for _, h := range r.Hits {
		out[h.Ref.Version]++
	}
	return out
}

// expect checks at every unit that a search finds exactly the given documents.
func expect(t testing.TB, x *search.Index, p schema.Principal, collection uuid.UUID, text string, want ...*written) {
	t.Helper()
	versions := map[uuid.UUID]bool{}
	for _, w := range want {
		versions[w.version] = true
	}
	for _, unit := range units {
		got := found(t, x, p, collection, unit, text)
		if unit == schema.UnitCluster {
			if got[uuid.Nil] < len(want) || len(want) == 0 && len(got) > 0 {
				t.Errorf("clusters with %q: %d, want at least %d", text, got[uuid.Nil], len(want))
			}
			continue
		}
		for v := range versions {
			if got[v] == 0 {
				t.Errorf("%s with %q: version %s is not found", unit, text, v)
			}
		}
		for v := range got {
			if !versions[v] {
				t.Errorf("%s with %q: version %s is found", unit, text, v)
			}
		}
	}
}

func TestLexicalFindsWhatWasCommitted(t *testing.T) {
	f := setUp(t, store.Options{})
	x := newIndex(f)
	expect(t, x, f.a, f.collection, "heron")
	if _, err := x.Search(t.Context(), f.a.Tenant, schema.NewID(), lexical.TermQuery{Unit: schema.UnitPassage, K: 1}); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("an unknown collection gave %v", err)
	}
	var all []*written
	for i := range 12 {
		a := &written{name: fmt.Sprint("a", i), body: fmt.Sprintf("herons wade/in water|the number%d heron", i)}
		b := &written{name: fmt.Sprint("b", i), title: "A title", body: fmt.Sprintf("egrets %d", i)}
		f.write(t, f.a, f.collection, a, b)
		all = append(all, a)
		expect(t, x, f.a, f.collection, "Heron", all...) // English: stemmed
		expect(t, x, f.a, f.collection, fmt.Sprintf("number%d", i), a)
	}
	// The title counts for whole documents only.
	if got := found(t, x, f.a, f.collection, schema.UnitDocument, "title"); len(got) != 12 {
		t.Errorf("%d documents by title, want 12", len(got))
	}
	if got := found(t, x, f.a, f.collection, schema.UnitPassage, "title"); len(got) != 0 {
		t.Errorf("%d passages by title, want none", len(got))
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM lexical_segments WHERE documents = 2 AND bytes > 0`); n != 12 {
		t.Errorf("%d segments, want one for each batch", n)
	}
	r, err := x.SearchText(t.Context(), f.a.Tenant, f.collection, "number3", lexical.TermQuery{Unit: schema.UnitPassage, K: 5, Settings: lexical.Defaults})
	if err != nil || len(r.Hits) != 1 || r.Hits[0].Ref != (lexical.Ref{Version: all[3].version, Section: 1, Passage: 0}) {
		t.Errorf("%+v, %v", r.Hits, err)
	}
	if r.Statistics.Units != 12*4 || r.Statistics.DF["number3"] != 1 {
		t.Errorf("statistics %+v", r.Statistics)
	}
}

func TestLexicalForgetsAtOnce(t *testing.T) {
	f := setUp(t, store.Options{})
	x := newIndex(f)
	stays := &written{name: "stays", body: "heron one"}
	deleted := &written{name: "deleted", body: "heron two/and more|heron three"}
	replaced := &written{name: "replaced", body: "heron four"}
	f.write(t, f.a, f.collection, stays, deleted, replaced)
	expect(t, x, f.a, f.collection, "heron", stays, deleted, replaced)

	if err := f.DeleteDocument(t.Context(), f.a, deleted.id); err != nil {
		t.Fatal(err)
	}
	expect(t, x, f.a, f.collection, "heron", stays, replaced)
	expect(t, x, f.a, f.collection, "two")

	next := &written{name: "replaced", body: "egret five"}
	f.write(t, f.a, f.collection, next)
	expect(t, x, f.a, f.collection, "heron", stays)
	expect(t, x, f.a, f.collection, "egret", next)
	expect(t, newIndex(f), f.a, f.collection, "heron", stays)
	// Only live text is counted.
	r, err := x.SearchText(t.Context(), f.a.Tenant, f.collection, "heron", lexical.TermQuery{Unit: schema.UnitDocument, K: 5, Settings: lexical.Defaults})
	if err != nil || r.Statistics.Units != 2 || r.Statistics.DF["heron"] != 1 {
		t.Errorf("statistics %+v, %v", r.Statistics, err)
	}
	if err := f.DeleteCollection(t.Context(), f.a, f.collection); err != nil {
		t.Fatal(err)
	}
	if _, err := x.SearchText(t.Context(), f.a.Tenant, f.collection, "heron", lexical.TermQuery{Unit: schema.UnitDocument, K: 5}); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("a deleted collection gave %v", err)
	}
	for _, table := range []string{"lexical_segments", "lexical_pages", "lexical_entries"} {
		if n := one[int](t, f, f.a, `SELECT count(*) FROM `+table); n != 0 {
			t.Errorf("%s has %d rows of a deleted collection", table, n)
		}
	}
}

func TestLexicalLabels(t *testing.T) {
	f := setUp(t, store.Options{})
	x := newIndex(f)
	open := &written{name: "open", body: "heron"}
	legal := &written{name: "legal", title: "Herons", body: "heron|heron/law", labels: []string{"legal"}}
	both := &written{name: "both", body: "heron", labels: []string{"legal", "hr"}}
	f.write(t, f.a, f.collection, open, legal, both)
	as := func(groups ...string) schema.Principal { p := f.a; p.Groups = groups; return p }
	expect(t, x, as(), f.collection, "heron", open)
	expect(t, x, as("hr"), f.collection, "heron", open, both)
	expect(t, x, as("legal"), f.collection, "heron", open, legal, both)
	expect(t, x, as("LEGAL", "\x00o"), f.collection, "heron", open)

	relabel := func(w *written, labels ...string) {
		t.Helper()
		if _, err := f.UpdateDocument(t.Context(), f.a, w.id, schema.DocumentChange{Labels: &labels}); err != nil {
			t.Fatal(err)
		}
	}
	before := found(t, x, as("legal"), f.collection, schema.UnitPassage, "heron")
	relabel(legal, "board")
	expect(t, x, as("legal"), f.collection, "heron", open, both)
	expect(t, x, as("board"), f.collection, "heron", open, legal)
	relabel(legal)
	expect(t, x, as(), f.collection, "heron", open, legal)
	expect(t, x, as(), f.collection, "law", legal)
	if got := found(t, x, as(), f.collection, schema.UnitPassage, "heron"); got[legal.version] != before[legal.version] {
		t.Errorf("%d passages after labels changed, %d before", got[legal.version], before[legal.version])
	}
	if got := found(t, x, as(), f.collection, schema.UnitDocument, "Herons"); got[legal.version] != 1 {
		t.Error("its title was lost")
	}
	relabel(open, "hr")
	expect(t, x, as(), f.collection, "heron", legal)
	expect(t, newIndex(f), as("hr"), f.collection, "heron", open, legal, both)
	if n := one[int](t, f, f.a, `SELECT count(*) FROM lexical_entries WHERE NOT dead`); n != 3 {
		t.Errorf("%d living entries, want one for each document", n)
	}
	// Deleted after that, it is not found under any of its labels.
	if err := f.DeleteDocument(t.Context(), f.a, legal.id); err != nil {
		t.Fatal(err)
	}
	expect(t, x, as("legal", "board"), f.collection, "law")
}

func TestLexicalTenantsAreApart(t *testing.T) {
	f := setUp(t, store.Options{})
	x := newIndex(f)
	mine, theirs := &written{name: "mine", body: "heron"}, &written{name: "theirs", body: "heron secret"}
	f.write(t, f.a, f.collection, mine)
	f.write(t, f.b, f.foreign, theirs)
	expect(t, x, f.a, f.collection, "heron", mine) // warm
	expect(t, x, f.b, f.foreign, "heron", theirs)
	for _, warm := range []*search.Index{x, newIndex(f)} {
		for _, c := range []struct{ tenant, collection uuid.UUID }{{f.a.Tenant, f.foreign}, {f.b.Tenant, f.collection}, {schema.NewID(), f.collection}} {
			r, err := warm.SearchText(t.Context(), c.tenant, c.collection, "heron", lexical.TermQuery{Unit: schema.UnitDocument, K: 5, Settings: lexical.Defaults})
			if !errors.Is(err, schema.ErrNotFound) || len(r.Hits) > 0 {
				t.Errorf("another tenant's collection gave %v, %v", r.Hits, err)
			}
		}
	}
	// Even a request that names another tenant's segments and pages gets none of them.
	id := one[uuid.UUID](t, f, f.b, `SELECT id FROM lexical_segments`)
	got, err := f.LoadLexical(t.Context(), search.Load{Tenant: f.a.Tenant, Collection: f.collection, Terms: []string{"heron", "secret", segment.OpenTerm},
		Wanted: []uuid.UUID{id}, Known: []uuid.UUID{id}, Eager: 1 << 40, Pages: []search.PageKey{{Segment: id, Page: 0}, {Segment: id, Page: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	own := one[uuid.UUID](t, f, f.a, `SELECT id FROM lexical_segments`)
	if !slices.Equal(got.Live, []uuid.UUID{own}) || len(got.Headers) != 1 || got.Headers[own] == nil {
		t.Errorf("segments %v, headers %v", got.Live, slices.Collect(maps.Keys(got.Headers)))
	}
	for at := range got.Pages {
		if at.Segment != own {
			t.Errorf("page %+v of another tenant", at)
		}
	}
}

func TestLexicalCorruptPage(t *testing.T) {
	f := setUp(t, store.Options{})
	w := &written{name: "a", body: "heron and egret"}
	f.write(t, f.a, f.collection, w)
	id := one[uuid.UUID](t, f, f.a, `SELECT id FROM lexical_segments`)
	for _, c := range []struct{ what, sql string }{
		{"page", `UPDATE lexical_pages SET data = set_byte(data, length(data) / 2, get_byte(data, length(data) / 2) # 255) WHERE first_term IS NOT NULL`},
		{"page", `UPDATE lexical_pages SET data = set_byte(data, length(data) / 2, get_byte(data, length(data) / 2) # 255) WHERE first_term IS NULL`},
		{"page", `DELETE FROM lexical_pages WHERE first_term IS NOT NULL`},
		{"header", `UPDATE lexical_segments SET header = set_byte(header, 6, get_byte(header, 6) # 255)`},
	} {
		// Only the owner of the tables may change pages.
		asOwner(t, f, c.sql)
		_, err := newIndex(f).SearchText(t.Context(), f.a.Tenant, f.collection, "heron", lexical.TermQuery{Unit: schema.UnitPassage, K: 5, Settings: lexical.Defaults})
		if !errors.Is(err, segment.ErrCorrupt) || !strings.Contains(err.Error(), id.String()) || !strings.Contains(err.Error(), c.what) {
			t.Errorf("after %s: %v", c.sql, err)
		}
	}
}

// asOwner runs SQL on the rows of all tenants.
func asOwner(t testing.TB, f *fixture, sql string) {
	t.Helper()
	conn := connect(t, f.owner)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	for _, q := range []string{`ALTER TABLE lexical_pages NO FORCE ROW LEVEL SECURITY`, `ALTER TABLE lexical_segments NO FORCE ROW LEVEL SECURITY`,
		`ALTER TABLE lexical_revisions NO FORCE ROW LEVEL SECURITY`, sql} {
		if _, err := conn.Exec(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// The cache stays within its bound, whatever is searched, and results stay the same.
func TestLexicalCacheIsBounded(t *testing.T) {
	f := setUp(t, store.Options{})
	r := rand.New(rand.NewPCG(1, 2))
	var all []*written
	for range 6 {
		var list []*written
		for range 5 {
			var b strings.Builder
			for range 400 {
				fmt.Fprintf(&b, "w%d ", r.IntN(3000))
			}
			list = append(list, &written{name: uuid.NewString(), body: b.String() + "|heron"})
		}
		f.write(t, f.a, f.collection, list...)
		all = append(all, list...)
	}
	large := newIndex(f)
	for _, limit := range []int64{0, 2_000, 60_000} {
		x := search.NewIndex(f.SearchStore, limit)
		for i := range 40 {
			question := fmt.Sprintf("w%d w%d heron", r.IntN(3000), i)
			if a, b := found(t, x, f.a, f.collection, schema.UnitSection, question), found(t, large, f.a, f.collection, schema.UnitSection, question); !maps.Equal(a, b) || len(a) != len(all) {
				t.Fatalf("limit %d: %d documents, with a large cache %d, want %d", limit, len(a), len(b), len(all))
			}
			if s := x.Stats(); s.Bytes > limit || s.Bytes < 0 {
				t.Fatalf("limit %d: the cache holds %d bytes", limit, s.Bytes)
			}
		}
		if s := x.Stats(); s.Evictions == 0 {
			t.Errorf("limit %d: %+v: nothing was let go, nothing is proved", limit, s)
		}
	}
	if s := large.Stats(); s.Hits == 0 || s.Misses == 0 || s.Evictions != 0 || s.Bytes == 0 {
		t.Errorf("%+v", s)
	}
}

// A document keeps its names when its labels and metadata change.
func TestLexicalIdentity(t *testing.T) {
	f := setUp(t, store.Options{})
	x := newIndex(f)
	long := "FORM 10-K of Northwind Traders" + strings.Repeat(" and more", 2500)
	report := &written{name: "reports/BLUEHARBOUR_2018_10K.pdf", title: "Annual report", body: "heron"}
	cover := &written{name: "1.pdf", body: long}
	f.write(t, f.a, f.collection, report, cover)
	if _, err := f.UpdateDocument(t.Context(), f.a, report.id, schema.DocumentChange{Metadata: &schema.Metadata{"customer": "Larkspur"}}); err != nil {
		t.Fatal(err)
	}
	called := func(terms ...string) (out []uuid.UUID) {
		t.Helper()
		q := lexical.TermQuery{Unit: schema.UnitDocument, K: 9, Settings: lexical.Settings{K1: 1.2}, Groups: f.a.Groups}
		for _, term := range terms {
			q.Terms = append(q.Terms, segment.IdentityTerm(term))
		}
		open, err := x.Open(t.Context(), f.a.Tenant, f.collection, q)
		if err != nil {
			t.Fatal(err)
		}
		r, err := open.Search(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range r.Hits {
			out = append(out, h.Ref.Version)
		}
		return out
	}
	check := func(when string) {
		t.Helper()
		for term, want := range map[string][]uuid.UUID{
			"y 2018": {report.version}, "code 10k": {report.version, cover.version}, "annual": {report.version},
			"larkspur": {report.version}, "northwind": {cover.version}, "heron": nil, "more": nil,
		} {
			got := called(term)
			if len(got) != len(want) || slices.ContainsFunc(want, func(v uuid.UUID) bool { return !slices.Contains(got, v) }) {
				t.Errorf("%s: %q is what %d documents are called, want %d", when, term, len(got), len(want))
			}
		}
	}
	check("as written")
	for _, w := range []*written{report, cover} {
		if _, err := f.UpdateDocument(t.Context(), f.a, w.id, schema.DocumentChange{Labels: &[]string{"hr"}}); err != nil {
			t.Fatal(err)
		}
	}
	f.a.Groups = []string{"hr"}
	check("labelled")
}
