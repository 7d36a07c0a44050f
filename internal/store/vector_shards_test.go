package store_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// clustered returns a vector like those of texts: near one of many topics.
func clustered(r *rand.Rand, topics [][]float32) []float32 {
	topic := topics[r.IntN(len(topics))]
	v := make([]float32, dimension)
	sum := 0.0
	for i := range v {
		v[i] = topic[i] + float32(0.6/16*r.NormFloat64())
		sum += float64(v[i]) * float64(v[i])
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(sum))
	}
	return v
}

func topics(r *rand.Rand, n int) [][]float32 {
	out := make([][]float32, n)
	for i := range out {
		out[i] = unit(r)
	}
	return out
}

// tend does all of curation's work on a collection's vectors.
func (f *fixture) tend(t *testing.T, p schema.Principal, collection uuid.UUID) (steps int) {
	t.Helper()
	for {
		more, err := f.TendVectors(t.Context(), p.Tenant, collection)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return steps
		}
		steps++
	}
}

// exact ranks inserted passages by exact similarity.
func exact(documents []*insertedDocument, v []float32, k int, keep func(*insertedDocument) bool) []float64 {
	var out []float64
	for _, d := range documents {
		if d.dead || d.deleted || keep != nil && !keep(d) {
			continue
		}
		for _, have := range d.vectors {
			sum := 0.0
			for i := range have {
				sum += float64(have[i]) * float64(v[i])
			}
			out = append(out, sum)
		}
	}
	slices.SortFunc(out, func(a, b float64) int { return cmp.Compare(b, a) })
	return out[:min(k, len(out))]
}

// recall returns how many hits are as good as the k best by exact ranking; vectors are stored in 16
// bits.
func recall(hits []dense.Hit, best []float64) (good int) {
	for _, h := range hits {
		if h.Similarity >= best[len(best)-1]-1e-3 {
			good++
		}
	}
	return min(good, len(best))
}

