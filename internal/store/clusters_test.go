package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/cluster"
	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// page is a document with sections of the given numbers of tokens; its first section has the links.
type page struct {
	name   string
	tokens []int
	links  []string
	given  []any // links in its metadata
	near   int   // pages with the same value have the same vectors; 0: a vector of its own

	id, version uuid.UUID
}

var pageSerial int

// pages ingests pages in batches, and makes them live.
func (f *fixture) pages(t *testing.T, p schema.Principal, collection uuid.UUID, list ...*page) {
	t.Helper()
	docs := make([]batch.Document, len(list))
	generation := one[int](t, f, p, `SELECT generation FROM collections WHERE id = $1`, collection)
	for i, g := range list {
		u := text(g.name, uuid.NewString())
		if g.given != nil {
			u.Metadata = schema.Metadata{"links": g.given}
		}
		up := f.upload(t, p, collection, u)
		g.id, g.version = up.Document, up.Version
		attempt := one[int](t, f, p, `UPDATE versions SET state = 'processing' WHERE id = $1 RETURNING attempt`, g.version)
		docs[i] = g.document(attempt)
		docs[i].Text.Generation = generation
	}
	outcomes, err := f.WriteVersions(t.Context(), p.Tenant, collection, docs)
	if err != nil || len(outcomes) > 0 {
		t.Fatalf("outcomes %+v, %v", outcomes, err)
	}
}

func (g *page) document(attempt int) batch.Document {
	d := batch.Document{Attempt: wire.Attempt{Version: g.version, Attempt: attempt}}
	pageSerial++
	seed := uint64(g.near)
	if g.near == 0 {
		seed = uint64(pageSerial) << 20
	}
	r := rand.New(rand.NewPCG(seed, 1))
	vector := make([]float32, dimension)
	for i := range vector {
		vector[i] = float32(r.NormFloat64())
	}
	var rows []float32
	for i, tokens := range g.tokens {
		s := batch.Section{Section: schema.Section{ID: schema.NewID(), Ordinal: i, Text: "words", Tokens: tokens}}
		if i == 0 {
			s.Links = g.links
		}
		s.Passages = []schema.Passage{{ID: schema.NewID(), SectionID: s.ID, End: 5, Tokens: tokens}}
		d.Text.Sections = append(d.Text.Sections, s)
		rows = append(rows, vector...)
	}
	d.Vectors = batch.NewVectors(space, dimension, rows)
	return d
}

// curateAll clusters until nothing is left to do.
func (f *fixture) curateAll(t *testing.T, p schema.Principal, collection uuid.UUID) {
	t.Helper()
	for {
		_, more, err := f.ClusterChanged(t.Context(), p.Tenant, collection)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return
		}
	}
}

// clusterOf returns the cluster of a page's section under the live generation.
func (f *fixture) clusterOf(t *testing.T, p schema.Principal, g *page, section int) uuid.UUID {
	t.Helper()
	return one[uuid.UUID](t, f, p, `
SELECT m.cluster_id FROM cluster_members m JOIN collections c ON c.id = m.collection_id AND c.generation = m.generation
WHERE m.version_id = $1 AND m.section = $2`, g.version, section)
}

func (f *fixture) together(t *testing.T, p schema.Principal, want bool, a, b *page) {
	t.Helper()
	if got := f.clusterOf(t, p, a, 0) == f.clusterOf(t, p, b, 0); got != want {
		t.Errorf("%s and %s share a cluster: %v, want %v", a.name, b.name, got, want)
	}
}

