package store_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// counted counts the calls and results of a storage, and can hold its results back.
type counted struct {
	search.Storage
	loads, checks, headers, pages, entries, changes atomic.Int64
	matches, all, versions                          atomic.Int64 // conditions, those for all versions, versions
	hold                                            atomic.Pointer[gate]
}

// gate holds results back until it is opened.
type gate struct{ reached, opened chan struct{} }

func (c *counted) LoadLexical(ctx context.Context, l search.Load) (search.Loaded, error) {
	r, err := c.Storage.LoadLexical(ctx, l)
	c.loads.Add(1)
	c.headers.Add(int64(len(r.Headers)))
	c.pages.Add(int64(len(r.Pages)))
	c.entries.Add(int64(len(r.Entries)))
	c.changes.Add(int64(len(r.Changes)))
	if hold := c.hold.Load(); hold != nil {
		hold.reached <- struct{}{}
		<-hold.opened
	}
	return r, err
}

func (c *counted) LexicalRevision(ctx context.Context, tenant, collection uuid.UUID) func() (int64, error) {
	c.checks.Add(1)
	return c.Storage.LexicalRevision(ctx, tenant, collection)
}

func (c *counted) MatchLexical(ctx context.Context, tenant, collection uuid.UUID, asked []search.Match) ([][]uuid.UUID, error) {
	for _, m := range asked {
		c.matches.Add(1)
		c.versions.Add(int64(len(m.Versions)))
		if m.All {
			c.all.Add(1)
		}
	}
	return c.Storage.MatchLexical(ctx, tenant, collection, asked)
}

func (c *counted) parts() int64 { return c.headers.Load() + c.pages.Load() }

// What one query has loaded no other loads again; of several queries that need the same at the same
// time, one loads it.
func TestLexicalLoadsOnce(t *testing.T) {
	f := setUp(t, store.Options{})
	var list []*written
	for i := range 10 {
		w := &written{name: fmt.Sprint(i), body: fmt.Sprintf("heron number%d", i)}
		f.write(t, f.a, f.collection, w)
		list = append(list, w)
	}
	s := &counted{Storage: f.SearchStore}
	x := search.NewIndex(s, 64<<20)
	expect(t, x, f.a, f.collection, "heron number3 number4", list...)
	cold, loads, checks := s.parts(), s.loads.Load(), s.checks.Load()
	if cold < 20 {
		t.Fatalf("%d parts of 10 segments", cold)
	}
	expect(t, x, f.a, f.collection, "heron number3 number4", list...)
	if got := s.parts(); got != cold {
		t.Errorf("a warm search loaded %d parts", got-cold)
	}
	if got := s.loads.Load() - loads; got != 0 {
		t.Errorf("%d warm searches loaded %d times", len(units), got)
	}
	if got := s.checks.Load() - checks; got != int64(len(units)) {
		t.Errorf("%d warm searches asked %d times whether anything has changed", len(units), got)
	}

	// Sixteen at once, while the first is held back.
	s2 := &counted{Storage: f.SearchStore}
	x2 := search.NewIndex(s2, 64<<20)
	hold := &gate{make(chan struct{}), make(chan struct{})}
	s2.hold.Store(hold)
	var wg sync.WaitGroup
	search := func() {
		q := lexical.TermQuery{Unit: schema.UnitPassage, K: 100, Terms: []string{"heron"}, Settings: lexical.Defaults}
		if r, err := x2.Search(t.Context(), f.a.Tenant, f.collection, q); err != nil || len(r.Hits) != 10 {
			t.Errorf("%d hits, %v", len(r.Hits), err)
		}
	}
	wg.Go(search)
	<-hold.reached
	alone := s2.parts()
	for range 15 {
		wg.Go(search)
	}
	// A waiting search gives up when its caller does.
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() {
		_, err := x2.Search(ctx, f.a.Tenant, f.collection, lexical.TermQuery{Unit: schema.UnitPassage, K: 1})
		gaveUp <- err
	}()
	cancel()
	if err := <-gaveUp; err == nil {
		t.Error("a cancelled search found something")
	}
	s2.hold.Store(nil)
	close(hold.opened)
	wg.Wait()
	if got := s2.parts(); got != alone {
		t.Errorf("16 searches at once loaded %d parts, one alone %d", got, alone)
	}
}