func TestLargeCollectionsGetAnIndex(t *testing.T) {
	f := setUp(t, store.Options{OwnVectorsAbove: 600, KeepSuperseded: -1})
	r := rand.New(rand.NewPCG(11, 12))
	about := topics(r, 40)
	var documents []*insertedDocument
	more := func(n int) {
		var new []*insertedDocument
		for i := range n {
			d := &insertedDocument{metadata: map[string][]string{"year": {"2023"}}}
			if i%33 == 0 {
				d.metadata["year"] = []string{"2024"}
			}
			if i%2 == 1 {
				d.labels = []string{"legal"}
			}
			for range 20 {
				d.vectors = append(d.vectors, clustered(r, about))
			}
			new = append(new, d)
		}
		f.plant(t, f.a, f.collection, new)
		documents = append(documents, new...)
	}
	// check measures recall over everything and under a filter and labels.
	check := func(when string) {
		t.Helper()
		for _, c := range []struct {
			what   string
			groups []string
			filter schema.Filter
			keep   func(*insertedDocument) bool
		}{
			{"all", []string{"legal"}, nil, nil},
			{"unlabelled", nil, nil, func(d *insertedDocument) bool { return d.labels == nil }},
			{"3 %", []string{"legal"}, schema.Filter{{Key: "year", Op: schema.OpEq, Values: []string{"2024"}}},
				func(d *insertedDocument) bool { return d.metadata["year"][0] == "2024" }},
		} {
			p := f.a
			p.Groups = c.groups
			good, want := 0, 0
			for range 30 {
				v := clustered(r, about)
				best := exact(documents, v, 10, c.keep)
				hits, err := f.Nearest(t.Context(), dense.NearestQuery{Principal: p, Collection: f.collection, Space: space, Vector: v, Filter: c.filter, K: 10})
				if err != nil {
					t.Fatal(err)
				}
				if len(hits) != len(best) {
					t.Fatalf("%s, %s: %d hits, want %d", when, c.what, len(hits), len(best))
				}
				good += recall(hits, best)
				want += len(best)
			}
			if share := float64(good) / float64(want); share < 0.99 {
				t.Errorf("%s, %s: recall@10 %.3f", when, c.what, share)
			}
		}
	}
	state := func() string {
		return one[string](t, f, f.a, `SELECT (SELECT string_agg(n::text, '+' ORDER BY n DESC) FROM (
			    SELECT count(*) AS n FROM vectors_256 v JOIN vector_shards h ON h.id = v.shard AND h.retired_at IS NULL GROUP BY h.id) own) || ' own, ' ||
			(SELECT count(*) FROM vectors_256 WHERE shard = '00000000-0000-0000-0000-000000000000') || ' shared, ' ||
			sum(indexed) || ' indexed' FROM vector_shards WHERE retired_at IS NULL`)
	}

	more(25)
	if n := f.tend(t, f.a, f.collection); n != 0 {
		t.Errorf("a small collection took %d steps", n)
	}
	check("small")
	more(50)
	f.tend(t, f.a, f.collection)
	if got := state(); got != "1500 own, 0 shared, 1500 indexed" {
		t.Error(got)
	}
	check("indexed")
	more(5) // too few to move
	f.tend(t, f.a, f.collection)
	if got := state(); got != "1500 own, 100 shared, 1500 indexed" {
		t.Error(got)
	}
	check("with late ones")
	more(5)
	f.tend(t, f.a, f.collection)
	if got := state(); got != "1700 own, 0 shared, 1700 indexed" {
		t.Error(got)
	}
	check("with late ones moved")
	more(90) // more than the index has
	f.tend(t, f.a, f.collection)
	if got := state(); got != "1800+1700 own, 0 shared, 3500 indexed" {
		t.Error(got)
	}
	check("with another shard")

	// Row-level security applies to the partition as to the whole table.
	conn := connect(t, f.owner)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	var open int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_class c JOIN pg_inherits ON inhrelid = c.oid
		WHERE inhparent = 'vectors_256'::regclass AND NOT (relrowsecurity AND relforcerowsecurity)`).Scan(&open); err != nil || open != 0 {
		t.Errorf("%d partitions without forced row-level security, %v", open, err)
	}
	if n := one[int](t, f, f.b, `SELECT count(*) FROM vectors_256`); n != 0 {
		t.Errorf("another tenant sees %d vectors", n)
	}

	// Deleting the collection drops the partition.
	if err := f.DeleteCollection(t.Context(), f.a, f.collection); err != nil {
		t.Fatal(err)
	}
	for {
		n, err := f.PurgeOnce(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	var partitions int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_inherits WHERE inhparent = 'vectors_256'::regclass`).Scan(&partitions); err != nil || partitions != 1 {
		t.Errorf("%d partitions are left, %v", partitions, err)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM vectors_256`) + one[int](t, f, f.a, `SELECT count(*) FROM vector_shards`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// TestSearchesSeeEveryVectorOnce: while vectors are written, moved and indexed, searches return
// exactly the committed number.
func TestSearchesSeeEveryVectorOnce(t *testing.T) {
	f := setUp(t, store.Options{OwnVectorsAbove: 200})
	r := rand.New(rand.NewPCG(13, 14))
	var first []*insertedDocument
	for range 40 {
		first = append(first, &insertedDocument{vectors: [][]float32{unit(r), unit(r), unit(r), unit(r), unit(r)}})
	}
	f.plant(t, f.a, f.collection, first)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		defer close(stop)
		r := rand.New(rand.NewPCG(15, 16))
		for range 60 {
			var some []*insertedDocument
			for range 5 {
				some = append(some, &insertedDocument{vectors: [][]float32{unit(r), unit(r)}})
			}
			f.plant(t, f.a, f.collection, some)
			if _, err := f.TendVectors(t.Context(), f.a.Tenant, f.collection); err != nil {
				t.Error(err)
				return
			}
		}
	})
	searches := 0
	for i := range 3 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(17, uint64(i)))
			for {
				select {
				case <-stop:
					return
				default:
				}
				var before, after int
				count := `SELECT count(*) FROM vectors_256 WHERE shard = '00000000-0000-0000-0000-000000000000'
					OR shard IN (SELECT id FROM vector_shards WHERE retired_at IS NULL AND replaces = '{}')`
				before = one[int](t, f, f.a, count)
				hits, err := f.Nearest(t.Context(), dense.NearestQuery{Principal: f.a, Collection: f.collection, Space: space, Vector: unit(r), K: 2000})
				after = one[int](t, f, f.a, count)
				if err != nil {
					t.Error(err)
					return
				}
				seen := map[uuid.UUID]bool{}
				for _, h := range hits {
					seen[h.Passage] = true
				}
				if len(seen) != len(hits) || len(hits) < before || len(hits) > after {
					t.Errorf("%d hits, %d passages; %d were stored before and %d after", len(hits), len(seen), before, after)
				}
				if i == 0 {
					searches++
				}
			}
		})
	}
	wg.Wait()
	if searches == 0 {
		t.Error("nothing was searched meanwhile")
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM vectors_256 v JOIN vector_shards h ON h.id = v.shard WHERE h.indexed > 0`); n < 400 {
		t.Errorf("only %d vectors moved", n)
	}
}

