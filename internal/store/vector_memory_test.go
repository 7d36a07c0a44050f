package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// writeVectors writes documents as ingestion does, with random vectors.
func (f *fixture) writeVectors(t *testing.T, r *rand.Rand, list ...*written) {
	t.Helper()
	docs := f.prepare(t, f.a, f.collection, list...)
	for i := range docs {
		var flat []float32
		for range docs[i].Text.Passages() {
			flat = append(flat, unit(r)...)
		}
		docs[i].Vectors = batch.NewVectors(space, dimension, flat)
	}
	if outcomes, err := f.WriteVersions(t.Context(), f.a.Tenant, f.collection, docs); err != nil || len(outcomes) > 0 {
		t.Fatalf("outcomes %+v, %v", outcomes, err)
	}
}

// bodies returns the text of a document with some sections and passages.
func bodies(r *rand.Rand) string {
	var sections []string
	for range 1 + r.IntN(3) {
		sections = append(sections, strings.TrimSuffix(strings.Repeat("word/", 1+r.IntN(4)), "/"))
	}
	return strings.Join(sections, "|")
}

// sameHits compares the results of memory and store: the same passages with the same similarities,
// except that neighbours whose similarities differ by rounding may be swapped.
func sameHits(got, want []dense.Hit) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d hits, want %d", len(got), len(want))
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-4 }
	places := map[uuid.UUID]lexical.Ref{}
	for i := range want {
		if !near(got[i].Similarity, want[i].Similarity) {
			return fmt.Errorf("hit %d has similarity %v, want %v", i, got[i].Similarity, want[i].Similarity)
		}
		places[want[i].Passage] = want[i].Ref
	}
	for i, h := range got {
		if ref, ok := places[h.Passage]; ok && ref != h.Ref {
			return fmt.Errorf("hit %d is at %v, want %v", i, h.Ref, ref)
		} else if !ok && !near(h.Similarity, want[len(want)-1].Similarity) {
			return fmt.Errorf("hit %d, %s, is none of the store's", i, h.Passage)
		}
	}
	return nil
}

// TestMemoryHasNoVectorsThatAreReplaced: documents of a collection of the second encoder have zero
// vectors until it has encoded them. A search meanwhile leaves none of them in memory.
func TestMemoryHasNoVectorsThatAreReplaced(t *testing.T) {
	f := setUp(t, store.Options{})
	r := rand.New(rand.NewPCG(33, 34))
	memory := dense.NewMemoryVectors(f, newIndex(f), 64<<20)
	execAs(t, f, f.a, `UPDATE collections SET encoder = 'second' WHERE id = $1`, f.collection)
	docs := f.prepare(t, f.a, f.collection, &written{name: "a", body: "one/two|three"}, &written{name: "b", body: "four"})
	for i := range docs {
		docs[i].Text.Later = &batch.Space{Name: space, Dimension: dimension}
	}
	if outcomes, err := f.WriteVersions(t.Context(), f.a.Tenant, f.collection, docs); err != nil || len(outcomes) > 0 {
		t.Fatalf("outcomes %+v, %v", outcomes, err)
	}
	search := func() {
		t.Helper()
		q := dense.NearestQuery{Principal: f.a, Collection: f.collection, Space: space, Vector: unit(r), K: 10}
		want, err := f.Nearest(t.Context(), q)
		if err != nil || len(want) != 4 {
			t.Fatalf("%d hits, %v", len(want), err)
		}
		got, err := memory.Nearest(t.Context(), q)
		if err == nil {
			err = sameHits(got, want)
		}
		if err != nil {
			t.Error(err)
		}
	}
	search()
	generation, unencoded, err := f.Unencoded(t.Context(), f.a.Tenant, f.collection, 100)
	if err != nil || len(unencoded) != len(docs) {
		t.Fatalf("%d versions are not encoded, %v", len(unencoded), err)
	}
	recut := make([]batch.Recut, len(unencoded))
	for i, d := range unencoded {
		var flat []float32
		for _, s := range d.Sections {
			for range s.Passages {
				flat = append(flat, unit(r)...)
			}
		}
		recut[i] = batch.Recut{Version: d.Version, Sections: d.Sections, Vectors: batch.NewVectors(space, dimension, flat)}
	}
	if done, err := f.WriteVectors(t.Context(), f.a.Tenant, f.collection, generation, recut); err != nil || done != len(docs) {
		t.Fatalf("%d versions were encoded, %v", done, err)
	}
	search()
	if memory.Stats().Bytes == 0 {
		t.Error("the vectors are not in memory")
	}
}

