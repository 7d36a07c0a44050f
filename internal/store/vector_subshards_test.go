package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/curate/due"
	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/corpus"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// The sizes of the shards that searches use, and how many of these have an index.
	shardSizesSQL = `
SELECT coalesce(string_agg(n || CASE WHEN indexed IS NULL THEN ' bare' ELSE '' END, ' ' ORDER BY created_at, id), '') FROM (
    SELECT h.id, h.created_at, h.indexed, (SELECT count(*) FROM vectors_256 v WHERE v.shard = h.id) AS n
    FROM vector_shards h WHERE h.collection_id = $1 AND h.retired_at IS NULL AND h.replaces = '{}') s`
	copiedSQL = `
SELECT count(*) FROM vectors_256 v JOIN vector_shards h ON h.id = v.shard WHERE h.retired_at IS NULL AND h.replaces <> '{}'`
)

// takeBuildSlot takes a slot for index builds until release is called.
func (f *fixture) takeBuildSlot(t *testing.T, place int) (release func()) {
	t.Helper()
	conn := connect(t, f.url)
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock(hashtextextended('sluice builds an index of vectors ' || $1::int, 0))`, place); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		// Just closing would release it only when the server's process has ended.
		if _, err := conn.Exec(context.Background(), `SELECT pg_advisory_unlock_all()`); err != nil {
			t.Error(err)
		}
		_ = conn.Close(context.Background())
	}
}

// grow plants documents of 20 vectors around topics.
func (f *fixture) grow(t *testing.T, r *rand.Rand, about [][]float32, n int) (documents []*insertedDocument) {
	t.Helper()
	for i := range n {
		d := &insertedDocument{metadata: map[string][]string{"year": {"2023"}}}
		if i%10 == 0 {
			d.metadata["year"] = []string{"2024"}
		}
		if i%2 == 1 {
			d.labels = []string{"legal"}
		}
		for range 20 {
			d.vectors = append(d.vectors, clustered(r, about))
		}
		documents = append(documents, d)
	}
	f.plant(t, f.a, f.collection, documents)
	return documents
}

// findsAll checks that a search with a large k returns all, each once.
func (f *fixture) findsAll(t *testing.T, r *rand.Rand, when string, documents []*insertedDocument) {
	t.Helper()
	want := 0
	for _, d := range documents {
		if !d.deleted {
			want += len(d.vectors)
		}
	}
	p := f.a
	p.Groups = []string{"legal"}
	hits, err := f.Nearest(t.Context(), dense.NearestQuery{Principal: p, Collection: f.collection, Space: space, Vector: unit(r), K: 5000})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uuid.UUID]bool{}
	for _, h := range hits {
		seen[h.Passage] = true
	}
	if len(hits) != want || len(seen) != want {
		t.Errorf("%s: %d hits of %d passages, want %d", when, len(hits), len(seen), want)
	}
}

// TestLargeCollectionsHaveSeveralIndexes: none has more vectors than the setting says, and together
// they return what an exact search returns.
func TestLargeCollectionsHaveSeveralIndexes(t *testing.T) {
	f := setUp(t, store.Options{OwnVectorsAbove: 300, ShardVectors: 500})
	r := rand.New(rand.NewPCG(61, 62))
	about := topics(r, 40)
	documents := f.grow(t, r, about, 65)
	check := func(when, sizes string) {
		t.Helper()
		if got := one[string](t, f, f.a, shardSizesSQL, f.collection); got != sizes {
			t.Errorf("%s: shards of %s, want %s", when, got, sizes)
		}
		f.findsAll(t, r, when, documents)
		for _, c := range []struct {
			what   string
			groups []string
			filter schema.Filter
			keep   func(*insertedDocument) bool
		}{
			{"all", []string{"legal"}, nil, nil},
			{"unlabelled", nil, nil, func(d *insertedDocument) bool { return d.labels == nil }},
			{"a tenth", []string{"legal"}, schema.Filter{{Key: "year", Op: schema.OpEq, Values: []string{"2024"}}},
				func(d *insertedDocument) bool { return d.metadata["year"][0] == "2024" }},
		} {
			p := f.a
			p.Groups = c.groups
			good, want := 0, 0
			for range 30 {
				v := clustered(r, about)
				best := exact(documents, v, 10, c.keep)
				hits, err := f.Nearest(t.Context(), dense.NearestQuery{Principal: p, Collection: f.collection, Space: space, Vector: v, Filter: c.filter, K: 10})
				if err != nil || len(hits) != len(best) {
					t.Fatalf("%s, %s: %d hits, want %d, %v", when, c.what, len(hits), len(best), err)
				}
				good += recall(hits, best)
				want += len(best)
			}
			if share := float64(good) / float64(want); share < 0.99 {
				t.Errorf("%s, %s: recall@10 %.3f", when, c.what, share)
			}
		}
	}
	f.tend(t, f.a, f.collection)
	check("at first", "500 500 300")
	documents = append(documents, f.grow(t, r, about, 5)...)
	f.tend(t, f.a, f.collection)
	check("with a few more, which the newest takes", "500 500 400")
	documents = append(documents, f.grow(t, r, about, 15)...)
	f.tend(t, f.a, f.collection)
	check("with more than it has room for", "500 500 400 300")
	got, err := f.Recall(t.Context(), f.a.Tenant, f.collection, 50)
	if err != nil || got.Indexed != 1700 || got.Samples != 50 || got.Recall < 0.99 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestDeletedVectorsAreNotAmongTheNearest searches indexes that have deleted vectors: few, so that
// those that a walk returns to spare are enough, and then so many that they are not. Without labels
// a walk does not check what it finds.
func TestDeletedVectorsAreNotAmongTheNearest(t *testing.T) {
	f := setUp(t, store.Options{OwnVectorsAbove: 300, ShardVectors: 500, KeepSuperseded: -1})
	r := rand.New(rand.NewPCG(67, 68))
	about := topics(r, 40)
	var documents []*insertedDocument
	grow := func(n int) {
		var new []*insertedDocument
		for range n {
			d := &insertedDocument{}
			for range 4 {
				d.vectors = append(d.vectors, clustered(r, about))
			}
			new = append(new, d)
		}
		f.plant(t, f.a, f.collection, new)
		documents = append(documents, new...)
	}
	grow(325)
	f.tend(t, f.a, f.collection)
	grow(5)
	if got, want := one[string](t, f, f.a, shardSizesSQL, f.collection), "500 500 300"; got != want {
		t.Fatalf("shards of %s, want %s", got, want)
	}
	for _, every := range []int{0, 10, 2} {
		for i, d := range documents {
			if every > 0 && i%every == 0 && !d.deleted {
				d.deleted = true
				if err := f.DeleteDocument(t.Context(), f.a, d.id); err != nil {
					t.Fatal(err)
				}
			}
		}
		good := 0
		const asked, k = 40, 12
		for range asked {
			v := clustered(r, about)
			hits, err := f.Nearest(t.Context(), dense.NearestQuery{Principal: f.a, Collection: f.collection, Space: space, Vector: v, K: k})
			if err != nil || len(hits) != k {
				t.Fatalf("one in %d is deleted: %d hits, want %d, %v", every, len(hits), k, err)
			}
			good += recall(hits, exact(documents, v, k, nil))
			for _, d := range documents {
				if d.deleted && slices.ContainsFunc(hits, func(h dense.Hit) bool { return h.Ref.Version == d.version }) {
					t.Fatalf("one in %d is deleted: a deleted document is among the hits", every)
				}
			}
		}
		if share := float64(good) / (asked * k); share < 0.99 {
			t.Errorf("one in %d is deleted: recall@%d %.3f", every, k, share)
		}
	}
}

// TestIndexesServeUntilOneReplacesThem: small shards are merged, and searched by their indexes
// until the new shard has its own.
func TestIndexesServeUntilOneReplacesThem(t *testing.T) {
	f := setUp(t, store.Options{OwnVectorsAbove: 100, ShardVectors: 3000, KeepSuperseded: -1})
	r := rand.New(rand.NewPCG(63, 64))
	about := topics(r, 40)
	var documents []*insertedDocument
	for _, n := range []int{6, 12, 24} {
		documents = append(documents, f.grow(t, r, about, n)...)
		f.tend(t, f.a, f.collection)
	}
	documents = append(documents, f.grow(t, r, about, 48)...)
	steps, replaced := 0, false
	for more := true; more; steps++ {
		var err error
		sizes := one[string](t, f, f.a, shardSizesSQL, f.collection)
		if sizes == "120 240 480 960" && !replaced {
			// Its vectors are copied, but no index is built.
			release := f.takeBuildSlot(t, 0)
			for more := true; more && err == nil; {
				more, err = f.TendVectors(t.Context(), f.a.Tenant, f.collection)
			}
			if !errors.Is(err, due.ErrBuildsTaken) {
				t.Fatalf("with another build: %v", err)
			}
			if n := one[int](t, f, f.a, copiedSQL); n != 1800 {
				t.Errorf("%d vectors are copied", n)
			}
			f.findsAll(t, r, "with copies", documents)
			if got, err := f.Recall(t.Context(), f.a.Tenant, f.collection, 20); err != nil || got.Indexed != 1800 {
				t.Errorf("with copies: %+v, %v", got, err)
			}
			// What is purged meanwhile is also removed from the copies, as is a row that was copied
			// from a deleted one at the same moment.
			documents[3].deleted = true
			if err := f.DeleteDocument(t.Context(), f.a, documents[3].id); err != nil {
				t.Fatal(err)
			}
			f.purgeAll(t)
			stray := documents[7].passages[0]
			execAs(t, f, f.a, `DELETE FROM vectors_256 v USING vector_shards h WHERE v.shard = h.id AND h.replaces = '{}' AND v.passage_id = $1`, stray)
			documents[7].vectors = documents[7].vectors[1:]
			release()
			replaced = true
		}
		if more, err = f.TendVectors(t.Context(), f.a.Tenant, f.collection); err != nil {
			t.Fatal(err)
		}
		f.findsAll(t, r, fmt.Sprint("after step ", steps), documents)
		if got, err := f.Recall(t.Context(), f.a.Tenant, f.collection, 20); err != nil || got.Indexed < 840 || got.Recall < 0.99 {
			t.Errorf("after step %d: %+v, %v", steps, got, err)
		}
	}
	if got := one[string](t, f, f.a, shardSizesSQL, f.collection); !replaced || got != "1779" {
		t.Errorf("replaced: %t, shards of %s", replaced, got)
	}
	f.purgeAll(t)
	if n := one[int](t, f, f.a, `SELECT count(*) FROM vectors_256`); n != 1779 {
		t.Errorf("%d vectors are left", n)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM vector_shards`); n != 1 {
		t.Errorf("%d shards are left", n)
	}
	f.findsAll(t, r, "after all", documents)
}

