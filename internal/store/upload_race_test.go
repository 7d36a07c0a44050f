package store_test

// This file uploads, deletes and measures concurrently.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// With any mix of parallel uploads of overlapping sets of documents, none is lost, versions of a
// document are numbered from 1 without gaps, and its newest is the one with the highest number.
func TestConcurrentUploadsNumberVersions(t *testing.T) {
	f := setUp(t, store.Options{})
	var round int
	rapid.Check(t, func(t *rapid.T) {
		round++
		collection, err := f.CreateCollection(context.Background(), f.a, schema.NewCollection{Name: fmt.Sprintf("round-%d", round)})
		if err != nil {
			t.Fatal(err)
		}
		calls := rapid.SliceOfN(rapid.SliceOfNDistinct(rapid.IntRange(0, 5), 1, 6, rapid.ID), 1, 6).Draw(t, "calls")
		want := map[string]int{}
		var wg sync.WaitGroup
		for i, documents := range calls {
			var uploads []schema.Upload
			for _, d := range documents {
				id := fmt.Sprintf("doc-%d", d)
				uploads = append(uploads, text(id, fmt.Sprintf("%s of call %d", id, i)))
				want[id]++
			}
			wg.Go(func() {
				if _, err := f.Upload(context.Background(), f.a, collection.ID, uploads); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		list, _, err := f.Documents(context.Background(), f.a, collection.ID, schema.DocumentQuery{})
		if err != nil || len(list) != len(want) {
			t.Fatalf("%d documents, want %d, %v", len(list), len(want), err)
		}
		for _, d := range list {
			versions, err := f.Versions(context.Background(), f.a, d.ID)
			if err != nil || len(versions) != want[d.ExternalID] || d.Version != len(versions) {
				t.Fatalf("%s: %d versions, newest %d, want %d, %v", d.ExternalID, len(versions), d.Version, want[d.ExternalID], err)
			}
			for i, v := range versions {
				if v.Number != len(versions)-i {
					t.Fatalf("%s: version %d at place %d", d.ExternalID, v.Number, i)
				}
			}
		}
	})
}

func TestDeleteDuringUpload(t *testing.T) {
	f := setUp(t, store.Options{})
	for round := range 10 {
		collection, err := f.CreateCollection(t.Context(), f.a, schema.NewCollection{Name: fmt.Sprintf("round-%d", round)})
		if err != nil {
			t.Fatal(err)
		}
		first, err := f.Upload(t.Context(), f.a, collection.ID, []schema.Upload{text("a", "first")})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var deleteErr, uploadErr, collectionErr error
		wg.Go(func() { deleteErr = f.DeleteDocument(context.Background(), f.a, first[0].Document) })
		wg.Go(func() {
			_, uploadErr = f.Upload(context.Background(), f.a, collection.ID, []schema.Upload{text("a", "second"), text("b", "new")})
		})
		if round%2 == 1 {
			wg.Go(func() { collectionErr = f.DeleteCollection(context.Background(), f.a, collection.ID) })
		}
		wg.Wait()
		if collectionErr != nil || deleteErr != nil && !errors.Is(deleteErr, schema.ErrNotFound) || uploadErr != nil && !errors.Is(uploadErr, schema.ErrNotFound) {
			t.Fatal(collectionErr, deleteErr, uploadErr)
		}
		// In whatever order they came, a hidden document has no version that may go live.
		n := one[int](t, f, f.a, `SELECT count(*) FROM versions v JOIN documents d ON d.id = v.document_id
			WHERE d.deleted_at IS NOT NULL AND v.state NOT IN ('superseded', 'cancelled')`)
		if n != 0 {
			t.Errorf("round %d: %d versions of hidden documents are still open", round, n)
		}
		if round%2 == 1 {
			if n := one[int](t, f, f.a, `SELECT count(*) FROM documents WHERE collection_id = $1 AND deleted_at IS NULL`, collection.ID); n != 0 {
				t.Errorf("round %d: %d documents live in a deleted collection", round, n)
			}
		}
	}
}

// The cost of an upload must not grow with what the tenant already has: with plans made on empty
// tables, foreign key checks would scan all of it.
func TestUploadsReadNoMoreAsTheTenantGrows(t *testing.T) {
	f := setUp(t, store.Options{})
	s := open(t, f.url, store.Options{MaxConns: 1, Name: "grower"})
	const rounds, documents = 24, 64
	for round := range rounds {
		var uploads []schema.Upload
		for i := range documents {
			u := text(fmt.Sprintf("%d/%d", round, i), fmt.Sprintf("content %d %d", round, i))
			u.Labels, u.Metadata = []string{"staff"}, schema.Metadata{"year": 2024.0}
			uploads = append(uploads, u)
		}
		if _, err := (&fixture{All: s}).Upload(t.Context(), f.a, f.collection, uploads); err != nil {
			t.Fatal(err)
		}
	}
	s.Close() // a backend reports its counts when it exits
	conn := connect(t, f.url)
	defer conn.Close(context.Background()) //nolint:errcheck // a test's
	for running := true; running; {
		if err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = 'grower')`).Scan(&running); err != nil {
			t.Fatal(err)
		}
	}
	var read int64
	if err := conn.QueryRow(t.Context(), `SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables WHERE relname IN ('versions', 'documents')`).Scan(&read); err != nil {
		t.Fatal(err)
	}
	if limit := int64(rounds * documents * 60); read > limit {
		t.Errorf("uploading %d documents read %d rows, over %d", rounds*documents, read, limit)
	}
}
