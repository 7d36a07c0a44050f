package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// waiting reports whether the reconciler would now start a curation of the collection.
func (f *fixture) waiting(t *testing.T) bool {
	t.Helper()
	list, err := f.Uncurated(t.Context(), uuid.Nil, -time.Minute, time.Hour, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.Collection == f.collection {
			return true
		}
	}
	return false
}

// expectWaiting checks the result of waiting.
func (f *fixture) expectWaiting(t *testing.T, want bool, when string) {
	t.Helper()
	if got := f.waiting(t); got != want {
		t.Errorf("%s: the reconciler finds the collection: %v", when, got)
	}
}

// backfillAll adds to the index what is missing.
func (f *fixture) backfillAll(t *testing.T) {
	t.Helper()
	for left := 1; left > 0; {
		var err error
		if _, left, err = f.BackfillLexical(t.Context(), f.a.Tenant, f.collection, 100); err != nil {
			t.Fatal(err)
		}
	}
}

const liveSegmentsSQL = `SELECT count(*) FROM lexical_segments WHERE collection_id = $1 AND merged_at IS NULL`

func TestRelabelledDocumentsAreMerged(t *testing.T) {
	f := setUp(t, store.Options{})
	var list []*written
	for i := range 100 {
		list = append(list, &written{name: fmt.Sprint(i), body: fmt.Sprintf("heron number%d", i)})
	}
	f.write(t, f.a, f.collection, list...)
	f.curateAll(t, f.a, f.collection)
	f.expectWaiting(t, false, "after curation")
	const shapeSQL = `SELECT string_agg(section_id::text || cluster_id::text, ' ' ORDER BY section_id) FROM cluster_members`
	before := one[string](t, f, f.a, shapeSQL)
	for i, w := range list {
		if _, err := f.UpdateDocument(t.Context(), f.a, w.id, schema.DocumentChange{Labels: &[]string{"hr"}}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			f.expectWaiting(t, true, "after one was labelled anew")
		}
	}
	f.curateAll(t, f.a, f.collection)
	f.checkClusters(t, f.a, f.collection, 1)
	if after := one[string](t, f, f.a, shapeSQL); after != before {
		t.Error("labels changed the clusters")
	}
	mergeAll(t, f)
	if n := one[int](t, f, f.a, liveSegmentsSQL, f.collection); n > 15 {
		t.Errorf("%d segments are left", n)
	}
	f.expectWaiting(t, false, "after curation again")
	as := f.a
	as.Groups = []string{"hr"}
	expect(t, newIndex(f), as, f.collection, "number42", list[42])
	expect(t, newIndex(f), f.a, f.collection, "number42")
}

// TestADocumentThatLeftTheIndexStaysUncurated: an upload with narrower labels removes a large
// document from the index after curation has filled the index's gaps, and before curation marks the
// document. The upload then fails, so nothing replaces the document.
func TestADocumentThatLeftTheIndexStaysUncurated(t *testing.T) {
	f := setUp(t, store.Options{})
	w := &written{name: "large", body: strings.Repeat("heron ", 200_000)}
	f.write(t, f.a, f.collection, w)
	f.curateAll(t, f.a, f.collection)
	narrow := text("large", "another text")
	narrow.Labels = []string{"hr"}
	next := f.upload(t, f.a, f.collection, narrow)
	as := f.a
	as.Groups = []string{"hr"}
	expect(t, newIndex(f), as, f.collection, "heron")
	if _, more, err := f.ClusterChanged(t.Context(), f.a.Tenant, f.collection); err != nil || more {
		t.Fatalf("more %v, %v", more, err)
	}
	f.fail(t, f.a, next.Version)
	f.expectWaiting(t, true, "after the document left the index")
	f.backfillAll(t)
	f.curateAll(t, f.a, f.collection)
	f.expectWaiting(t, false, "after curation")
	f.checkClusters(t, f.a, f.collection, 1)
	expect(t, newIndex(f), as, f.collection, "heron", w)
}

func TestOtherLinksOfMetadataMoveSections(t *testing.T) {
	f := setUp(t, store.Options{})
	a := &page{name: "x/a", tokens: []int{900, 900}, given: []any{"y/b"}}
	b := &page{name: "y/b", tokens: []int{900}}
	c := &page{name: "z/c", tokens: []int{900}}
	d := &page{name: "w/d", tokens: []int{900}, links: []string{"/z/c"}}
	f.pages(t, f.a, f.collection, a, b, c, d)
	f.curateAll(t, f.a, f.collection)
	f.together(t, f.a, true, a, b)
	f.together(t, f.a, false, a, c)
	links := func(target string) {
		t.Helper()
		if _, err := f.UpdateDocument(t.Context(), f.a, a.id, schema.DocumentChange{Metadata: &schema.Metadata{"links": target}}); err != nil {
			t.Fatal(err)
		}
	}
	links("z/c")
	f.expectWaiting(t, true, "after its links changed")
	f.curateAll(t, f.a, f.collection)
	f.checkClusters(t, f.a, f.collection, 1)
	f.together(t, f.a, true, a, c)
	f.together(t, f.a, false, a, b)
	links("z/c")
	f.expectWaiting(t, false, "after the same links were given again")
}