// TestSparseIndexesAreReplaced: an index most of whose vectors are gone is replaced.
func TestSparseIndexesAreReplaced(t *testing.T) {
	f := setUp(t, store.Options{OwnVectorsAbove: 100, KeepSuperseded: -1})
	r := rand.New(rand.NewPCG(65, 66))
	documents := f.grow(t, r, topics(r, 10), 20)
	f.tend(t, f.a, f.collection)
	for _, d := range documents[:15] {
		d.deleted = true
		if err := f.DeleteDocument(t.Context(), f.a, d.id); err != nil {
			t.Fatal(err)
		}
	}
	f.purgeAll(t)
	execute(t, adminOf(t, f.url), `VACUUM ANALYZE`)
	if is, err := f.VectorsDue(t.Context(), f.a.Tenant, f.collection); !is || err != nil {
		t.Errorf("due: %t, %v", is, err)
	}
	f.tend(t, f.a, f.collection)
	if n := one[int64](t, f, f.a, `SELECT indexed FROM vector_shards WHERE retired_at IS NULL`); n != 100 {
		t.Errorf("%d indexed", n)
	}
	f.findsAll(t, r, "after all", documents)
	if is, err := f.VectorsDue(t.Context(), f.a.Tenant, f.collection); is || err != nil {
		t.Errorf("due again: %t, %v", is, err)
	}
}