const (
	overSQL = `
SELECT count(*) FROM (SELECT FROM cluster_members WHERE collection_id = $1 GROUP BY cluster_id HAVING sum(tokens) > 4000) x`
	wrongClustersSQL = `
SELECT count(*) FROM clusters c FULL JOIN
    (SELECT cluster_id, generation, sum(tokens) AS tokens, count(*) AS sections FROM cluster_members WHERE collection_id = $1 GROUP BY 1, 2) m
    ON m.cluster_id = c.id AND m.generation = c.generation
WHERE (c.collection_id = $1 OR c.id IS NULL) AND (c.tokens, c.sections) IS DISTINCT FROM (m.tokens, m.sections)`
	unclusteredSQL = `
SELECT count(*) FROM sections s JOIN versions v ON v.id = s.version_id AND v.state = 'ready'
WHERE s.collection_id = $1 AND NOT EXISTS (SELECT FROM cluster_members m WHERE m.section_id = s.id AND m.generation = $2)`
	strayMembersSQL = `
SELECT count(*) FROM cluster_members m WHERE m.collection_id = $1 AND NOT EXISTS (
    SELECT FROM versions v JOIN sections s ON s.version_id = v.id WHERE v.id = m.version_id AND v.state = 'ready' AND s.id = m.section_id AND s.ordinal = m.section)`
	miscountedSQL = `
SELECT count(*) FROM clusterings c WHERE c.collection_id = $1 AND c.members IS DISTINCT FROM (
    SELECT count(*) FROM cluster_members m WHERE m.collection_id = c.collection_id AND m.generation = c.generation)`
	lateMembersSQL = `
SELECT count(*) FROM cluster_members m JOIN clusterings c ON c.collection_id = m.collection_id AND c.generation = m.generation
WHERE m.collection_id = $1 AND m.epoch > c.epoch`
)

// checkClusters checks all invariants of a collection for which nothing is left to do.
func (f *fixture) checkClusters(t *testing.T, p schema.Principal, collection uuid.UUID, generation int) {
	t.Helper()
	for _, c := range []struct {
		what, sql string
		args      []any
	}{
		{"clusters over the limit", overSQL, []any{collection}},
		{"clusters with other sums than their members", wrongClustersSQL, []any{collection}},
		{"living sections in no cluster", unclusteredSQL, []any{collection, generation}},
		{"members that are not living sections", strayMembersSQL, []any{collection}},
		{"members of an epoch to come", lateMembersSQL, []any{collection}},
		{"clusterings with another number of members than they have", miscountedSQL, []any{collection}},
	} {
		if n := one[int](t, f, p, c.sql, c.args...); n != 0 {
			t.Errorf("%d %s", n, c.what)
		}
	}
}

func (f *fixture) links(t *testing.T, p schema.Principal, version uuid.UUID) string {
	t.Helper()
	return one[string](t, f, p, `SELECT coalesce(string_agg(section || ':' || target, ' ' ORDER BY section, target), '') FROM links WHERE version_id = $1`, version)
}

func TestLinksAreStoredAndPurged(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	a := &page{name: "a.md", tokens: []int{10, 10}, links: []string{"b.md#x", "c.md"}, given: []any{"p1", 7, strings.Repeat("x", 3000), "https://example.org/"}}
	f.pages(t, f.a, f.collection, a)
	if got, want := f.links(t, f.a, a.version), "-1:https://example.org/ -1:p1 0:b.md#x 0:c.md"; got != want {
		t.Errorf("links %q, want %q", got, want)
	}
	if _, err := f.UpdateDocument(t.Context(), f.a, a.id, schema.DocumentChange{Metadata: &schema.Metadata{"links": "p2"}}); err != nil {
		t.Fatal(err)
	}
	if got, want := f.links(t, f.a, a.version), "-1:p2 0:b.md#x 0:c.md"; got != want {
		t.Errorf("links %q, want %q", got, want)
	}
	f.curateAll(t, f.a, f.collection)
	if err := f.DeleteDocument(t.Context(), f.a, a.id); err != nil {
		t.Fatal(err)
	}
	f.purgeAll(t) // before curation has run
	if got := f.links(t, f.a, a.version); got != "" {
		t.Errorf("links %q are left", got)
	}
	f.curateAll(t, f.a, f.collection)
	f.checkClusters(t, f.a, f.collection, 1)
	if n := one[int](t, f, f.a, `SELECT count(*) FROM clusters`); n != 0 {
		t.Errorf("%d clusters are left of nothing", n)
	}
}