// What remains when a workflow is lost after the step that marks versions.
func TestReconcilerFindsWhatClusteringHides(t *testing.T) {
	f := setUp(t, store.Options{OwnVectorsAbove: 10})
	for i := range 8 {
		f.write(t, f.a, f.collection, &written{name: fmt.Sprint(i), body: "heron"})
		f.curateAll(t, f.a, f.collection)
		f.expectWaiting(t, i == 7, fmt.Sprintf("with %d segments", i+1))
	}
	list, err := f.Uncurated(t.Context(), uuid.Nil, time.Hour, time.Hour, 10)
	if err != nil || len(list) > 0 {
		t.Errorf("too early: %v, %v", list, err)
	}
	if n := mergeAll(t, f); n != 1 {
		t.Errorf("%d merges", n)
	}
	f.expectWaiting(t, false, "after the merge")

	r := rand.New(rand.NewPCG(51, 52))
	p := &insertedDocument{}
	for range 50 {
		p.vectors = append(p.vectors, unit(r))
	}
	f.plant(t, f.a, f.collection, []*insertedDocument{p})
	f.backfillAll(t)
	f.curateAll(t, f.a, f.collection)
	if _, err := f.TendVectors(t.Context(), f.a.Tenant, f.collection); err != nil {
		t.Fatal(err)
	}
	f.expectWaiting(t, true, "with a shard that has no index")
	f.tend(t, f.a, f.collection)
	f.expectWaiting(t, false, "with the index")
}

func TestReclusteringIsAskedForAndSurvives(t *testing.T) {
	f := setUp(t, store.Options{})
	f.pages(t, f.a, f.collection, &page{name: "a", tokens: []int{100}}, &page{name: "b", tokens: []int{100}})
	f.curateAll(t, f.a, f.collection)
	if err := f.Recluster(t.Context(), f.b, f.collection, 0); err == nil {
		t.Error("another tenant's collection was reclustered")
	}
	f.expectWaiting(t, false, "before it was asked for")
	for range 2 {
		if err := f.Recluster(t.Context(), f.a, f.collection, 0); err != nil {
			t.Fatal(err)
		}
	}
	f.expectWaiting(t, true, "when it was asked for")
	f.curateAll(t, f.a, f.collection)
	f.expectWaiting(t, false, "when it was done")
	if n := one[int](t, f, f.a, `SELECT count(*) FROM clusterings WHERE rebuilt_at IS NOT NULL AND collection_id = $1`, f.collection); n != 1 {
		t.Error("it was not done")
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM audit WHERE action = 'collection.recluster'`); n != 2 {
		t.Errorf("%d audit entries", n)
	}
	f.checkClusters(t, f.a, f.collection, 1)
}

// TestClustersHaveTheSizeThatTheCollectionSays: both rebuilt clusters and those to which sections
// are added later.
func TestClustersHaveTheSizeThatTheCollectionSays(t *testing.T) {
	f := setUp(t, store.Options{})
	var list []*page
	for i := range 8 {
		list = append(list, &page{name: fmt.Sprintf("p%d", i), tokens: []int{900}, links: []string{"p0", fmt.Sprintf("p%d", max(i-1, 0))}})
	}
	f.pages(t, f.a, f.collection, list[:7]...)
	f.curateAll(t, f.a, f.collection)
	largest := func() int {
		t.Helper()
		return one[int](t, f, f.a, `SELECT max(tokens) FROM clusters WHERE collection_id = $1`, f.collection)
	}
	if n := largest(); n != 3600 {
		t.Errorf("the largest cluster has %d tokens, want four pages of 900", n)
	}
	for _, tokens := range []int{-1, 999, 64_001} {
		var field *schema.FieldError
		if err := f.Recluster(t.Context(), f.a, f.collection, tokens); !errors.As(err, &field) || field.Field != "cluster_tokens" {
			t.Errorf("%d tokens gave %v", tokens, err)
		}
	}
	for _, x := range []struct{ asked, size, largest int }{{1800, 1800, 1800}, {0, 1800, 1800}, {6300, 6300, 6300}, {8000, 8000, 6300}} {
		if err := f.Recluster(t.Context(), f.a, f.collection, x.asked); err != nil {
			t.Fatal(err)
		}
		f.expectWaiting(t, true, "when it was asked for")
		f.curateAll(t, f.a, f.collection)
		c, err := f.Collection(t.Context(), f.a, f.collection.String())
		if n := largest(); err != nil || n != x.largest || c.ClusterTokens != x.size {
			t.Errorf("asked for %d tokens the largest cluster has %d and the collection says %d (%v), want %d and %d", x.asked, n, c.ClusterTokens, err, x.largest, x.size)
		}
	}
	f.pages(t, f.a, f.collection, list[7])
	f.curateAll(t, f.a, f.collection)
	if n := largest(); n != 7200 {
		t.Errorf("with an eighth page the largest cluster has %d tokens", n)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM audit WHERE action = 'collection.recluster' AND detail ->> 'cluster_tokens' = '6300'`); n != 1 {
		t.Errorf("%d audit entries have the size", n)
	}
}

