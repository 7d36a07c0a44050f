package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

func TestRebuildTakesAllAtOnce(t *testing.T) {
	f := setUp(t, store.Options{})
	r := rand.New(rand.NewPCG(9, 9))
	f.churn(t, r, map[string]*page{}, 10)
	f.curateAll(t, f.a, f.collection)
	shape := func() string {
		return one[string](t, f, f.a, `
SELECT string_agg(s, '; ' ORDER BY s) FROM (
    SELECT string_agg(section_id::text, ' ' ORDER BY section_id) AS s FROM cluster_members WHERE collection_id = $1 GROUP BY cluster_id) x`, f.collection)
	}
	const epochsSQL = `SELECT count(DISTINCT epoch) FROM cluster_members WHERE collection_id = $1`
	var before string
	for range 2 { // equal input gives equal clusters
		n, err := f.RebuildClusters(t.Context(), f.a.Tenant, f.collection, 1)
		if err != nil {
			t.Fatal(err)
		}
		if have := one[int](t, f, f.a, `SELECT count(*) FROM clusters WHERE collection_id = $1`, f.collection); n != have || n == 0 {
			t.Errorf("%d clusters, said %d", have, n)
		}
		if n := one[int](t, f, f.a, epochsSQL, f.collection); n != 1 {
			t.Errorf("members of %d epochs", n)
		}
		now := shape()
		if before != "" && now != before {
			t.Error("a second rebuild gave other clusters")
		}
		before = now
	}
	f.checkClusters(t, f.a, f.collection, 1)
	if _, err := f.RebuildClusters(t.Context(), f.a.Tenant, f.collection, 5); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("a generation that nobody builds: %v", err)
	}
	if _, err := f.RebuildClusters(t.Context(), f.b.Tenant, f.collection, 1); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("another tenant's collection: %v", err)
	}
}

func TestGenerationsAreClusteredApart(t *testing.T) {
	f := setUp(t, store.Options{})
	r := rand.New(rand.NewPCG(10, 10))
	live := map[string]*page{}
	f.churn(t, r, live, 4)
	f.curateAll(t, f.a, f.collection)
	execAs(t, f, f.a, `INSERT INTO generations (tenant_id, collection_id, number, language, segmentation, state) VALUES ($1, $2, 2, 'en', '{"by":"segmenter"}', 'building')`, f.a.Tenant, f.collection)
	f.churn(t, r, live, 1)
	if _, err := f.RebuildClusters(t.Context(), f.a.Tenant, f.collection, 2); err != nil {
		t.Fatal(err)
	}
	f.churn(t, r, live, 3) // changes after the rebuild has read its input
	f.curateAll(t, f.a, f.collection)
	f.checkClusters(t, f.a, f.collection, 1)
	f.checkClusters(t, f.a, f.collection, 2)

	execAs(t, f, f.a, `UPDATE collections SET generation = 2 WHERE id = $1`, f.collection)
	f.churn(t, r, live, 3)
	f.curateAll(t, f.a, f.collection)
	if n := one[int](t, f, f.a, wrongClustersSQL, f.collection); n != 0 {
		t.Errorf("%d clusters, those of the old generation too, with other sums than their members", n)
	}
	execAs(t, f, f.a, `INSERT INTO generations (tenant_id, collection_id, number, language, segmentation, state, finished_at) VALUES ($1, $2, 1, 'en', '{"by":"segmenter"}', 'retired', now())`, f.a.Tenant, f.collection)
	for more := true; more; {
		var err error
		if _, more, err = f.RemoveGenerations(t.Context(), f.a.Tenant, f.collection, -time.Minute, 100); err != nil {
			t.Fatal(err)
		}
	}
	f.churn(t, r, live, 2)
	f.curateAll(t, f.a, f.collection)
	f.checkClusters(t, f.a, f.collection, 2)
	if n := one[int](t, f, f.a, `SELECT count(*) FROM cluster_members WHERE generation = 1`); n != 0 {
		t.Errorf("%d members of the old generation", n)
	}
}

