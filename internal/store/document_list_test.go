package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// listed reads all pages of a list.
func (f *fixture) listed(t *testing.T, p schema.Principal, q schema.DocumentQuery) (out []schema.Document) {
	t.Helper()
	for pages := 0; ; pages++ {
		items, next, err := f.Documents(t.Context(), p, f.collection, q)
		if err != nil || pages > 100 {
			t.Fatalf("%+v, page %d: %v", q, pages, err)
		}
		out = append(out, items...)
		if next == "" {
			return out
		}
		q.Cursor = next
	}
}

// TestDocumentsAreListedInEveryOrder: with any page size every document is listed once, in its
// position.
func TestDocumentsAreListedInEveryOrder(t *testing.T) {
	f := setUp(t, store.Options{})
	for i, n := range []int{3, 1, 4, 1, 5, 9, 2, 6} {
		u := text(fmt.Sprintf("%c/Name %d", "zyxw"[i%4], i), strings.Repeat("x", n))
		if i%3 == 0 {
			u.Labels = []string{"staff"}
		}
		up := f.upload(t, f.a, f.collection, u)
		if i%2 == 1 {
			f.fail(t, f.a, up.Version)
		}
	}
	f.upload(t, f.a, f.collection, text("w/Name 3", "longer than before")) // its first version is not listed
	gone := f.upload(t, f.a, f.collection, text("w/gone", "x"))
	if err := f.DeleteDocument(t.Context(), f.a, gone.Document); err != nil {
		t.Fatal(err)
	}
	names := func(list []schema.Document) string {
		var out []string
		for _, d := range list {
			out = append(out, d.ExternalID[len(d.ExternalID)-1:])
		}
		return strings.Join(out, "")
	}
	for _, c := range []struct {
		q    schema.DocumentQuery
		want string
	}{
		{schema.DocumentQuery{}, "01234567"},
		{schema.DocumentQuery{Sort: schema.SortOldest}, "01234567"},
		{schema.DocumentQuery{Sort: schema.SortNewest}, "76543210"},
		{schema.DocumentQuery{Sort: schema.SortName}, "37261504"},
		{schema.DocumentQuery{Sort: schema.SortLargest}, "35742061"},
		{schema.DocumentQuery{Sort: schema.SortSmallest}, "16024753"},
		{schema.DocumentQuery{Sort: schema.SortState}, "15702346"},
		{schema.DocumentQuery{State: schema.StateFailed}, "157"},
		{schema.DocumentQuery{State: schema.StateFailed, Sort: schema.SortNewest}, "751"},
		{schema.DocumentQuery{State: schema.StateFailed, Sort: schema.SortName}, "715"},
		{schema.DocumentQuery{Prefix: "z/", Sort: schema.SortName}, "04"},
		{schema.DocumentQuery{Prefix: "z/", Sort: schema.SortLargest}, "40"},
		{schema.DocumentQuery{Prefix: "%"}, ""},
		{schema.DocumentQuery{Part: "NAME 5"}, "5"},
		{schema.DocumentQuery{Part: "w/n", Sort: schema.SortState}, "73"},
		{schema.DocumentQuery{Label: "staff"}, "06"},
		{schema.DocumentQuery{Label: "staff", Sort: schema.SortNewest, Part: "name"}, "60"},
		{schema.DocumentQuery{Label: "nobody"}, ""},
	} {
		for _, limit := range []int{1, 3, 100} {
			c.q.Limit = limit
			if got := names(f.listed(t, f.a, c.q)); got != c.want {
				t.Errorf("%+v: %s, want %s", c.q, got, c.want)
			}
		}
	}
	// A reader finds the documents that it may see, in every order.
	reader := f.a
	reader.Scopes = []schema.Scope{schema.ScopeQuery}
	for sort, want := range map[schema.DocumentSort]string{schema.SortNewest: "754321", schema.SortName: "372154"} {
		if got := names(f.listed(t, reader, schema.DocumentQuery{Sort: sort, PageQuery: schema.PageQuery{Limit: 2}})); got != want {
			t.Errorf("a reader's list by %s: %s, want %s", sort, got, want)
		}
	}
	_, next, err := f.Documents(t.Context(), f.a, f.collection, schema.DocumentQuery{Sort: schema.SortName, PageQuery: schema.PageQuery{Limit: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for name, q := range map[string]schema.DocumentQuery{
		"an order that is none":  {Sort: "colour"},
		"another order's cursor": {Sort: schema.SortNewest, PageQuery: schema.PageQuery{Cursor: next}},
		"a cursor that is none":  {PageQuery: schema.PageQuery{Cursor: "x"}},
		"a part of no text":      {Part: "a\x00"},
		"a label of no text":     {Label: "\xff"},
	} {
		if _, _, err := f.Documents(t.Context(), f.a, f.collection, q); !errors.Is(err, schema.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// counted returns a collection's counts, from its versions.
func (f *fixture) counted(t *testing.T, p schema.Principal) (counts map[schema.State]int64, bytes, passages, uncurated int64) {
	t.Helper()
	counts = map[schema.State]int64{}
	if err := f.AsTenant(t.Context(), p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, `
			SELECT coalesce(jsonb_object_agg(state, n), '{}'), coalesce(sum(bytes), 0)::bigint FROM (
			    SELECT v.state, count(*) AS n, sum(v.bytes) AS bytes FROM documents d JOIN versions v ON v.id = d.last_version_id
			    WHERE d.collection_id = $1 AND d.deleted_at IS NULL GROUP BY v.state) AS s`, f.collection).Scan(&counts, &bytes); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `
			SELECT coalesce(sum(passage_count) FILTER (WHERE id IN (SELECT live_version_id FROM documents WHERE deleted_at IS NULL)), 0)::bigint,
			       count(*) FILTER (WHERE NOT curated AND state IN ('ready', 'superseded'))
			FROM versions WHERE collection_id = $1`, f.collection).Scan(&passages, &uncurated)
	}); err != nil {
		t.Fatal(err)
	}
	return counts, bytes, passages, uncurated
}

// TestCountsAreThoseOfTheDocuments: the counts are right however documents are added, changed and
// deleted, and whenever changes are added up.
func TestCountsAreThoseOfTheDocuments(t *testing.T) {
	f := setUp(t, store.Options{})
	check := func(when string) {
		t.Helper()
		c, err := f.Collection(t.Context(), f.a, "papers")
		if err != nil {
			t.Fatal(err)
		}
		counts, bytes, passages, uncurated := f.counted(t, f.a)
		if !maps.Equal(c.Counts, counts) || c.Bytes != bytes || c.Passages != passages || c.Uncurated != uncurated {
			t.Errorf("%s: counted %v, %d bytes, %d passages, %d uncurated; there are %v, %d, %d, %d", when,
				c.Counts, c.Bytes, c.Passages, c.Uncurated, counts, bytes, passages, uncurated)
		}
		list, _, err := f.Collections(t.Context(), f.a, schema.PageQuery{})
		if err != nil || len(list) != 1 || !maps.Equal(list[0].Counts, c.Counts) || (list[0].ChangedAt == nil) != (len(counts) == 0 && c.ChangedAt == nil) {
			t.Errorf("%s: listed as %+v, %v", when, list, err)
		}
	}
	addUp := func() {
		t.Helper()
		if _, _, err := f.ClusterChanged(t.Context(), f.a.Tenant, f.collection); err != nil {
			t.Fatal(err)
		}
	}
	check("at first")
	ups, err := f.Upload(t.Context(), f.a, f.collection, []schema.Upload{text("1", "one"), text("2", "of two"), text("3", "three")})
	if err != nil {
		t.Fatal(err)
	}
	check("uploaded")
	f.fail(t, f.a, ups[0].Version)
	check("one failed")
	addUp()
	check("added up")
	if n := one[int](t, f, f.a, `SELECT count(*) FROM collection_changes`); n != 0 {
		t.Errorf("%d changes are left when they are added up", n)
	}
	execAs(t, f, f.a, `UPDATE versions SET state = 'ready', passage_count = 4, finished_at = now() WHERE id = $1`, ups[1].Version)
	execAs(t, f, f.a, `UPDATE documents SET live_version_id = $1 WHERE id = $2`, ups[1].Version, ups[1].Document)
	check("one ready")
	f.upload(t, f.a, f.collection, text("2", "anew"))
	check("a version beside a live one")
	if _, err := f.RetryDocument(t.Context(), f.a, ups[0].Document); err != nil {
		t.Fatal(err)
	}
	check("retried")
	if err := f.DeleteDocument(t.Context(), f.a, ups[1].Document); err != nil {
		t.Fatal(err)
	}
	check("one deleted")
	addUp()
	f.upload(t, f.a, f.collection, text("2", "back"))
	check("it came back")
	execAs(t, f, f.a, `DELETE FROM documents WHERE id = $1`, ups[2].Document)
	check("one is gone from the tables")
	addUp()
	check("added up again")
	if c, err := f.Collection(t.Context(), f.b, f.foreign.String()); err != nil || len(c.Counts) != 0 {
		t.Errorf("another tenant's collection has %+v, %v", c, err)
	}
}

// TestMigrationCountsWhatIsThere: collections that are older than the counts get theirs.
func TestMigrationCountsWhatIsThere(t *testing.T) {
	f := setUp(t, store.Options{})
	f.upload(t, f.a, f.collection, text("1", "one"))
	f.upload(t, f.a, f.collection, text("1", "one again"))
	gone := f.upload(t, f.a, f.collection, text("2", "two"))
	if err := f.DeleteDocument(t.Context(), f.a, gone.Document); err != nil {
		t.Fatal(err)
	}
	before, err := f.Collection(t.Context(), f.a, "papers")
	if err != nil {
		t.Fatal(err)
	}
	downTo(t, f.owner, 81)
	if err := store.Migrate(t.Context(), f.owner, f.url, ""); err != nil {
		t.Fatal(err)
	}
	after, err := f.Collection(t.Context(), f.a, "papers")
	if err != nil || !maps.Equal(after.Counts, before.Counts) || after.Bytes != before.Bytes || after.Counts[schema.StateQueued] != 1 {
		t.Errorf("before %+v, after %+v, %v", before, after, err)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM versions WHERE newest`); n != 1 {
		t.Errorf("%d versions are newest", n)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM collection_changes`); n != 0 {
		t.Errorf("%d changes are counted twice", n)
	}
}
