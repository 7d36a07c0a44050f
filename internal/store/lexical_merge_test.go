package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/corpus"
	"github.com/sluice-rag/sluice/schema"
)

// mergeAll merges until nothing is due, and returns the number of merges.
func mergeAll(t testing.TB, f *fixture) int {
	t.Helper()
	for merges := 0; ; merges++ {
		n, err := f.MergeSegments(t.Context(), f.a.Tenant, f.collection)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return merges
		}
	}
}

// answers returns the hits of some questions at every unit, with the statistics that they are based
// on.
func answers(t testing.TB, x *search.Index, f *fixture) string {
	t.Helper()
	var b strings.Builder
	for _, unit := range units {
		for _, question := range []string{"heron", "w1 w2", "w3 w40 heron", "title"} {
			r, err := x.SearchText(t.Context(), f.a.Tenant, f.collection, question, lexical.TermQuery{Unit: unit, K: 50, Settings: lexical.Defaults})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s %s %v", unit, question, r.Statistics)
			for _, h := range r.Hits {
				fmt.Fprintf(&b, " %v %s %.6f", h.Ref, h.Cluster, h.Score)
			}
		}
	}
	return b.String()
}

func words(r *rand.Rand, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString([]string{" ", " ", " ", " ", " ", " / ", " | "}[r.IntN(7)])
		fmt.Fprintf(&b, "w%d", r.IntN(1+r.IntN(60)))
	}
	return "heron" + b.String()
}

func TestLexicalMergeChangesNoAnswer(t *testing.T) {
	f := setUp(t, store.Options{})
	r := rand.New(rand.NewPCG(3, 4))
	warm := newIndex(f)
	var all []*written
	live := func() int {
		return one[int](t, f, f.a, `SELECT count(*) FROM lexical_segments WHERE merged_at IS NULL`)
	}
	for range 3 {
		for range 7 {
			a, b := &written{name: uuid.NewString(), title: "A title", body: words(r, 30)}, &written{name: uuid.NewString(), body: words(r, 60), labels: []string{"staff"}[:r.IntN(2)]}
			f.write(t, f.a, f.collection, a, b)
			all = append(all, a, b)
		}
		gone := all[r.IntN(len(all))]
		if err := f.DeleteDocument(t.Context(), f.a, gone.id); err != nil && !errors.Is(err, schema.ErrNotFound) {
			t.Fatal(err)
		}
		before := answers(t, warm, f)
		segments := live()
		merges := mergeAll(t, f)
		if got := answers(t, warm, f); got != before {
			t.Fatalf("after %d merges\n%s\nbefore\n%s", merges, got, before)
		}
		if got := answers(t, newIndex(f), f); got != before {
			t.Fatalf("a new index after %d merges\n%s\nbefore\n%s", merges, got, before)
		}
		if segments >= 8 && (merges == 0 || live() >= segments) {
			t.Errorf("%d merges left %d of %d segments", merges, live(), segments)
		}
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM lexical_segments WHERE merged_at IS NOT NULL`); n == 0 {
		t.Fatal("nothing was merged")
	}
	before := answers(t, warm, f)
	if n, err := f.DropMerged(t.Context(), f.a.Tenant, f.collection, corpus.KeepMerged); n != 0 || err != nil {
		t.Errorf("dropped %d segments that were merged just now, %v", n, err)
	}
	if n, err := f.DropMerged(t.Context(), f.a.Tenant, f.collection, -time.Minute); n == 0 || err != nil {
		t.Errorf("dropped %d merged segments, %v", n, err)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM lexical_pages p WHERE NOT EXISTS (SELECT FROM lexical_segments s WHERE s.id = p.segment_id AND s.merged_at IS NULL)`); n != 0 {
		t.Errorf("%d pages of dropped segments are left", n)
	}
	if got := answers(t, newIndex(f), f); got != before {
		t.Error("dropping merged segments changed answers")
	}
}