// TestConcurrentFlipLeavesNoSectionBehind: a generation becomes live after curation has read the
// number of the live one, and before curation locks its clusters.
func TestConcurrentFlipLeavesNoSectionBehind(t *testing.T) {
	f := setUp(t, store.Options{})
	r := rand.New(rand.NewPCG(11, 11))
	f.churn(t, r, map[string]*page{}, 4)
	for _, sql := range []string{
		`INSERT INTO generations (tenant_id, collection_id, number, language, segmentation, state) VALUES ($1, $2, 2, 'en', '{"by":"segmenter"}', 'building')`,
		`INSERT INTO clusterings (tenant_id, collection_id, generation) VALUES ($1, $2, 2)`,
	} {
		execAs(t, f, f.a, sql, f.a.Tenant, f.collection)
	}
	curating := open(t, f.url, store.Options{Name: "curates"})
	var curated sync.WaitGroup
	defer curated.Wait()
	err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO clusterings (tenant_id, collection_id, generation) VALUES ($1, $2, 1)`, f.a.Tenant, f.collection); err != nil {
			return err
		}
		curated.Go(func() {
			if _, _, err := curating.ClusterChanged(context.WithoutCancel(ctx), f.a.Tenant, f.collection); err != nil {
				t.Error(err)
			}
		})
		f.awaitLock(t, "curates") // it wants to lock the first generation's clusters
		b := &pgx.Batch{}
		b.Queue(`UPDATE generations SET state = 'live' WHERE collection_id = $1 AND number = 2`, f.collection)
		b.Queue(`UPDATE collections SET generation = 2 WHERE id = $1`, f.collection)
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	curated.Wait()
	f.curateAll(t, f.a, f.collection)
	f.checkClusters(t, f.a, f.collection, 2)
}

// TestConcurrentRebuildLeavesNoSectionBehind: a document becomes ready after a rebuild of the
// clusters has read its input, and is curated while the rebuild still holds its locks.
func TestConcurrentRebuildLeavesNoSectionBehind(t *testing.T) {
	f := setUp(t, store.Options{})
	first := &page{name: "first.md", tokens: []int{100}}
	f.pages(t, f.a, f.collection, first)
	f.curateAll(t, f.a, f.collection)
	execAs(t, f, f.a, `INSERT INTO generations (tenant_id, collection_id, number, language, segmentation, state) VALUES ($1, $2, 2, 'en', '{"by":"segmenter"}', 'building')`, f.a.Tenant, f.collection)
	rebuilding, curating := open(t, f.url, store.Options{Name: "rebuilds"}), open(t, f.url, store.Options{Name: "curates"})
	var work sync.WaitGroup
	defer work.Wait()
	err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM versions WHERE id = $1 FOR UPDATE`, first.version); err != nil {
			return err
		}
		work.Go(func() {
			if _, err := rebuilding.RebuildClusters(context.WithoutCancel(ctx), f.a.Tenant, f.collection, 2); err != nil {
				t.Error(err)
			}
		})
		f.awaitLock(t, "rebuilds") // it has read its input
		f.pages(t, f.a, f.collection, &page{name: "late.md", tokens: []int{100}})
		work.Go(func() {
			if _, _, err := curating.ClusterChanged(context.WithoutCancel(ctx), f.a.Tenant, f.collection); err != nil {
				t.Error(err)
			}
		})
		f.awaitLock(t, "curates") // it wants to lock the first generation's clusters
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	work.Wait()
	f.curateAll(t, f.a, f.collection)
	f.checkClusters(t, f.a, f.collection, 1)
	f.checkClusters(t, f.a, f.collection, 2)
}

func TestADeletedCollectionHasNoClusters(t *testing.T) {
	f := setUp(t, store.Options{})
	f.churn(t, rand.New(rand.NewPCG(11, 11)), map[string]*page{}, 5)
	f.curateAll(t, f.a, f.collection)
	if err := f.DeleteCollection(t.Context(), f.a, f.collection); err != nil {
		t.Fatal(err)
	}
	f.curateAll(t, f.a, f.collection)
	if n := one[int](t, f, f.a, `SELECT (SELECT count(*) FROM clusters) + (SELECT count(*) FROM cluster_members) + (SELECT count(*) FROM clusterings)`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM versions WHERE NOT curated AND state IN ('ready', 'superseded')`); n != 0 {
		t.Errorf("%d versions are left uncurated", n)
	}
	if _, err := f.RebuildClusters(t.Context(), f.a.Tenant, f.collection, 1); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("rebuilding it: %v", err)
	}
}

func TestWhatDriftedIsClusteredAnew(t *testing.T) {
	f := setUp(t, store.Options{})
	const rebuiltSQL = `SELECT coalesce(extract(epoch FROM rebuilt_at), 0)::float8 FROM clusterings WHERE collection_id = $1`
	add := func(from, to int) float64 {
		t.Helper()
		var list []*page
		for i := from; i < to; i++ {
			list = append(list, &page{name: fmt.Sprintf("d%d/p.md", i), tokens: []int{900}, links: []string{fmt.Sprintf("../d%d/p.md", i^1)}})
		}
		f.pages(t, f.a, f.collection, list...)
		f.curateAll(t, f.a, f.collection)
		f.checkClusters(t, f.a, f.collection, 1)
		return one[float64](t, f, f.a, rebuiltSQL, f.collection)
	}
	if at := add(0, 60); at != 0 {
		t.Errorf("60 sections were clustered anew at %v", at)
	}
	first := add(60, 80)
	if first == 0 {
		t.Error("80 new sections were not clustered anew")
	}
	if at := add(80, 92); at != first {
		t.Error("12 of 92 sections made all be clustered anew")
	}
	// A collection that has grown by a fifth is rebuilt (docs/clusters.md).
	if at := add(92, 100); at == first {
		t.Error("20 of 100 sections did not make all be clustered anew")
	}
}