// A view that a query has opened stays usable, whatever happens meanwhile.
func TestLexicalViewOutlivesEverything(t *testing.T) {
	f := setUp(t, store.Options{})
	var list []*written
	for i := range 8 {
		w := &written{name: fmt.Sprint(i), body: fmt.Sprintf("heron number%d", i)}
		f.write(t, f.a, f.collection, w)
		list = append(list, w)
	}
	q := lexical.TermQuery{Unit: schema.UnitDocument, K: 100, Terms: []string{"heron"}, Settings: lexical.Defaults}
	x := search.NewIndex(f.SearchStore, 1) // keeps nothing
	view, err := x.View(t.Context(), f.a.Tenant, f.collection, q)
	if err != nil {
		t.Fatal(err)
	}
	before, err := view.Search(q)
	if err != nil || len(before.Hits) != len(list) {
		t.Fatalf("%d hits, %v", len(before.Hits), err)
	}
	mergeAll(t, f)
	if err := f.DeleteCollection(t.Context(), f.a, f.collection); err != nil {
		t.Fatal(err)
	}
	after, err := view.Search(q)
	if err != nil || fmt.Sprint(before.Hits) != fmt.Sprint(after.Hits) {
		t.Errorf("%v, before %v, %v", after.Hits, before.Hits, err)
	}
}

// Clusters are read when they are first needed, and later only newer ones.
func TestLexicalReadsNewClusters(t *testing.T) {
	f := setUp(t, store.Options{})
	a, b, c := &written{name: "a", body: "heron one|heron two"}, &written{name: "b", body: "heron three"}, &written{name: "c", body: "egret"}
	f.write(t, f.a, f.collection, a, b, c)
	s := &counted{Storage: f.SearchStore}
	x := search.NewIndex(s, 64<<20)
	clusters := func(text string) map[uuid.UUID]bool {
		t.Helper()
		r, err := x.SearchText(t.Context(), f.a.Tenant, f.collection, text, lexical.TermQuery{Unit: schema.UnitCluster, K: 10, Settings: lexical.Defaults})
		if err != nil {
			t.Fatal(err)
		}
		out := map[uuid.UUID]bool{}
		for _, h := range r.Hits {
			out[h.Cluster] = true
		}
		return out
	}
	single := map[uuid.UUID]bool{
		lexical.SingletonCluster(a.version, 0): true, lexical.SingletonCluster(a.version, 1): true, lexical.SingletonCluster(b.version, 0): true,
	}
	if got := clusters("heron"); !maps.Equal(got, single) {
		t.Errorf("unclustered: %v, want %v", got, single)
	}
	first, second := schema.NewID(), schema.NewID()
	put := func(epoch int, version uuid.UUID, section int, cluster uuid.UUID) {
		t.Helper()
		execAs(t, f, f.a, `INSERT INTO cluster_members (tenant_id, collection_id, generation, section_id, version_id, section, cluster_id, tokens, epoch)
			SELECT tenant_id, collection_id, 1, id, version_id, ordinal, $3, 1, $4 FROM sections WHERE version_id = $1 AND ordinal = $2
			ON CONFLICT (section_id, generation, tenant_id) DO UPDATE SET cluster_id = $3, epoch = $4`, version, section, cluster, epoch)
		execAs(t, f, f.a, `INSERT INTO clusterings (tenant_id, collection_id, generation, epoch) VALUES ($1, $2, 1, $3)
			ON CONFLICT (collection_id, generation, tenant_id) DO UPDATE SET epoch = $3`, f.a.Tenant, f.collection, epoch)
	}
	put(1, a.version, 0, first)
	put(1, b.version, 0, first)
	if got, want := clusters("heron"), (map[uuid.UUID]bool{first: true, lexical.SingletonCluster(a.version, 1): true}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	read := s.changes.Load()
	put(2, b.version, 0, second)
	if got, want := clusters("heron"), (map[uuid.UUID]bool{first: true, second: true, lexical.SingletonCluster(a.version, 1): true}); !maps.Equal(got, want) {
		t.Errorf("after a change %v, want %v", got, want)
	}
	if got := s.changes.Load() - read; read != 2 || got != 1 {
		t.Errorf("read %d assignments and then %d, want 2 and then 1", read, got)
	}
	read = s.changes.Load()
	found(t, x, f.a, f.collection, schema.UnitSection, "heron")
	clusters("heron")
	if got := s.changes.Load() - read; got != 0 {
		t.Errorf("%d assignments read again", got)
	}
	// Another generation has other clusters.
	execAs(t, f, f.a, `UPDATE collections SET generation = 2 WHERE id = $1`, f.collection)
	if got := clusters("heron"); len(got) != 0 {
		t.Errorf("a generation without an index gave %v", got)
	}
}