// TestMemoryFindsWhatTheStoreFinds: whatever happens to a collection, the next search in memory
// returns what an exact search in the store returns.
func TestMemoryFindsWhatTheStoreFinds(t *testing.T) {
	f := setUp(t, store.Options{})
	r := rand.New(rand.NewPCG(31, 32))
	index, asked := newIndex(f), &askedVectors{VectorStore: f}
	memory := dense.NewMemoryVectors(asked, index, 64<<20)
	small := dense.NewMemoryVectors(f, newIndex(f), 20<<10) // soon too small: the store is searched
	var all []*written
	groups := [][]string{nil, {"legal"}, {"hr", "legal"}, {"board"}}
	labels := [][]string{nil, nil, {"legal"}, {"hr"}, {"legal", "board"}}
	filters := []schema.Filter{nil, nil, {{Key: "year", Op: schema.OpGe, Values: []string{"2022"}}},
		{{Key: "year", Op: schema.OpLt, Values: []string{"2024"}}, {Key: "colour", Op: schema.OpIn, Values: []string{"red", "blue"}}}}
	metadata := func() schema.Metadata {
		return schema.Metadata{"year": 2020 + r.IntN(5), "colour": []string{"red", "green", "blue"}[r.IntN(3)]}
	}
	for round := range 60 {
		switch what := r.IntN(10); {
		case what < 4 || len(all) < 5:
			var some []*written
			for range 1 + r.IntN(4) {
				some = append(some, &written{name: fmt.Sprint("d", round, "-", len(some)), body: bodies(r), labels: labels[r.IntN(len(labels))], metadata: metadata()})
			}
			f.writeVectors(t, r, some...)
			all = append(all, some...)
		case what < 6: // another version
			next := *all[r.IntN(len(all))]
			next.body = bodies(r)
			f.writeVectors(t, r, &next)
			all = append(slices.DeleteFunc(all, func(w *written) bool { return w.id == next.id }), &next)
		case what < 7:
			w := all[r.IntN(len(all))]
			to := labels[r.IntN(len(labels))]
			if to == nil {
				to = []string{}
			}
			change := schema.DocumentChange{Labels: &to}
			if r.IntN(2) == 0 {
				now := metadata()
				change = schema.DocumentChange{Metadata: &now}
			}
			if _, err := f.UpdateDocument(t.Context(), f.a, w.id, change); err != nil {
				t.Fatal(err)
			}
		case what < 8:
			at := r.IntN(len(all))
			if err := f.DeleteDocument(t.Context(), f.a, all[at].id); err != nil {
				t.Fatal(err)
			}
			all = slices.Delete(all, at, at+1)
		default:
			if _, err := f.MergeSegments(t.Context(), f.a.Tenant, f.collection); err != nil {
				t.Fatal(err)
			}
		}
		p := f.a
		p.Groups = groups[r.IntN(len(groups))]
		q := dense.NearestQuery{Principal: p, Collection: f.collection, Space: space, Vector: unit(r), K: 1 + r.IntN(40), Filter: filters[r.IntN(len(filters))]}
		f.sameVectors(t, p, index, memory, small)
		for range 2 {
			want, err := f.Nearest(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range []*dense.MemoryVectors{memory, small} {
				got, err := v.Nearest(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				if err := sameHits(got, want); err != nil {
					t.Fatalf("round %d, groups %v, filter %v, k %d, within %v: %v", round, p.Groups, q.Filter, q.K, q.Within, err)
				}
			}
			q.Within = []lexical.Ref{}
			for range r.IntN(5) {
				w := all[r.IntN(len(all))]
				q.Within = append(q.Within, lexical.Ref{Version: w.version, Section: r.IntN(4) - 1, Passage: -1})
				if at := &q.Within[len(q.Within)-1]; at.Section >= 0 && r.IntN(2) == 0 {
					at.Passage = r.IntN(4)
				}
			}
		}
	}
	if s := memory.Stats(); s.Hits == 0 || s.Bytes == 0 || s.Evictions > 0 {
		t.Errorf("the large cache: %+v", s)
	}
	if s := small.Stats(); s.Misses == 0 || s.Bytes > s.Limit {
		t.Errorf("the small cache: %+v", s)
	}
	if asked.passages > 50 {
		t.Errorf("of 60 questions for the vectors of passages the store was asked %d", asked.passages)
	}
}

// askedVectors counts the questions for the vectors of passages that reach the store.
type askedVectors struct {
	dense.VectorStore
	passages int
}

func (a *askedVectors) VectorsOf(ctx context.Context, q dense.PassagesQuery) (map[lexical.Ref][]float32, error) {
	a.passages++
	return a.VectorStore.VectorsOf(ctx, q)
}

// sameVectors compares the vectors in memory of all passages with those that the store has for p.
func (f *fixture) sameVectors(t *testing.T, p schema.Principal, index *search.Index, memories ...*dense.MemoryVectors) {
	t.Helper()
	everyone := p
	everyone.Groups = []string{"legal", "hr", "board"}
	hits, err := f.Nearest(t.Context(), dense.NearestQuery{Principal: everyone, Collection: f.collection,
		Space: space, Vector: make([]float32, dimension), K: 1000})
	if err != nil {
		t.Fatal(err)
	}
	q := dense.PassagesQuery{Principal: p, Collection: f.collection, Generation: 1}
	for _, h := range hits {
		q.Passages = append(q.Passages, h.Ref)
	}
	if len(hits) > 0 { // a passage and a section that do not exist
		last := hits[len(hits)-1].Ref
		q.Passages = append(q.Passages, lexical.Ref{Version: last.Version, Section: last.Section, Passage: 99},
			lexical.Ref{Version: last.Version, Section: 99})
	}
	want, err := f.VectorsOf(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	asks := lexical.TermQuery{Unit: schema.UnitPassage, Groups: p.Groups}
	if q.View, err = index.View(t.Context(), p.Tenant, f.collection, asks); err != nil {
		t.Fatal(err)
	}
	for i, m := range memories {
		got, err := m.VectorsOf(t.Context(), q)
		if err != nil || !maps.EqualFunc(got, want, slices.Equal[[]float32]) {
			t.Fatalf("memory %d has %d vectors for groups %v, the store %d, %v", i, len(got), p.Groups, len(want), err)
		}
	}
}

func TestMemoryLeavesToTheStoreWhatItMust(t *testing.T) {
	f := setUp(t, store.Options{OwnVectorsAbove: 40})
	r := rand.New(rand.NewPCG(33, 34))
	memory := dense.NewMemoryVectors(f, newIndex(f), 2*40*int64(len(unit(r)))) // room for 40 passages
	ask := func(p schema.Principal, change func(*dense.NearestQuery)) ([]dense.Hit, error) {
		q := dense.NearestQuery{Principal: p, Collection: f.collection, Space: space, Vector: unit(r), K: 1000}
		if change != nil {
			change(&q)
		}
		return memory.Nearest(t.Context(), q)
	}
	want := func(n int, loads int64, change func(*dense.NearestQuery)) {
		t.Helper()
		before := memory.Stats().Misses
		hits, err := ask(f.a, change)
		if err != nil || len(hits) != n {
			t.Errorf("%d hits, want %d, %v", len(hits), n, err)
		}
		if got := memory.Stats().Misses - before; got != loads {
			t.Errorf("%d segments were looked for in vain, want %d", got, loads)
		}
	}
	want(0, 0, nil)
	// Ingested by a build without an index: curation has not come yet.
	f.plant(t, f.a, f.collection, []*insertedDocument{{vectors: [][]float32{unit(r), unit(r)}}})
	execAs(t, f, f.a, `UPDATE versions SET passage_count = 2`)
	fresh := dense.NewMemoryVectors(f, newIndex(f), 64<<20)
	if hits, err := fresh.Nearest(t.Context(), dense.NearestQuery{Principal: f.a, Collection: f.collection, Space: space, Vector: unit(r), K: 9}); err != nil || len(hits) != 2 {
		t.Errorf("%d hits, %v", len(hits), err)
	}
	if done, left, err := f.BackfillLexical(t.Context(), f.a.Tenant, f.collection, 10); done != 1 || left != 0 || err != nil {
		t.Fatal(done, left, err)
	}
	want(2, 1, nil)
	want(2, 0, nil)
	want(0, 0, func(q *dense.NearestQuery) {
		q.Filter = schema.Filter{{Key: "year", Op: schema.OpEq, Values: []string{"2024"}}}
	})
	var wrong *retrieval.SpaceError
	if _, err := ask(f.a, func(q *dense.NearestQuery) { q.Space = "other" }); !errors.As(err, &wrong) {
		t.Errorf("another space gave %v", err)
	}
	// Another tenant gets nothing, warm as the cache is.
	if _, err := ask(f.b, nil); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("another tenant got %v", err)
	}
	// When it has grown large, the store searches it.
	now := time.Now()
	memory.Now = func() time.Time { return now }
	long := &written{name: "long", body: strings.TrimSuffix(strings.Repeat("word/", 60), "/")}
	f.writeVectors(t, r, long)
	want(62, 0, nil)
	f.tend(t, f.a, f.collection)
	want(62, 0, nil)
	// Small again, it is searched in memory after a while.
	if err := f.DeleteDocument(t.Context(), f.a, long.id); err != nil {
		t.Fatal(err)
	}
	if _, err := f.MergeSegments(t.Context(), f.a.Tenant, f.collection); err != nil {
		t.Fatal(err)
	}
	hits := memory.Stats().Hits
	want(2, 0, nil)
	if got := memory.Stats().Hits; got != hits {
		t.Error("a collection that was too large just now is looked at again at once")
	}
	now = now.Add(time.Hour)
	if _, err := ask(f.a, nil); err != nil {
		t.Fatal(err)
	}
	if want(2, 0, nil); memory.Stats().Hits == hits {
		t.Error("a collection that was too large once is never searched in memory again")
	}
	if err := f.DeleteCollection(t.Context(), f.a, f.collection); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(f.a, nil); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("a deleted collection gave %v", err)
	}
}

// TestMemoryIsFresh: while documents are added and deleted, each of many searches finds what was
// committed before it and nothing that was deleted before it.
func TestMemoryIsFresh(t *testing.T) {
	f := setUp(t, store.Options{})
	r := rand.New(rand.NewPCG(35, 36))
	memory := dense.NewMemoryVectors(f, newIndex(f), 64<<20)
	f.writeVectors(t, r, &written{name: "first", body: "a/b|c"})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	live, gone := map[uuid.UUID]bool{}, map[uuid.UUID]bool{}
	copyOf := func(m map[uuid.UUID]bool) map[uuid.UUID]bool {
		mu.Lock()
		defer mu.Unlock()
		out := map[uuid.UUID]bool{}
		for id := range m {
			out[id] = true
		}
		return out
	}
	for i := range 3 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(37, uint64(i)))
			for {
				select {
				case <-stop:
					return
				default:
				}
				must, not := copyOf(live), copyOf(gone)
				hits, err := memory.Nearest(context.Background(), dense.NearestQuery{Principal: f.a, Collection: f.collection, Space: space, Vector: unit(r), K: 10_000})
				if err != nil {
					t.Error(err)
					return
				}
				still := copyOf(live)
				seen := map[uuid.UUID]bool{}
				for _, h := range hits {
					seen[h.Ref.Version] = true
					if not[h.Ref.Version] {
						t.Errorf("version %s was deleted", h.Ref.Version)
					}
				}
				for id := range must {
					if !seen[id] && still[id] {
						t.Errorf("version %s is not found", id)
					}
				}
			}
		})
	}
	for i := range 40 {
		w := &written{name: fmt.Sprint("d", i), body: bodies(r)}
		f.writeVectors(t, r, w)
		mu.Lock()
		live[w.version] = true
		mu.Unlock()
		if i%3 == 2 {
			// From before the deletion on it may be missing; after the deletion it must be.
			mu.Lock()
			delete(live, w.version)
			mu.Unlock()
			if err := f.DeleteDocument(t.Context(), f.a, w.id); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			gone[w.version] = true
			mu.Unlock()
		}
		if i%5 == 4 {
			if _, err := f.MergeSegments(t.Context(), f.a.Tenant, f.collection); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(stop)
	wg.Wait()
}
