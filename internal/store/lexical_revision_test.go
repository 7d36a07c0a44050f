package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
)

func revision(t testing.TB, f *fixture, tenant, collection uuid.UUID) int64 {
	t.Helper()
	n, err := f.LexicalRevision(t.Context(), tenant, collection)()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Every change of what a search may find changes the revision, and nothing else does.
func TestLexicalRevisionChanges(t *testing.T) {
	f := setUp(t, store.Options{})
	last := revision(t, f, f.a.Tenant, f.collection)
	if last != 0 {
		t.Errorf("a new collection has revision %d", last)
	}
	changes := func(what string, change func()) {
		t.Helper()
		change()
		now := revision(t, f, f.a.Tenant, f.collection)
		if now <= last {
			t.Errorf("%s: revision %d, before %d", what, now, last)
		}
		last = now
	}
	stays := func(what string, change func()) {
		t.Helper()
		change()
		if now := revision(t, f, f.a.Tenant, f.collection); now != last {
			t.Errorf("%s: revision %d, before %d", what, now, last)
		}
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var list []*written
	for i := range 8 {
		w := &written{name: fmt.Sprint(i), body: fmt.Sprintf("heron number%d", i)}
		changes("a new document", func() { f.write(t, f.a, f.collection, w) })
		list = append(list, w)
	}
	stays("another tenant's document", func() { f.write(t, f.b, f.foreign, &written{name: "a", body: "egret"}) })
	stays("a search", func() { expect(t, newIndex(f), f.a, f.collection, "heron", list...) })
	changes("another version", func() { f.write(t, f.a, f.collection, &written{name: "0", body: "egret"}) })
	labels := []string{"law"}
	changes("other labels", func() {
		_, err := f.UpdateDocument(t.Context(), f.a, list[1].id, schema.DocumentChange{Labels: &labels})
		check(err)
	})
	changes("a deletion", func() { check(f.DeleteDocument(t.Context(), f.a, list[2].id)) })
	changes("a merge", func() { mergeAll(t, f) })
	changes("a clustering", func() {
		execAs(t, f, f.a, `INSERT INTO clusterings (tenant_id, collection_id, generation, epoch) VALUES ($1, $2, 1, 1)`, f.a.Tenant, f.collection)
	})
	changes("the next clustering", func() { execAs(t, f, f.a, `UPDATE clusterings SET epoch = 2`) })
	stays("what is undone", func() {
		err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `UPDATE clusterings SET epoch = 3`); err != nil {
				return err
			}
			return errors.New("no")
		})
		if err == nil {
			t.Error("it was not undone")
		}
	})
	stays("another description", func() { execAs(t, f, f.a, `UPDATE collections SET description = 'x' WHERE id = $1`, f.collection) })
	changes("a flip", func() { execAs(t, f, f.a, `UPDATE collections SET generation = 2 WHERE id = $1`, f.collection) })
	changes("the end", func() { check(f.DeleteCollection(t.Context(), f.a, f.collection)) })
	if n := one[int](t, f, f.a, `SELECT count(*) FROM lexical_revisions`); n != 1 {
		t.Errorf("%d rows for one writer at a time", n)
	}
}

// Writers do not wait for each other, and a reader misses no change, in whatever order they commit.
func TestLexicalRevisionOfConcurrentCommits(t *testing.T) {
	f := setUp(t, store.Options{})
	seen := map[int64]string{revision(t, f, f.a.Tenant, f.collection): "nothing"}
	note := func(what string) {
		t.Helper()
		n := revision(t, f, f.a.Tenant, f.collection)
		if before, is := seen[n]; is {
			t.Errorf("%s has the revision of %s", what, before)
		}
		seen[n] = what
	}
	raise := func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '1ms'`); err != nil {
			return err
		}
		for range 3 {
			if _, err := tx.Exec(ctx, `INSERT INTO lexical_segments (tenant_id, id, collection_id, generation, header, documents, passages, bytes)
				VALUES ($1, gen_random_uuid(), $2, 1, '', 0, 0, 0)`, f.a.Tenant, f.collection); err != nil {
				return err
			}
		}
		return nil
	}
	for round := range 3 {
		// Three at once; the one that began last ends first.
		var nest func(depth int) error
		nest = func(depth int) error {
			err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
				if err := raise(ctx, tx); err != nil || depth == 3 {
					return err
				}
				return nest(depth + 1)
			})
			if err == nil {
				note(fmt.Sprintf("round %d, writer %d", round, depth))
			}
			return err
		}
		if err := nest(1); err != nil {
			t.Fatal(err)
		}
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM lexical_revisions`); n != 3 {
		t.Errorf("%d rows for three writers at a time", n)
	}
}

