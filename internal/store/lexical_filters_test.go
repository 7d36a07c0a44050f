package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// left returns the documents with a heron that a filter matches.
func left(t testing.TB, x *search.Index, p schema.Principal, collection uuid.UUID, f schema.Filter) map[uuid.UUID]bool {
	t.Helper()
	r, err := x.Search(t.Context(), p.Tenant, collection, lexical.TermQuery{Unit: schema.UnitDocument, Terms: []string{"heron"}, K: 1000,
		Settings: lexical.Defaults, Groups: p.Groups, Filter: f})
	if err != nil {
		t.Fatal(err)
	}
	out := map[uuid.UUID]bool{}
	for _, h := range r.Hits {
		out[h.Ref.Version] = true
	}
	return out
}

// checkFilter checks which documents a filter matches.
func checkFilter(t testing.TB, x *search.Index, p schema.Principal, collection uuid.UUID, f schema.Filter, want ...*written) {
	t.Helper()
	versions := map[uuid.UUID]bool{}
	for _, w := range want {
		versions[w.version] = true
	}
	if got := left(t, x, p, collection, f); !maps.Equal(got, versions) {
		t.Errorf("groups %v, filter %v: %d documents, want %d", p.Groups, f, len(got), len(want))
	}
}

func where(key string, op schema.Op, values ...string) schema.Condition {
	return schema.Condition{Key: key, Op: op, Values: values}
}