func TestLinkedPagesShareACluster(t *testing.T) {
	f := setUp(t, store.Options{})
	// Pages in different folders, with links to earlier and to later pages.
	early := &page{name: "x/early.md", tokens: []int{900}, links: []string{"../y/late.md#part", "https://elsewhere.org/z/other"}}
	other := &page{name: "z/other.md", tokens: []int{900}}
	far := &page{name: "w/far.md", tokens: []int{3900}}
	f.pages(t, f.a, f.collection, early, other, far)
	f.curateAll(t, f.a, f.collection)
	late := &page{name: "y/late.md", tokens: []int{900}}
	linking := &page{name: "v/linking.md", tokens: []int{900}, links: []string{"/y/late"}}
	index := &page{name: "q/README.md", tokens: []int{300}}
	given := &page{name: "given", tokens: []int{100}, given: []any{"q/README.md"}}
	f.pages(t, f.a, f.collection, late)
	f.curateAll(t, f.a, f.collection)
	f.pages(t, f.a, f.collection, linking, index, given)
	f.curateAll(t, f.a, f.collection)
	f.together(t, f.a, true, early, late)
	f.together(t, f.a, true, linking, late)
	f.together(t, f.a, true, index, given)
	f.together(t, f.a, false, far, early)
	f.checkClusters(t, f.a, f.collection, 1)

	// A new version without the link and of another size, and a deleted page.
	old := f.clusterOf(t, f.a, late, 0)
	f.pages(t, f.a, f.collection, &page{name: "y/late.md", tokens: []int{1000, 1000, 1000, 1000, 1000}})
	if err := f.DeleteDocument(t.Context(), f.a, linking.id); err != nil {
		t.Fatal(err)
	}
	f.curateAll(t, f.a, f.collection)
	f.checkClusters(t, f.a, f.collection, 1)
	if n := one[int](t, f, f.a, `SELECT count(*) FROM cluster_members WHERE version_id = ANY ($1)`, []uuid.UUID{late.version, linking.version}); n != 0 {
		t.Errorf("%d sections of versions that left are members (their cluster was %s)", n, old)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM versions WHERE NOT curated AND state IN ('ready', 'superseded')`); n != 0 {
		t.Errorf("%d versions are left uncurated", n)
	}
	// Without changes, clustering does nothing.
	before := one[int](t, f, f.a, `SELECT epoch FROM clusterings WHERE collection_id = $1`, f.collection)
	if done, more, err := f.ClusterChanged(t.Context(), f.a.Tenant, f.collection); done != 0 || more || err != nil {
		t.Errorf("did %d, more %t: %v", done, more, err)
	}
	if now := one[int](t, f, f.a, `SELECT epoch FROM clusterings WHERE collection_id = $1`, f.collection); now != before {
		t.Errorf("epoch went from %d to %d for nothing", before, now)
	}
}

func TestPagesWithoutLinksFindCompany(t *testing.T) {
	f := setUp(t, store.Options{})
	// Each page is in a folder of its own, so only vectors relate them.
	var list []*page
	for i := range 12 {
		list = append(list, &page{name: fmt.Sprintf("f%d/p%d", i, i), tokens: []int{1900}, near: 1 + i%6})
	}
	f.pages(t, f.a, f.collection, list[:6]...)
	f.curateAll(t, f.a, f.collection)
	f.pages(t, f.a, f.collection, list[6:]...)
	f.curateAll(t, f.a, f.collection)
	// Pages of the first batch could only join each other; a rebuild sees all.
	f.checkClusters(t, f.a, f.collection, 1)
	if _, err := f.RebuildClusters(t.Context(), f.a.Tenant, f.collection, 1); err != nil {
		t.Fatal(err)
	}
	f.checkClusters(t, f.a, f.collection, 1)
	for i := range 6 {
		f.together(t, f.a, true, list[i], list[i+6])
	}
	// One more page of a kind, whose cluster has room for it.
	small := &page{name: "s/small", tokens: []int{150}, near: 3}
	f.pages(t, f.a, f.collection, small)
	f.curateAll(t, f.a, f.collection)
	f.together(t, f.a, true, small, list[2])
}

func TestPagesOfAFolderShareClusters(t *testing.T) {
	f := setUp(t, store.Options{})
	var list []*page
	for _, folder := range []string{"b/", "a/", "a/deep/", "c/"} {
		for i := range 4 {
			// Longer than a cluster may be: vectors are not compared.
			list = append(list, &page{name: fmt.Sprintf("%sp%d", folder, i), tokens: []int{500, 1000, 1000, 1000, 1000}})
		}
	}
	for _, g := range list {
		f.pages(t, f.a, f.collection, g)
		f.curateAll(t, f.a, f.collection)
	}
	f.checkClusters(t, f.a, f.collection, 1)
	inFolders := func() (n int) {
		for i := 0; i < len(list); i += 4 {
			clusters := map[uuid.UUID]int{}
			for _, g := range list[i : i+4] {
				clusters[f.clusterOf(t, f.a, g, 0)]++
			}
			for _, pages := range clusters {
				n = max(n, pages)
			}
		}
		return n
	}
	if _, err := f.RebuildClusters(t.Context(), f.a.Tenant, f.collection, 1); err != nil {
		t.Fatal(err)
	}
	f.checkClusters(t, f.a, f.collection, 1)
	if n := inFolders(); n < 2 {
		t.Errorf("at most %d pages of a folder begin in one cluster", n)
	}
	for i, g := range list {
		for _, h := range list[i+1:] {
			if cluster.FolderOf(g.name) != cluster.FolderOf(h.name) {
				f.together(t, f.a, false, g, h)
			}
		}
	}
}

// churn makes random changes to a collection.
func (f *fixture) churn(t *testing.T, r *rand.Rand, live map[string]*page, steps int) {
	t.Helper()
	for range steps {
		var list []*page
		for range 1 + r.IntN(4) {
			g := &page{name: fmt.Sprintf("d%d/p%d.md", r.IntN(4), r.IntN(12)), near: 1 + r.IntN(8)}
			for range 1 + r.IntN(5) {
				g.tokens = append(g.tokens, 1+r.IntN(1000))
			}
			for range r.IntN(3) {
				g.links = append(g.links, fmt.Sprintf("../d%d/p%d.md", r.IntN(4), r.IntN(12)))
			}
			if !slices.ContainsFunc(list, func(o *page) bool { return o.name == g.name }) {
				list = append(list, g)
			}
		}
		f.pages(t, f.a, f.collection, list...)
		for _, g := range list {
			live[g.name] = g
		}
		for name, g := range live {
			if r.IntN(10) == 0 {
				if err := f.DeleteDocument(t.Context(), f.a, g.id); err != nil {
					t.Fatal(err)
				}
				delete(live, name)
			}
		}
	}
}

func TestClustersThroughUpdatesAndDeletes(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	r := rand.New(rand.NewPCG(7, 7))
	live := map[string]*page{}
	for round := range 15 {
		f.churn(t, r, live, 2)
		if round%4 == 1 {
			f.purgeAll(t) // sometimes before curation, sometimes after
		}
		f.curateAll(t, f.a, f.collection)
		f.checkClusters(t, f.a, f.collection, 1)
		if round%4 == 3 {
			f.purgeAll(t)
			f.checkClusters(t, f.a, f.collection, 1)
		}
		if round == 9 {
			if _, err := f.RebuildClusters(t.Context(), f.a.Tenant, f.collection, 1); err != nil {
				t.Fatal(err)
			}
			f.checkClusters(t, f.a, f.collection, 1)
		}
		if t.Failed() {
			t.Fatalf("after round %d", round)
		}
	}
}

// Two curators, a rebuild and purges run while a collection changes: no cluster is ever over the
// limit, and all invariants hold in the end.
func TestConcurrentCurators(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var group sync.WaitGroup
	loop := func(what string, do func() error) {
		group.Add(1)
		go func() {
			defer group.Done()
			for ctx.Err() == nil {
				if err := do(); err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
			}
		}()
	}
	curate := func() error {
		_, _, err := f.ClusterChanged(t.Context(), f.a.Tenant, f.collection)
		return err
	}
	loop("curate", curate)
	loop("curate", curate)
	loop("rebuild", func() error {
		_, err := f.RebuildClusters(t.Context(), f.a.Tenant, f.collection, 1)
		return err
	})
	loop("purge", func() error {
		_, err := f.PurgeOnce(t.Context(), 5)
		return err
	})
	loop("look", func() error {
		return f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			var over int
			if err := tx.QueryRow(ctx, overSQL, f.collection).Scan(&over); err != nil || over > 0 {
				return fmt.Errorf("%d clusters are over the limit, %w", over, err)
			}
			return nil
		})
	})
	f.churn(t, rand.New(rand.NewPCG(8, 8)), map[string]*page{}, 25)
	stop()
	group.Wait()
	f.curateAll(t, f.a, f.collection)
	f.checkClusters(t, f.a, f.collection, 1)
}