// The statement shows a tenant nothing of another, and leaves no state behind.
func TestLexicalRevisionOfTenants(t *testing.T) {
	f := setUp(t, store.Options{MaxConns: 1})
	f.write(t, f.a, f.collection, &written{name: "a", body: "heron"})
	if revision(t, f, f.a.Tenant, f.collection) == 0 {
		t.Fatal("no revision of what was written: nothing is proved")
	}
	for _, tenant := range []uuid.UUID{f.b.Tenant, schema.NewID(), uuid.Nil} {
		if n := revision(t, f, tenant, f.collection); n != 0 {
			t.Errorf("tenant %s sees revision %d of another's collection", tenant, n)
		}
	}
	conn := connect(t, f.url)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	var left string
	var rows int
	if _, err := conn.Exec(t.Context(), `SET ROLE sluice_app`); err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRow(t.Context(), `SELECT sluice_lexical_revision($1, $2)`, f.a.Tenant, f.collection).Scan(new(int64)); err != nil {
		t.Fatal(err)
	}
	if err := conn.QueryRow(t.Context(), `SELECT coalesce(current_setting('sluice.tenant', true), ''), (SELECT count(*) FROM lexical_revisions)`).Scan(&left, &rows); err != nil || left != "" || rows != 0 {
		t.Errorf("after the statement the tenant is %q, who sees %d rows, %v", left, rows, err)
	}
	if _, err := conn.Exec(t.Context(), `SET ROLE sluice_system`); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `SELECT sluice_lexical_revision($1, $2)`, f.a.Tenant, f.collection); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("the system asked for a tenant's revision: %v", err)
	}
}

// The statement that reads the revision only saves loads: when it fails or is cancelled, searches
// are still right.
func TestLexicalRevisionFails(t *testing.T) {
	f := setUp(t, store.Options{MaxConns: 1})
	s := &unanswered{Storage: f.SearchStore}
	x := search.NewIndex(s, 64<<20)
	var list []*written
	for i := range 3 {
		w := &written{name: fmt.Sprint(i), body: "heron"}
		f.write(t, f.a, f.collection, w)
		list = append(list, w)
		expect(t, x, f.a, f.collection, "heron", list...)
	}
	if s.asked == 0 {
		t.Error("nobody asked")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	y := newIndex(f)
	expect(t, y, f.a, f.collection, "heron", list...)
	for range 3 { // of a single connection: none is leaked
		if _, err := y.SearchText(ctx, f.a.Tenant, f.collection, "heron", lexical.TermQuery{Unit: schema.UnitPassage, K: 5}); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled search: %v", err)
		}
		expect(t, y, f.a, f.collection, "heron", list...)
	}
}

// Searches that wait for a revision leave connections to others.
func TestLexicalRevisionLeavesConnections(t *testing.T) {
	f := setUp(t, store.Options{MaxConns: 4})
	f.write(t, f.a, f.collection, &written{name: "a", body: "heron"})
	want := revision(t, f, f.a.Tenant, f.collection)
	ctx := waittest.Context(t)
	var waits []func() (int64, error)
	for range 12 {
		waits = append(waits, f.LexicalRevision(ctx, f.a.Tenant, f.collection))
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM documents`); n != 1 {
		t.Errorf("%d documents", n)
	}
	for i, wait := range waits {
		if n, err := wait(); err != nil || n != want {
			t.Errorf("answer %d is %d, %v, want %d", i, n, err, want)
		}
	}
}

// unanswered is a storage that cannot read the revision.
type unanswered struct {
	search.Storage
	asked int
}

func (u *unanswered) LexicalRevision(context.Context, uuid.UUID, uuid.UUID) func() (int64, error) {
	u.asked++
	return func() (int64, error) { return 0, errors.New("no answer") }
}

// The next query finds what was committed, and none finds what was deleted, whatever else is
// written and searched through the same index.
func TestLexicalFreshAmongWriters(t *testing.T) {
	f := setUp(t, store.Options{})
	x := newIndex(f)
	always := &written{name: "always", body: "heron"}
	f.write(t, f.a, f.collection, always)
	ask := func(unit schema.Unit, word string) int {
		r, err := x.SearchText(t.Context(), f.a.Tenant, f.collection, word, lexical.TermQuery{Unit: unit, K: 100, Settings: lexical.Defaults})
		if err != nil {
			t.Error(err)
		}
		return len(r.Hits)
	}
	const writers, documents = 4, 6
	stop := make(chan struct{})
	var searching, writing sync.WaitGroup
	for range 2 {
		searching.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if ask(units[i%len(units)], "heron") == 0 {
					t.Error("what is always there is not found")
					return
				}
			}
		})
	}
	for w := range writers {
		prepared := make([]*written, documents)
		for i := range prepared {
			prepared[i] = &written{name: fmt.Sprintf("w%d-%d", w, i), body: fmt.Sprintf("word%dx%d heron", w, i)}
		}
		writing.Go(func() {
			for i, d := range prepared {
				word := fmt.Sprintf("word%dx%d", w, i)
				f.write(t, f.a, f.collection, d)
				for _, unit := range units {
					if n := ask(unit, word); n != 1 {
						t.Errorf("a committed document is found %d times as a %s", n, unit)
					}
				}
				if i%2 == 0 {
					continue
				}
				if err := f.DeleteDocument(t.Context(), f.a, d.id); err != nil {
					t.Error(err)
				}
				for _, unit := range units {
					if n := ask(unit, word); n != 0 {
						t.Errorf("a deleted document is found %d times as a %s", n, unit)
					}
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	searching.Wait()
	if n := ask(schema.UnitDocument, "heron"); n != 1+writers*documents/2 {
		t.Errorf("%d documents in the end", n)
	}
}