func TestPurgeFindsWhatMoved(t *testing.T) {
	f := setUp(t, store.Options{OwnVectorsAbove: 10, KeepSuperseded: -1})
	r := rand.New(rand.NewPCG(19, 20))
	d := &insertedDocument{}
	for range 50 {
		d.vectors = append(d.vectors, unit(r))
	}
	f.plant(t, f.a, f.collection, []*insertedDocument{d})
	f.tend(t, f.a, f.collection)
	if n := one[int](t, f, f.a, `SELECT count(*) FROM vectors_256 WHERE shard <> '00000000-0000-0000-0000-000000000000'`); n != 50 {
		t.Fatalf("%d vectors moved", n)
	}
	if err := f.DeleteDocument(t.Context(), f.a, d.id); err != nil {
		t.Fatal(err)
	}
	if _, err := f.PurgeOnce(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM vectors_256`); n != 0 {
		t.Errorf("%d vectors are left", n)
	}
}

// TestTendingContinuesAfterACrash: whatever state a process left, the next one continues.
func TestTendingContinuesAfterACrash(t *testing.T) {
	f := setUp(t, store.Options{OwnVectorsAbove: 100})
	r := rand.New(rand.NewPCG(21, 22))
	var documents []*insertedDocument
	for range 20 {
		documents = append(documents, &insertedDocument{vectors: [][]float32{unit(r), unit(r), unit(r), unit(r), unit(r), unit(r)}})
	}
	f.plant(t, f.a, f.collection, documents)
	step := func() bool {
		t.Helper()
		more, err := f.TendVectors(t.Context(), f.a.Tenant, f.collection)
		if err != nil {
			t.Fatal(err)
		}
		hits, err := f.Nearest(t.Context(), dense.NearestQuery{Principal: f.a, Collection: f.collection, Space: space, Vector: unit(r), K: 200})
		if err != nil || len(hits) != 120 {
			t.Fatalf("%d hits, %v", len(hits), err)
		}
		return more
	}
	step() // the row
	step() // its partition
	// Half of the vectors moved, and building the index was interrupted: it exists and is invalid.
	id := one[uuid.UUID](t, f, f.a, `SELECT id FROM vector_shards`)
	execAs(t, f, f.a, `UPDATE vectors_256 SET shard = $1 WHERE passage_id IN (SELECT passage_id FROM vectors_256 LIMIT 60)`, id)
	name := fmt.Sprintf("vectors_256_%x", id[:])
	partition := "sluice_vectors." + name
	execute(t, f.owner, `CREATE INDEX `+name+`_hnsw ON `+partition+` USING hnsw (embedding halfvec_ip_ops)`)
	admin := adminOf(t, f.url)
	execute(t, admin, `UPDATE pg_index SET indisvalid = false WHERE indexrelid = '`+partition+`_hnsw'::regclass`)
	for step() {
	}
	conn := connect(t, f.owner)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	var valid bool
	if err := conn.QueryRow(t.Context(), `SELECT indisvalid FROM pg_index WHERE indexrelid = $1::regclass`, partition+"_hnsw").Scan(&valid); err != nil || !valid {
		t.Errorf("the index is valid: %t, %v", valid, err)
	}
	// Built, but not recorded.
	execAs(t, f, f.a, `UPDATE vector_shards SET indexed = NULL`)
	for step() {
	}
	if n := one[int](t, f, f.a, `SELECT indexed FROM vector_shards`); n != 120 {
		t.Errorf("%d indexed", n)
	}
}

func TestNearestWithinPlaces(t *testing.T) {
	for _, bound := range []int{1000, 20} {
		f := setUp(t, store.Options{OwnVectorsAbove: bound})
		r := rand.New(rand.NewPCG(23, 24))
		var documents []*insertedDocument
		for i := range 8 {
			d := &insertedDocument{dead: i == 6}
			if i == 7 {
				d.labels = []string{"board"}
			}
			for range 5 {
				d.vectors = append(d.vectors, unit(r))
			}
			documents = append(documents, d)
		}
		f.plant(t, f.a, f.collection, documents)
		f.tend(t, f.a, f.collection)
		at := func(d, section, passage int) lexical.Ref {
			return lexical.Ref{Version: documents[d].version, Section: section, Passage: passage}
		}
		for _, c := range []struct {
			within []lexical.Ref
			want   []lexical.Ref
		}{
			{[]lexical.Ref{}, nil},
			{[]lexical.Ref{at(0, 0, 3)}, []lexical.Ref{at(0, 0, 3)}},
			{[]lexical.Ref{at(0, 0, 3), at(0, 0, 3), at(1, 0, 0)}, []lexical.Ref{at(0, 0, 3), at(1, 0, 0)}},
			{[]lexical.Ref{at(2, 0, -1), at(2, 0, 1)}, []lexical.Ref{at(2, 0, 0), at(2, 0, 1), at(2, 0, 2), at(2, 0, 3), at(2, 0, 4)}},
			{[]lexical.Ref{at(3, -1, -1), at(3, 5, 0)}, []lexical.Ref{at(3, 0, 0), at(3, 0, 1), at(3, 0, 2), at(3, 0, 3), at(3, 0, 4)}},
			{[]lexical.Ref{at(6, -1, -1), at(7, -1, -1), at(7, 0, 0), {Version: uuid.New()}}, nil},
		} {
			hits, err := f.Nearest(t.Context(), dense.NearestQuery{Principal: f.a, Collection: f.collection, Space: space, Vector: unit(r), Within: c.within, K: 100})
			if err != nil {
				t.Fatal(err)
			}
			got := map[lexical.Ref]bool{}
			for _, h := range hits {
				got[h.Ref] = true
			}
			want := map[lexical.Ref]bool{}
			for _, w := range c.want {
				want[w] = true
			}
			if len(hits) != len(c.want) || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("bound %d: within %v found %v, want %v", bound, c.within, got, want)
			}
		}
	}
}

// adminOf returns the superuser's URL of the database in an owner's URL.
func adminOf(t *testing.T, url string) string {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	return localtest.Postgres(t).AdminURL(config.Database)
}