// TestDeletedCollectionEndsItsReplacement: a shard that is to replace others is dropped with them.
func TestDeletedCollectionEndsItsReplacement(t *testing.T) {
	f := setUp(t, store.Options{OwnVectorsAbove: 10, KeepSuperseded: -1})
	r := rand.New(rand.NewPCG(67, 68))
	f.grow(t, r, topics(r, 10), 2)
	f.tend(t, f.a, f.collection)
	execAs(t, f, f.a, `INSERT INTO vector_shards (tenant_id, id, collection_id, generation, dimension, replaces)
		SELECT tenant_id, gen_random_uuid(), collection_id, generation, dimension, ARRAY[id] FROM vector_shards`)
	if _, err := f.TendVectors(t.Context(), f.a.Tenant, f.collection); err != nil { // its partition
		t.Fatal(err)
	}
	if err := f.DeleteCollection(t.Context(), f.a, f.collection); err != nil {
		t.Fatal(err)
	}
	f.tend(t, f.a, f.collection)
	f.purgeAll(t)
	if n := one[int](t, f, f.a, `SELECT count(*) FROM vector_shards`) + one[int](t, f, f.a, `SELECT count(*) FROM vectors_256`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// TestAsManyIndexesAreBuiltAsMayBe: the limit is for all processes of the database.
func TestAsManyIndexesAreBuiltAsMayBe(t *testing.T) {
	f := setUp(t, store.Options{OwnVectorsAbove: 100})
	r := rand.New(rand.NewPCG(69, 70))
	documents := f.grow(t, r, topics(r, 10), 10)
	release := f.takeBuildSlot(t, 0)
	tend := func(s *corpus.CorpusStore) (err error) {
		for more := true; more && err == nil; {
			more, err = s.TendVectors(t.Context(), f.a.Tenant, f.collection)
		}
		return err
	}
	for range 2 {
		if err := tend(f.CorpusStore); !errors.Is(err, due.ErrBuildsTaken) {
			t.Fatalf("%v, want that the place is taken", err)
		}
	}
	if got := one[string](t, f, f.a, shardSizesSQL, f.collection); got != "200 bare" {
		t.Errorf("shards of %s", got)
	}
	f.findsAll(t, r, "without an index", documents)
	two := f.takeBuildSlot(t, 1)
	wider := open(t, f.url, store.Options{OwnVectorsAbove: 100, IndexBuilds: 2})
	if err := tend(wider.CorpusStore); !errors.Is(err, due.ErrBuildsTaken) {
		t.Fatalf("%v, want that both places are taken", err)
	}
	two()
	if err := tend(wider.CorpusStore); err != nil {
		t.Fatal(err)
	}
	release()
	if got := one[string](t, f, f.a, shardSizesSQL, f.collection); got != "200" {
		t.Errorf("shards of %s", got)
	}
	// The slot was released.
	conn := connect(t, f.url)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	var held int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&held); err != nil || held != 0 {
		t.Errorf("%d locks are held, %v", held, err)
	}
}

// TestVectorsAreDueByCounts: a collection too small for an index is recognized without reading its
// vectors.
func TestVectorsAreDueByCounts(t *testing.T) {
	f := setUp(t, store.Options{OwnVectorsAbove: 100})
	r := rand.New(rand.NewPCG(71, 72))
	is := func(want bool, when string) {
		t.Helper()
		if got, err := f.VectorsDue(t.Context(), f.a.Tenant, f.collection); got != want || err != nil {
			t.Errorf("%s: due %t, %v", when, got, err)
		}
	}
	count := func() {
		t.Helper()
		execAs(t, f, f.a, `UPDATE versions v SET passage_count = (SELECT count(*) FROM passages p WHERE p.version_id = v.id)`)
	}
	is(false, "empty")
	f.grow(t, r, topics(r, 10), 5)
	count()
	is(false, "small")
	f.grow(t, r, topics(r, 10), 1)
	count()
	is(true, "large")
	if err := f.AddUpCounts(t.Context(), f.a.Tenant, f.collection); err != nil {
		t.Fatal(err)
	}
	is(true, "large, added up")
	if _, err := f.TendVectors(t.Context(), f.a.Tenant, f.collection); err != nil {
		t.Fatal(err)
	}
	is(true, "with a shard that has no index")
	f.tend(t, f.a, f.collection)
	is(false, "indexed")
	f.grow(t, r, topics(r, 10), 1)
	is(false, "with few late ones")
	f.grow(t, r, topics(r, 10), 1)
	is(true, "with many")
	f.tend(t, f.a, f.collection)
	is(false, "when they moved")
	var in []uuid.UUID
	if err := f.AsTenant(t.Context(), f.b.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		in, err = store.IDs(tx.Query(ctx, `SELECT id FROM vector_shards`))
		return err
	}); err != nil || len(in) > 0 {
		t.Errorf("another tenant sees %v, %v", in, err)
	}
}