// A segment with many dead entries is rewritten without them; one without live entries is removed.
func TestLexicalMergeDropsTheDead(t *testing.T) {
	f := setUp(t, store.Options{})
	x := newIndex(f)
	var list []*written
	for i := range 10 {
		list = append(list, &written{name: fmt.Sprint(i), body: fmt.Sprintf("heron number%d", i)})
	}
	f.write(t, f.a, f.collection, list...)
	remove := func(n int) {
		t.Helper()
		for _, w := range list[:n] {
			if err := f.DeleteDocument(t.Context(), f.a, w.id); err != nil {
				t.Fatal(err)
			}
		}
		list = list[n:]
	}
	remove(2)
	if n := mergeAll(t, f); n != 0 {
		t.Errorf("%d merges for a fifth of dead entries", n)
	}
	remove(1)
	if n := mergeAll(t, f); n != 1 {
		t.Errorf("%d merges, want one for three dead of ten", n)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM lexical_entries`); n != 7 {
		t.Errorf("%d entries, want those of the 7 living", n)
	}
	if n := one[int](t, f, f.a, `SELECT documents FROM lexical_segments WHERE merged_at IS NULL`); n != 7 {
		t.Errorf("the segment has %d documents, want 7", n)
	}
	expect(t, x, f.a, f.collection, "heron", list...)
	remove(7)
	if n := mergeAll(t, f); n != 1 {
		t.Errorf("%d merges, want one", n)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM lexical_segments WHERE merged_at IS NULL`); n != 0 {
		t.Errorf("%d live segments without a document", n)
	}
	expect(t, x, f.a, f.collection, "heron")
}