// answerOf selects in plain SQL, row by row, the versions that are live and visible and satisfy a
// filter.
func answerOf(t testing.TB, f *fixture, p schema.Principal, filter schema.Filter) map[uuid.UUID]bool {
	t.Helper()
	var sql strings.Builder
	sql.WriteString(`SELECT live_version_id FROM documents WHERE collection_id = $1 AND deleted_at IS NULL AND live_version_id IS NOT NULL AND (
		NOT EXISTS (SELECT FROM version_labels WHERE version_id = live_version_id) OR EXISTS (SELECT FROM version_labels WHERE version_id = live_version_id AND label = ANY ($2)))`)
	args := []any{f.collection, append([]string{}, p.Groups...)}
	for _, c := range filter {
		args = append(args, c.Key)
		fmt.Fprintf(&sql, ` AND EXISTS (SELECT FROM version_metadata WHERE version_id = live_version_id AND key = $%d AND (false`, len(args))
		for _, v := range c.Values {
			whole, at := typed(v)
			args = append(args, v, whole, at)
			n := len(args)
			switch {
			case c.Op == schema.OpEq || c.Op == schema.OpIn:
				fmt.Fprintf(&sql, ` OR text_value = $%d OR int_value = $%d::bigint OR time_value = $%d::timestamptz`, n-2, n-1, n)
			case whole != nil:
				fmt.Fprintf(&sql, ` OR int_value %[1]s $%[3]d::bigint AND $%[2]d::text <> '' AND $%[4]d::timestamptz IS NULL`, c.Op, n-2, n-1, n)
			case at != nil:
				fmt.Fprintf(&sql, ` OR time_value %[1]s $%[4]d::timestamptz AND $%[2]d::text <> '' AND $%[3]d::bigint IS NULL`, c.Op, n-2, n-1, n)
			default:
				fmt.Fprintf(&sql, ` OR text_value COLLATE "C" %[1]s $%[2]d::text AND $%[3]d::bigint IS NULL AND $%[4]d::timestamptz IS NULL`, c.Op, n-2, n-1, n)
			}
		}
		sql.WriteString("))")
	}
	out := map[uuid.UUID]bool{}
	err := f.AsTenant(t.Context(), p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql.String(), args...)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		for _, id := range ids {
			out[id] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Whatever happens to a collection, the next search returns what plain SQL returns, however much of
// it is cached.
func TestLexicalFiltersLeaveWhatSQLDoes(t *testing.T) {
	f := setUp(t, store.Options{})
	r := rand.New(rand.NewPCG(61, 62))
	indexes := []*search.Index{newIndex(f), search.NewIndex(f.SearchStore, 20<<10)} // the other caches almost nothing
	labels := [][]string{nil, nil, {"legal"}, {"hr", "legal"}}
	groups := [][]string{nil, {"legal"}, {"hr"}}
	values := []any{2020, 2023, "2024-05-01", "red", "Red", "2023", true, "ünlike", "-4"}
	metadata := func() schema.Metadata {
		m := schema.Metadata{}
		for _, key := range []string{"colour", "year", "links"} {
			switch n := r.IntN(4); n {
			case 0:
			case 1:
				m[key] = []any{values[r.IntN(len(values))], values[r.IntN(len(values))]}
			default:
				m[key] = values[r.IntN(len(values))]
			}
			if m[key] != nil && key == "links" { // names of documents
				m[key] = fmt.Sprint(m[key])
			}
		}
		return m
	}
	var all []*written
	matched := 0
	for round := range 80 {
		switch what := r.IntN(10); {
		case what < 3 || len(all) < 5:
			var some []*written
			for range 1 + r.IntN(6) {
				some = append(some, &written{name: fmt.Sprint("d", round, "-", len(some)), body: "heron", labels: labels[r.IntN(len(labels))], metadata: metadata()})
			}
			f.write(t, f.a, f.collection, some...)
			all = append(all, some...)
		case what < 6:
			w, now := all[r.IntN(len(all))], metadata()
			change := schema.DocumentChange{Metadata: &now}
			if r.IntN(3) == 0 {
				to := append([]string{}, labels[r.IntN(len(labels))]...)
				change = schema.DocumentChange{Labels: &to}
			}
			if _, err := f.UpdateDocument(t.Context(), f.a, w.id, change); err != nil {
				t.Fatal(err)
			}
		case what < 7:
			at := r.IntN(len(all))
			if err := f.DeleteDocument(t.Context(), f.a, all[at].id); err != nil {
				t.Fatal(err)
			}
			all = slices.Delete(all, at, at+1)
		case what < 8:
			if _, err := f.MergeSegments(t.Context(), f.a.Tenant, f.collection); err != nil {
				t.Fatal(err)
			}
		}
		for range 4 {
			p := f.a
			p.Groups = groups[r.IntN(len(groups))]
			var filter schema.Filter
			for range r.IntN(3) {
				c := where([]string{"colour", "year", "links", "missing"}[r.IntN(4)], []schema.Op{schema.OpEq, schema.OpLt, schema.OpLe, schema.OpGt, schema.OpGe, schema.OpIn}[r.IntN(6)])
				for range 1 + r.IntN(2) {
					if len(c.Values) == 0 || c.Op == schema.OpIn {
						c.Values = append(c.Values, fmt.Sprint(values[r.IntN(len(values))]))
					}
				}
				filter = append(filter, c)
			}
			want := answerOf(t, f, p, filter)
			for i, x := range indexes {
				if got := left(t, x, p, f.collection, filter); !maps.Equal(got, want) {
					t.Fatalf("round %d, index %d, groups %v: filter %v leaves %d documents, and in SQL %d", round, i, p.Groups, filter, len(got), len(want))
				}
			}
			if len(filter) > 0 && len(want) > 0 {
				matched++
			}
		}
	}
	if s := indexes[0].Stats().Filters; matched == 0 || s.Hits == 0 || s.Misses == 0 || s.Bytes == 0 {
		t.Errorf("%d filters left something; %+v", matched, s)
	}
	if s := indexes[1].Stats(); s.Bytes > s.Limit || s.Filters.Bytes > s.Bytes || s.Filters.Bytes < 0 {
		t.Errorf("the small one: %+v", s)
	}
}

// What is cached for one principal is not shown to another, and a change of labels applies from the
// next search on.
func TestLexicalFiltersShowNobodyElses(t *testing.T) {
	f := setUp(t, store.Options{})
	s := &counted{Storage: f.SearchStore}
	x := search.NewIndex(s, 64<<20)
	y2024 := schema.Metadata{"year": 2024}
	open := &written{name: "open", body: "heron", metadata: y2024}
	legal := &written{name: "legal", body: "heron", labels: []string{"legal"}, metadata: y2024}
	hr := &written{name: "hr", body: "heron", labels: []string{"hr"}, metadata: y2024}
	old := &written{name: "old", body: "heron", labels: []string{"hr"}, metadata: schema.Metadata{"year": 1999}}
	theirs := &written{name: "theirs", body: "heron", metadata: y2024}
	f.write(t, f.a, f.collection, open, legal, hr, old)
	f.write(t, f.b, f.foreign, theirs)
	as := func(groups ...string) schema.Principal { p := f.a; p.Groups = groups; return p }
	year := schema.Filter{where("year", schema.OpGe, "2024")}
	for range 2 { // the second time from memory
		checkFilter(t, x, as("legal"), f.collection, year, open, legal)
		checkFilter(t, x, as("hr"), f.collection, year, open, hr)
		checkFilter(t, x, as("hr", "legal"), f.collection, year, open, legal, hr)
		checkFilter(t, x, as(), f.collection, year, open)
		checkFilter(t, x, f.b, f.foreign, year, theirs)
	}
	if s.matches.Load() != 2 {
		t.Errorf("the storage was asked %d times, want once for each collection", s.matches.Load())
	}
	for _, c := range []struct{ tenant, collection uuid.UUID }{{f.a.Tenant, f.foreign}, {f.b.Tenant, f.collection}} {
		r, err := x.Search(t.Context(), c.tenant, c.collection, lexical.TermQuery{Unit: schema.UnitDocument, Terms: []string{"heron"}, K: 5, Settings: lexical.Defaults, Filter: year})
		if !errors.Is(err, schema.ErrNotFound) || len(r.Hits) > 0 {
			t.Errorf("another tenant's collection gave %v, %v", r.Hits, err)
		}
	}
	relabel := func(w *written, labels ...string) {
		t.Helper()
		if _, err := f.UpdateDocument(t.Context(), f.a, w.id, schema.DocumentChange{Labels: &labels}); err != nil {
			t.Fatal(err)
		}
	}
	relabel(legal, "hr")
	checkFilter(t, x, as("legal"), f.collection, year, open)
	checkFilter(t, x, as("hr"), f.collection, year, open, legal, hr)
	relabel(hr, []string{}...)
	checkFilter(t, x, as(), f.collection, year, open, hr)
	now := schema.Metadata{"year": 2025}
	if _, err := f.UpdateDocument(t.Context(), f.a, old.id, schema.DocumentChange{Metadata: &now}); err != nil {
		t.Fatal(err)
	}
	checkFilter(t, x, as("legal"), f.collection, year, open, hr)
	checkFilter(t, x, as("hr"), f.collection, year, open, legal, hr, old)
}

// A search evaluates conditions for new entries only.
func TestLexicalFiltersAskOnce(t *testing.T) {
	f := setUp(t, store.Options{})
	s := &counted{Storage: f.SearchStore}
	x := search.NewIndex(s, 64<<20)
	var red []*written
	for i := range 40 {
		w := &written{name: fmt.Sprint(i), body: "heron", metadata: schema.Metadata{"colour": []string{"red", "blue"}[i%2], "year": 2000 + i}}
		f.write(t, f.a, f.collection, w)
		if i%2 == 0 {
			red = append(red, w)
		}
	}
	filter := schema.Filter{where("colour", schema.OpEq, "red")}
	asks := func(what string, all, versions int64) {
		t.Helper()
		s.all.Store(0)
		s.versions.Store(0)
		checkFilter(t, x, f.a, f.collection, filter, red...)
		if s.all.Load() != all || s.versions.Load() != versions {
			t.Errorf("%s: asked of all %d times, of %d versions, want %d and %d", what, s.all.Load(), s.versions.Load(), all, versions)
		}
		checkFilter(t, x, f.a, f.collection, filter, red...)
		if s.all.Load() != all || s.versions.Load() != versions {
			t.Errorf("after %s: the same search asked again", what)
		}
	}
	asks("the first search", 1, 0)
	filter[0].Op = schema.OpIn
	filter[0].Values = []string{"red", "red"}
	asks("the same in other words", 0, 0)
	added := &written{name: "added", body: "heron", metadata: schema.Metadata{"colour": "red"}}
	f.write(t, f.a, f.collection, added)
	red = append(red, added)
	asks("a new document", 0, 1)
	blue := schema.Metadata{"colour": "blue"}
	if _, err := f.UpdateDocument(t.Context(), f.a, added.id, schema.DocumentChange{Metadata: &blue}); err != nil {
		t.Fatal(err)
	}
	red = red[:len(red)-1]
	asks("other metadata", 0, 1)
	if err := f.DeleteDocument(t.Context(), f.a, red[0].id); err != nil {
		t.Fatal(err)
	}
	red = red[1:]
	asks("the end of a document", 0, 0)
	before := one[int](t, f, f.a, `SELECT count(*) FROM lexical_segments WHERE merged_at IS NULL`)
	for {
		n, err := f.MergeSegments(t.Context(), f.a.Tenant, f.collection)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	if after := one[int](t, f, f.a, `SELECT count(*) FROM lexical_segments WHERE merged_at IS NULL`); after >= before {
		t.Fatalf("%d segments were merged into %d", before, after)
	}
	asks("a merge", 0, 0)
	filter = append(filter, where("year", schema.OpGe, "2001"))
	asks("one more condition", 1, 0)
	filter = schema.Filter{where("year", schema.OpLt, "1.5")}
	_, err := x.Search(t.Context(), f.a.Tenant, f.collection, lexical.TermQuery{Unit: schema.UnitDocument, Terms: []string{"heron"}, K: 5,
		Settings: lexical.Defaults, Filter: append(schema.Filter{where("colour", schema.OpEq, "red")}, filter...)})
	if !errors.Is(err, schema.ErrInvalid) || !strings.Contains(err.Error(), "filter[1]") {
		t.Errorf("a bound that is none: %v", err)
	}
}

// Links may change without a new index entry: conditions on them are evaluated for each search.
func TestLexicalFiltersOnLinks(t *testing.T) {
	f := setUp(t, store.Options{})
	x := newIndex(f)
	w := &written{name: "a", body: "heron", metadata: schema.Metadata{"links": "b", "year": 2024}}
	f.write(t, f.a, f.collection, w)
	filter := schema.Filter{where("links", schema.OpEq, "b"), where("year", schema.OpEq, "2024")}
	checkFilter(t, x, f.a, f.collection, filter, w)
	entry := one[uuid.UUID](t, f, f.a, `SELECT id FROM lexical_entries WHERE NOT dead`)
	now := schema.Metadata{"links": "c", "year": 2024}
	if _, err := f.UpdateDocument(t.Context(), f.a, w.id, schema.DocumentChange{Metadata: &now}); err != nil {
		t.Fatal(err)
	}
	if entry != one[uuid.UUID](t, f, f.a, `SELECT id FROM lexical_entries WHERE NOT dead`) {
		t.Error("the document has a new entry: links need no exception")
	}
	checkFilter(t, x, f.a, f.collection, filter)
	filter[0].Values = []string{"c"}
	checkFilter(t, x, f.a, f.collection, filter, w)
}

// Of searches that need the same at the same time, one loads it.
func TestLexicalFiltersLoadOnce(t *testing.T) {
	f := setUp(t, store.Options{})
	s := &counted{Storage: f.SearchStore}
	x := search.NewIndex(s, 64<<20)
	w := &written{name: "a", body: "heron", metadata: schema.Metadata{"year": 2024}}
	f.write(t, f.a, f.collection, w)
	expect(t, x, f.a, f.collection, "heron", w) // the index itself is loaded
	var searches sync.WaitGroup
	for range 8 {
		searches.Go(func() { checkFilter(t, x, f.a, f.collection, schema.Filter{where("year", schema.OpEq, "2024")}, w) })
	}
	searches.Wait()
	if n := s.matches.Load(); n != 1 {
		t.Errorf("it was loaded %d times", n)
	}
}

// An entry that is dead when its segment is evaluated may be live again in a database that was
// restored to an older state.
func TestLexicalFiltersAfterARestore(t *testing.T) {
	f := setUp(t, store.Options{})
	x := newIndex(f)
	kept, revived := &written{name: "kept", body: "heron", metadata: schema.Metadata{"year": 2024}}, &written{name: "revived", body: "heron", metadata: schema.Metadata{"year": 2024}}
	f.write(t, f.a, f.collection, kept, revived)
	year := schema.Filter{where("year", schema.OpEq, "2024")}
	execAs(t, f, f.a, `UPDATE documents SET live_version_id = NULL WHERE id = $1`, revived.id)
	execAs(t, f, f.a, `UPDATE lexical_entries SET dead = true WHERE version_id = $1`, revived.version)
	checkFilter(t, x, f.a, f.collection, year, kept)
	execAs(t, f, f.a, `UPDATE documents SET live_version_id = $2 WHERE id = $1`, revived.id, revived.version)
	execAs(t, f, f.a, `UPDATE lexical_entries SET dead = false WHERE version_id = $1`, revived.version)
	checkFilter(t, x, f.a, f.collection, year, kept, revived)
}
