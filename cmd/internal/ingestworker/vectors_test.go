package ingestworker

import (
	"fmt"
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestNothingWaitsForVectors: while the activity that builds a collection's vector index is
// blocked, its documents are clustered and its segments merged.
func TestNothingWaitsForVectors(t *testing.T) {
	w := newWorld(t)
	db, err := store.Open(w.context(), w.url, store.Options{VectorURL: localtest.VectorURL(t, w.url), OwnVectorsAbove: 10})
	w.ok(err)
	t.Cleanup(db.Close)
	w.store = stores.Of(db)
	w.options.BatchVersions = 1 // a segment each
	w.uploadAll(someDocuments(10))
	release := w.lock(`LOCK TABLE vector_shards IN SHARE MODE`) // allows reads and blocks writes
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 10})
	w.poll("a step for vectors that waits", func() bool {
		return w.count(`SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'vector_shards'::regclass`) > 0
	})
	const waves, each = 5, 30 // more than 100 in all
	for wave := range waves {
		files := map[string]string{}
		for i := range each {
			files[fmt.Sprintf("wave-%d/%d.md", wave, i)] = document(fmt.Sprintf("topic %d of %d", i, wave), 2)
		}
		w.uploadAll(files)
		w.awaitStates(map[schema.State]int{schema.StateReady: 10 + each*(wave+1)})
		w.poll("segments to be merged", func() bool {
			return w.count(`SELECT count(*) FROM lexical_segments WHERE merged_at IS NULL`) < 40
		})
	}
	w.poll("versions that nobody clustered", func() bool {
		return w.count(`SELECT count(*) FROM versions WHERE NOT curated AND state = 'ready'`) == 0
	})
	if n := w.count(`SELECT count(*) FROM vector_shards`); n != 0 {
		t.Fatalf("the step was not held: %d shards", n)
	}
	release()
	w.poll("an index", func() bool {
		return w.count(`SELECT count(*) FROM vector_shards WHERE indexed > 0`) > 0
	})
	w.curated()
	w.saveHistories(wire.WorkflowCurate, "curate_collection", "vectors")
	w.saveHistories(wire.WorkflowVectors, "tend_vectors", "held")
}