func TestBackfillWritesGivenLinks(t *testing.T) {
	f := setUp(t, store.Options{})
	a := &page{name: "a", tokens: []int{10}, given: []any{"b"}}
	b := &page{name: "b", tokens: []int{10}}
	f.pages(t, f.a, f.collection, a, b)
	for _, table := range []string{"links", "lexical_entries", "lexical_pages", "lexical_segments"} {
		execAs(t, f, f.a, `DELETE FROM `+table)
	}
	if _, _, err := f.BackfillLexical(t.Context(), f.a.Tenant, f.collection, 10); err != nil {
		t.Fatal(err)
	}
	if got := f.links(t, f.a, a.version); got != "-1:b" {
		t.Errorf("links %q", got)
	}
}

func TestDeletedNeighboursOfAFolderAreSkipped(t *testing.T) {
	f := setUp(t, store.Options{})
	// The test excludes relations by vectors and links: only the folder relates first and last.
	first := &page{name: "f/00", tokens: []int{3000, 900}}
	var gone []*page
	for i := range 20 {
		gone = append(gone, &page{name: fmt.Sprintf("f/%02d", i+1), tokens: []int{10}})
	}
	f.pages(t, f.a, f.collection, append(gone, first)...)
	for _, g := range gone {
		if err := f.DeleteDocument(t.Context(), f.a, g.id); err != nil {
			t.Fatal(err)
		}
	}
	f.curateAll(t, f.a, f.collection)
	last := &page{name: "f/99", tokens: []int{50}, given: []any{"nowhere"}}
	// Others would be nearer by vector than the page of its folder.
	f.pages(t, f.a, f.collection, last)
	execAs(t, f, f.a, `DELETE FROM vectors_256`)
	f.curateAll(t, f.a, f.collection)
	f.together(t, f.a, true, first, last)
}

// A version that is superseded while a rebuild computes its clusters ends up in none.
func TestVersionLeavesDuringARebuild(t *testing.T) {
	f := setUp(t, store.Options{})
	a := &page{name: "a.md", tokens: []int{900}, links: []string{"b.md"}}
	b := &page{name: "b.md", tokens: []int{900}}
	alone := &page{name: "z/c.md", tokens: []int{3900}}
	f.pages(t, f.a, f.collection, a, b, alone)
	f.curateAll(t, f.a, f.collection)
	f.together(t, f.a, true, a, b)
	rebuilder := open(t, f.url, store.Options{Name: "rebuilder"})
	done := make(chan error, 1)
	err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE versions SET state = 'superseded' WHERE id = ANY ($1)`, []uuid.UUID{a.version, alone.version}); err != nil {
			return err
		}
		go func() {
			_, err := rebuilder.RebuildClusters(context.WithoutCancel(ctx), f.a.Tenant, f.collection, 1)
			done <- err
		}()
		f.awaitLock(t, "rebuilder")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	f.checkClusters(t, f.a, f.collection, 1)
	if n := one[int](t, f, f.a, `SELECT count(*) FROM cluster_members`); n != 1 {
		t.Errorf("%d members, want the one section that stayed", n)
	}
}

// A process whose login may not change tables can still purge.
func TestPurgeWithoutTheRightToDropShards(t *testing.T) {
	f := setUp(t, store.Options{OwnVectorsAbove: 10, KeepSuperseded: -1})
	r := rand.New(rand.NewPCG(53, 54))
	d := &insertedDocument{}
	for range 50 {
		d.vectors = append(d.vectors, unit(r))
	}
	f.plant(t, f.a, f.collection, []*insertedDocument{d})
	f.tend(t, f.a, f.collection)
	if err := f.DeleteCollection(t.Context(), f.a, f.collection); err != nil {
		t.Fatal(err)
	}
	f.tend(t, f.a, f.collection) // retires its shard
	role := fmt.Sprintf("plain_%x", schema.NewID())
	admin := adminOf(t, f.url)
	execute(t, admin, `CREATE ROLE `+role+` LOGIN NOINHERIT PASSWORD 'plain'; GRANT sluice_app, sluice_auth, sluice_system TO `+role)
	t.Cleanup(func() { execute(t, admin, `DROP ROLE `+role) })
	at, err := url.Parse(f.url)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword(role, "plain")
	plain := openPlain(t, at.String(), store.Options{KeepSuperseded: -1})
	defer plain.Close()
	for range 2 {
		if _, err := plain.PurgeOnce(t.Context(), 100); err != nil {
			t.Errorf("purge: %v", err)
		}
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM vector_shards WHERE retired_at IS NOT NULL`); n != 1 {
		t.Errorf("%d shards wait to be dropped", n)
	}
	f.purgeAll(t)
	if n := one[int](t, f, f.a, `SELECT count(*) FROM vector_shards`); n != 0 {
		t.Errorf("%d shards are left for the owner", n)
	}
}
