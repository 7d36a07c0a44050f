package store_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// TestReaderShowsWhatIsLiveAndVisible: whatever a plan names, of whatever unit, text that is dead,
// deleted, labelled otherwise or another tenant's is not returned.
func TestReaderShowsWhatIsLiveAndVisible(t *testing.T) {
	f := setUp(t, store.Options{})
	r := rand.New(rand.NewPCG(11, 12))
	vectors := func() [][]float32 { return [][]float32{unit(r), unit(r)} }
	open := &insertedDocument{vectors: vectors(), metadata: map[string][]string{"year": {"2024"}}}
	other := &insertedDocument{vectors: vectors()}
	board := &insertedDocument{vectors: vectors(), labels: []string{"board"}, metadata: map[string][]string{"year": {"2024"}}}
	dead, deleted, foreign := &insertedDocument{vectors: vectors(), dead: true}, &insertedDocument{vectors: vectors(), deleted: true}, &insertedDocument{vectors: vectors()}
	all := []*insertedDocument{open, other, board, dead, deleted, foreign}
	f.plant(t, f.a, f.collection, all[:5])
	f.plant(t, f.b, f.foreign, all[5:])
	cluster := schema.NewID()
	err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		batch := &pgx.Batch{}
		for _, d := range all[:5] {
			batch.Queue(`INSERT INTO cluster_members (tenant_id, collection_id, generation, section_id, version_id, section, cluster_id, tokens, epoch)
				VALUES ($1, $2, 1, $3, $4, 0, $5, 10, 1)`, f.a.Tenant, f.collection, d.section, d.version, cluster)
		}
		return tx.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	var versions []uuid.UUID
	var passages, sections []lexical.Ref
	for _, d := range all {
		versions = append(versions, d.version)
		sections = append(sections, lexical.Ref{Version: d.version, Section: 0, Passage: -1})
		passages = append(passages, lexical.Ref{Version: d.version, Section: 0, Passage: 1}, lexical.Ref{Version: d.version, Section: 0, Passage: 7})
	}
	reader := f.SearchStore
	for _, c := range []struct {
		groups []string
		want   []*insertedDocument
	}{{nil, []*insertedDocument{open, other}}, {[]string{"board"}, []*insertedDocument{open, other, board}}} {
		p := f.a
		p.Groups = c.groups
		visible := map[uuid.UUID]bool{}
		for _, d := range c.want {
			visible[d.version] = true
		}
		check := func(what string, perVersion int, found []uuid.UUID, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			seen := map[uuid.UUID]bool{}
			for _, v := range found {
				seen[v] = true
			}
			if !maps.Equal(seen, visible) || len(found) != perVersion*len(visible) {
				t.Errorf("%s with groups %v: %d of versions %v, want %v", what, c.groups, len(found), seen, visible)
			}
		}
		texts, err := reader.Texts(t.Context(), p, f.collection, retrieval.At{Generation: 1}, passages)
		check("passages", 1, versionsOf(slices.Collect(maps.Keys(texts))), err)
		for ref, x := range texts {
			if ref.Passage != 1 || x.Section.Text[x.Passage.Start:x.Passage.End] != "é passage. " || x.Title != "A title" || x.ExternalID != x.Document.String() || x.Section.Location(x.Passage.Start) != "page 4" {
				t.Errorf("the text of %v is %+v", ref, x)
			}
		}
		texts, err = reader.Texts(t.Context(), p, f.collection, retrieval.At{Generation: 1}, slices.Concat(sections))
		check("sections", 1, versionsOf(slices.Collect(maps.Keys(texts))), err)
		named, err := reader.ExternalIDs(t.Context(), p, f.collection, versions)
		check("names", 1, slices.Collect(maps.Keys(named)), err)
		refs, err := reader.SectionRefs(t.Context(), p, f.collection, versions)
		check("sections of versions", 1, versionsOf(refs), err)
		refs, err = reader.PassageRefs(t.Context(), p, f.collection, retrieval.At{Generation: 1}, sections)
		check("passages of sections", 2, versionsOf(refs), err)
		refs, err = reader.PassageRefs(t.Context(), p, f.collection, retrieval.At{Generation: 1}, []lexical.Ref{{Version: open.version, Section: -1, Passage: -1}})
		if err != nil || len(refs) != 2 || refs[0] != (lexical.Ref{Version: open.version}) || refs[1].Passage != 1 {
			t.Errorf("passages of a document: %v, %v", refs, err)
		}
		members, err := reader.Members(t.Context(), p, f.collection, retrieval.At{Generation: 1}, []uuid.UUID{cluster, schema.NewID()})
		check("members", 1, versionsOf(members[cluster]), err)
		found, err := reader.VectorsOf(t.Context(), dense.PassagesQuery{Principal: p, Collection: f.collection,
			Generation: 1, Passages: passages})
		check("vectors", 1, versionsOf(slices.Collect(maps.Keys(found))), err)
	}
	place, err := reader.CollectionState(t.Context(), f.a, f.collection)
	if err != nil || place.Language != "en" || place.Unindexed != 2 { // open and other: nothing indexed them
		t.Errorf("place is %+v, %v", place, err)
	}
	if _, err := reader.CollectionState(t.Context(), f.a, f.foreign); err == nil {
		t.Error("another tenant's collection is described")
	}
}