// Entries that die during a merge stay dead, and so do those that were written again under other
// labels.
func TestLexicalMergeResurrectsNothing(t *testing.T) {
	f := setUp(t, store.Options{})
	x := newIndex(f)
	var list []*written
	for i := range 8 {
		w := &written{name: fmt.Sprint(i), body: fmt.Sprintf("heron number%d", i)}
		f.write(t, f.a, f.collection, w)
		list = append(list, w)
	}
	expect(t, x, f.a, f.collection, "heron", list...)
	merge := prepareMerge(t, f)
	if err := f.DeleteDocument(t.Context(), f.a, list[0].id); err != nil {
		t.Fatal(err)
	}
	f.write(t, f.a, f.collection, &written{name: "1", body: "egret"})
	labels := []string{"hr"}
	if _, err := f.UpdateDocument(t.Context(), f.a, list[2].id, schema.DocumentChange{Labels: &labels}); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		expect(t, x, f.a, f.collection, "heron", list[3:]...)
		expect(t, newIndex(f), f.a, f.collection, "heron", list[3:]...)
	}
	check()
	if n, err := merge(); n != 8 || err != nil {
		t.Fatalf("merged %d segments, %v", n, err)
	}
	check()
	mergeAll(t, f)
	check()

	// A merge that comes after another one changes nothing, nor does one of a deleted collection.
	for range 8 {
		f.write(t, f.a, f.collection, &written{name: uuid.NewString(), body: "more"})
	}
	late := prepareMerge(t, f)
	if mergeAll(t, f) == 0 {
		t.Fatal("nothing was due")
	}
	if n, err := late(); n != 0 || err != nil {
		t.Errorf("a late merge merged %d segments, %v", n, err)
	}
	check()
	for range 8 {
		f.write(t, f.a, f.collection, &written{name: uuid.NewString(), body: "more"})
	}
	late = prepareMerge(t, f)
	if err := f.DeleteCollection(t.Context(), f.a, f.collection); err != nil {
		t.Fatal(err)
	}
	if n, err := late(); n != 0 || err != nil {
		t.Errorf("a merge of a deleted collection merged %d segments, %v", n, err)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM lexical_segments`); n != 0 {
		t.Errorf("%d segments of a deleted collection", n)
	}
}

// Writers, deletions, merges and searches run at once: every search finds what was committed before
// it began, and nothing that was deleted by then.
func TestLexicalUnderConcurrency(t *testing.T) {
	f := setUp(t, store.Options{MaxConns: 12})
	x := search.NewIndex(f.SearchStore, 300_000) // some eviction, too
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	present, gone := map[uuid.UUID]string{}, map[uuid.UUID]string{}
	snapshot := func() (have, not map[uuid.UUID]string) {
		mu.Lock()
		defer mu.Unlock()
		have, not = map[uuid.UUID]string{}, map[uuid.UUID]string{}
		for id, word := range present {
			have[id] = word
		}
		for id, word := range gone {
			not[id] = word
		}
		return have, not
	}
	var writers, others sync.WaitGroup
	var merges, searches atomic.Int64
	for n := range 2 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 9))
			for i := range 25 {
				word := fmt.Sprintf("unique%dx%d", n, i)
				w := &written{name: word, body: "heron " + word + " " + words(r, 40)}
				docs := f.prepare(t, f.a, f.collection, w)
				if out, err := f.WriteVersions(ctx, f.a.Tenant, f.collection, docs); err != nil || len(out) > 0 {
					t.Errorf("write: %v, %v", out, err)
					return
				}
				mu.Lock()
				present[w.version] = word
				mu.Unlock()
				if i%3 == 2 {
					mu.Lock()
					delete(present, w.version)
					mu.Unlock()
					if err := f.DeleteDocument(ctx, f.a, w.id); err != nil {
						t.Errorf("delete: %v", err)
						return
					}
					mu.Lock()
					gone[w.version] = word
					mu.Unlock()
				}
			}
		})
	}
	others.Go(func() {
		for ctx.Err() == nil {
			n, err := f.MergeSegments(ctx, f.a.Tenant, f.collection)
			if err != nil && ctx.Err() == nil {
				t.Errorf("merge: %v", err)
				return
			}
			if merges.Add(int64(min(n, 1))); n > 0 {
				if _, err := f.DropMerged(ctx, f.a.Tenant, f.collection, 0); err != nil && ctx.Err() == nil {
					t.Errorf("drop: %v", err)
				}
			}
		}
	})
	for n := range 3 {
		others.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 10))
			for ctx.Err() == nil {
				have, not := snapshot()
				unit := units[r.IntN(3)]
				result, err := x.SearchText(ctx, f.a.Tenant, f.collection, "heron", lexical.TermQuery{Unit: unit, K: 100_000, Settings: lexical.Defaults})
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("search: %v", err)
					}
					return
				}
				searches.Add(1)
				found := map[uuid.UUID]bool{}
				for _, h := range result.Hits {
					found[h.Ref.Version] = true
				}
				later, _ := snapshot()
				for id, word := range have {
					if _, still := later[id]; still && !found[id] {
						t.Errorf("%s: %s is not found", unit, word)
					}
				}
				for id, word := range not {
					if found[id] {
						t.Errorf("%s: %s is found though deleted", unit, word)
					}
				}
			}
		})
	}
	writers.Wait()
	cancel()
	others.Wait()
	if merges.Load() == 0 || searches.Load() == 0 {
		t.Errorf("%d merges, %d searches: nothing is proved", merges.Load(), searches.Load())
	}
	mergeAll(t, f)
	have, _ := snapshot()
	got := found(t, newIndex(f), f.a, f.collection, schema.UnitDocument, "heron")
	if len(got) != len(have) {
		t.Errorf("%d documents in the end, want %d", len(got), len(have))
	}
}

// Versions from an older build have no entry; backfilling makes them searchable, some at a time.
func TestLexicalBackfill(t *testing.T) {
	f := setUp(t, store.Options{})
	var list []*written
	for i := range 7 {
		list = append(list, &written{name: fmt.Sprint(i), title: "Birds", body: fmt.Sprintf("herons wade/in number%d|egret heron", i), labels: []string{"hr"}[:i%2]})
	}
	f.write(t, f.a, f.collection, list...)
	x := newIndex(f)
	as := f.a
	as.Groups = []string{"hr"}
	titled := byTitle(t, x, as, f.collection)
	execAs(t, f, f.a, `DELETE FROM lexical_entries`)
	execAs(t, f, f.a, `DELETE FROM lexical_pages`)
	execAs(t, f, f.a, `DELETE FROM lexical_segments`)
	expect(t, x, as, f.collection, "heron")
	if _, err := f.UpdateDocument(t.Context(), f.a, list[0].id, schema.DocumentChange{Labels: &[]string{}}); err != nil {
		t.Fatal(err) // relabelling needs no postings
	}
	if err := f.DeleteDocument(t.Context(), f.a, list[6].id); err != nil {
		t.Fatal(err)
	}
	var steps []string
	for {
		done, left, err := f.BackfillLexical(t.Context(), f.a.Tenant, f.collection, 4)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, fmt.Sprint(done, left))
		if left == 0 && done == 0 {
			break
		}
	}
	if !slices.Equal(steps, []string{"4 2", "2 0", "0 0"}) {
		t.Errorf("steps %v", steps)
	}
	list = list[:6]
	expect(t, x, as, f.collection, "heron", list...)
	expect(t, x, f.a, f.collection, "heron", list[0], list[2], list[4])
	expect(t, x, as, f.collection, "number3", list[3])
	if after := byTitle(t, x, as, f.collection); after != titled-1 {
		t.Errorf("%d documents by title, %d before one of them was deleted", after, titled)
	}
	if _, _, err := f.BackfillLexical(t.Context(), f.b.Tenant, f.collection, 4); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("another tenant's collection gave %v", err)
	}

	// A generation beside the live one.
	execAs(t, f, f.a, `INSERT INTO passages (tenant_id, id, section_id, version_id, collection_id, generation, ordinal, start_byte, end_byte, tokens)
		SELECT tenant_id, gen_random_uuid(), section_id, version_id, collection_id, 2, ordinal, start_byte, end_byte, tokens FROM passages`)
	const goLiveSQL = `UPDATE collections SET generation = $2, language = $3 WHERE id = $1`
	language := one[string](t, f, f.a, `SELECT language FROM collections WHERE id = $1`, f.collection)
	execAs(t, f, f.a, goLiveSQL, f.collection, 2, "de")
	for left := 1; left > 0; {
		var err error
		if _, left, err = f.BackfillLexical(t.Context(), f.a.Tenant, f.collection, 4); err != nil {
			t.Fatal(err)
		}
	}
	execAs(t, f, f.a, goLiveSQL, f.collection, 1, language)
	expect(t, x, as, f.collection, "heron", list...) // still of the live one only
	labels := []string{"board"}
	if _, err := f.UpdateDocument(t.Context(), f.a, list[1].id, schema.DocumentChange{Labels: &labels}); err != nil {
		t.Fatal(err)
	}
	execAs(t, f, f.a, goLiveSQL, f.collection, 2, "de")
	if done, left, err := f.BackfillLexical(t.Context(), f.a.Tenant, f.collection, 4); done != 1 || left != 0 || err != nil {
		t.Errorf("after a change of labels: %d done, %d left, %v", done, left, err)
	}
	as.Groups = append(as.Groups, "board")
	expect(t, x, as, f.collection, "heron", list...)
	if err := f.DropLexicalGeneration(t.Context(), f.a.Tenant, f.collection, 1); err != nil {
		t.Fatal(err)
	}
	expect(t, newIndex(f), as, f.collection, "heron", list...)
	if n := one[int](t, f, f.a, `SELECT count(*) FROM lexical_entries WHERE generation = 1`); n != 0 {
		t.Errorf("%d entries of a dropped generation", n)
	}
}

// byTitle counts the documents with a title.
func byTitle(t testing.TB, x *search.Index, p schema.Principal, collection uuid.UUID) int {
	return len(found(t, x, p, collection, schema.UnitDocument, "birds"))
}

// prepareMerge does all of a merge except its last transaction, which the returned function runs.
func prepareMerge(t *testing.T, f *fixture) func() (int, error) {
	t.Helper()
	commit, err := f.PrepareMerge(t.Context(), f.a.Tenant, f.collection)
	if err != nil {
		t.Fatal(err)
	}
	return commit
}
