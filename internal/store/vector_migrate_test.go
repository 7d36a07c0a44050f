package store_test

import (
	"math/rand/v2"
	"testing"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/store"
)

// TestVectorsOutliveTheirMigration: vectors in a collection's own partition and in the shared one
// are found in the single table of an older schema, and again after the upgrade.
func TestVectorsOutliveTheirMigration(t *testing.T) {
	f := setUp(t, store.Options{OwnVectorsAbove: 50})
	r := rand.New(rand.NewPCG(41, 42))
	var documents []*insertedDocument
	for range 10 {
		d := &insertedDocument{}
		for range 6 {
			d.vectors = append(d.vectors, unit(r))
		}
		documents = append(documents, d)
	}
	f.plant(t, f.a, f.collection, documents)
	f.tend(t, f.a, f.collection)
	f.plant(t, f.a, f.collection, []*insertedDocument{{vectors: [][]float32{unit(r)}}}) // stays in the shared partition
	if n := one[int](t, f, f.a, `SELECT count(DISTINCT shard) FROM vectors_256`); n != 2 {
		t.Fatalf("vectors are in %d partitions", n)
	}
	f.Close()

	downTo(t, f.owner, 42)
	f.All = open(t, f.url, store.Options{OwnVectorsAbove: 50})
	if n := one[int](t, f, f.a, `SELECT count(*) FROM vectors_256`); n != 61 {
		t.Errorf("%d vectors in the older schema, want 61", n)
	}
	if n := one[int](t, f, f.b, `SELECT count(*) FROM vectors_256`); n != 0 {
		t.Errorf("another tenant sees %d of them", n)
	}
	if err := store.Migrate(t.Context(), f.owner, f.url, ""); err != nil {
		t.Fatal(err)
	}
	f.All = open(t, f.url, store.Options{OwnVectorsAbove: 50})
	for _, tended := range []bool{false, true} {
		if tended {
			f.tend(t, f.a, f.collection)
		}
		hits, err := f.Nearest(t.Context(), dense.NearestQuery{Principal: f.a, Collection: f.collection, Space: space, Vector: documents[3].vectors[2], K: 100})
		if err != nil || len(hits) != 61 || hits[0].Passage != documents[3].passages[2] {
			t.Errorf("tended %t: %d hits, %v", tended, len(hits), err)
		}
	}
}