// TestReaderTellsOfAnotherGeneration: a reference of a generation that is not live any more is not
// looked up in the live one.
func TestReaderTellsOfAnotherGeneration(t *testing.T) {
	f := setUp(t, store.Options{})
	r := rand.New(rand.NewPCG(13, 14))
	d := &insertedDocument{vectors: [][]float32{unit(r), unit(r)}}
	f.plant(t, f.a, f.collection, []*insertedDocument{d})
	reader, memory := f.SearchStore, dense.NewMemoryVectors(f, search.NewIndex(f.SearchStore, 1<<20), 1<<20)
	at := []lexical.Ref{{Version: d.version, Section: 0, Passage: 0}}
	asks := map[string]func(generation int) error{
		"texts": func(g int) error {
			_, err := reader.Texts(t.Context(), f.a, f.collection, retrieval.At{Generation: g}, at)
			return err
		},
		"passages": func(g int) error {
			_, err := reader.PassageRefs(t.Context(), f.a, f.collection, retrieval.At{Generation: g}, at)
			return err
		},
		"members": func(g int) error {
			_, err := reader.Members(t.Context(), f.a, f.collection, retrieval.At{Generation: g}, []uuid.UUID{schema.NewID()})
			return err
		},
		"clusters": func(g int) error {
			_, err := reader.ClustersOf(t.Context(), f.a, f.collection, retrieval.At{Generation: g}, at)
			return err
		},
		"vectors": func(g int) error {
			_, err := reader.VectorsOf(t.Context(), dense.PassagesQuery{Principal: f.a, Collection: f.collection, Generation: g, Passages: at})
			return err
		},
		"nearest": func(g int) error {
			q := query(f.a, f.collection, unit(r), 3)
			q.Generation = g
			_, err := f.Nearest(t.Context(), q)
			return err
		},
		"nearest in memory": func(g int) error {
			q := query(f.a, f.collection, unit(r), 3)
			q.Generation = g
			_, err := memory.Nearest(t.Context(), q)
			return err
		},
	}
	for live := 1; live <= 2; live++ {
		execAs(t, f, f.a, `UPDATE collections SET generation = $2 WHERE id = $1`, f.collection, live)
		if place, err := reader.CollectionState(t.Context(), f.a, f.collection); err != nil || place.Generation != live {
			t.Errorf("place is %+v, %v, not of generation %d", place, err, live)
		}
		for what, ask := range asks {
			if err := ask(live); err != nil {
				t.Errorf("%s of the live generation %d: %v", what, live, err)
			}
			var other *retrieval.GenerationError
			if err := ask(3 - live); !errors.As(err, &other) || other.Live != live || other.Asked != 3-live {
				t.Errorf("%s of generation %d, when %d is live: %v", what, 3-live, live, err)
			}
		}
	}
}

func versionsOf(refs []lexical.Ref) []uuid.UUID {
	out := make([]uuid.UUID, len(refs))
	for i, r := range refs {
		out[i] = r.Version
	}
	return out
}
