package ingestworker

// Rebuilds of collections.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/testsuite"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/ingest"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// rebuild starts a rebuild.
func (w *world) rebuild(n schema.NewRebuild) schema.Rebuild {
	w.t.Helper()
	r, err := w.store.StartRebuild(w.context(), w.principal, w.collection, n)
	w.ok(err)
	return r
}

// awaitRebuild waits until the newest rebuild is in a state.
func (w *world) awaitRebuild(want schema.GenerationState) schema.Rebuild {
	w.t.Helper()
	var r schema.Rebuild
	w.poll("a rebuild that is "+string(want), func() bool {
		var err error
		r, err = w.store.Rebuild(w.context(), w.principal, w.collection)
		w.ok(err)
		if r.State == schema.GenerationFailed && want != schema.GenerationFailed {
			w.t.Fatalf("the rebuild failed: %s", r.Reason)
		}
		return r.State == want
	})
	return r
}

// checkGeneration checks that the live generation has each live version once, and that all of its
// rows are its own.
func (w *world) checkGeneration() {
	w.t.Helper()
	for what, query := range map[string]string{
		"sections that the live generation's passages do not tile": `SELECT count(*) FROM sections s JOIN versions v ON v.id = s.version_id JOIN collections c ON c.id = v.collection_id
			WHERE v.state = 'ready' AND octet_length(s.body) <> (
			SELECT coalesce(sum(end_byte - start_byte), 0) FROM passages p WHERE p.section_id = s.id AND p.generation = c.generation)`,
		"passages of the live generation without a vector of its space": `SELECT count(*) FROM passages p JOIN collections c ON c.id = p.collection_id AND c.generation = p.generation
			WHERE NOT EXISTS (SELECT FROM vectors_256 v WHERE v.passage_id = p.id AND v.generation = p.generation AND v.space_id = c.space_id)`,
		"live versions without a living entry of the live generation": `SELECT count(*) FROM versions v JOIN collections c ON c.id = v.collection_id
			WHERE v.state = 'ready' AND 1 <> (SELECT count(*) FROM lexical_entries e WHERE e.version_id = v.id AND e.generation = c.generation AND NOT e.dead)`,
		"documents whose live version is not ready": `SELECT count(*) FROM documents d JOIN versions v ON v.id = d.live_version_id WHERE v.state <> 'ready'`,
	} {
		if n := w.count(query); n != 0 {
			w.t.Errorf("%d %s", n, what)
		}
	}
}

func TestRebuildPutsANewGenerationInThePlaceOfTheOld(t *testing.T) {
	w := newWorld(t)
	w.settings.CurateAfter, w.settings.CurateKeep = 100*time.Millisecond, -1
	w.uploadAll(someDocuments(15))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 15})
	w.curated()
	before := w.count(`SELECT count(*) FROM passages`)
	w.models.space = "another" // its segmentation differs, too
	r := w.rebuild(schema.NewRebuild{Language: "de"})
	if r.Generation != 2 || r.State != schema.GenerationBuilding || r.Total != 15 {
		t.Errorf("asked for: %+v", r)
	}
	if again := w.rebuild(schema.NewRebuild{Language: "de"}); again.Generation != 2 {
		t.Errorf("asked again: %+v", again)
	}
	if _, err := w.store.StartRebuild(w.context(), w.principal, w.collection, schema.NewRebuild{Language: "fr"}); err == nil || !strings.Contains(err.Error(), "cancel") {
		t.Errorf("asked for another recipe: %v", err)
	}
	done := w.awaitRebuild(schema.GenerationLive)
	if done.Versions != 15 || done.Space != "another" || int(done.Passages) != before {
		t.Errorf("done: %+v, had %d passages", done, before)
	}
	w.checkGeneration()
	c, err := w.store.Collection(w.context(), w.principal, w.collection.String())
	w.ok(err)
	if c.Generation != 2 || c.Language != "de" || c.Space != "another" {
		t.Errorf("collection: %+v", c)
	}
	w.poll("the old generation to go", func() bool { return w.count(`SELECT count(*) FROM generations WHERE removed_at IS NOT NULL`) == 1 })
	for _, table := range []string{"passages", "vectors_256", "lexical_entries", "lexical_segments", "clusters", "cluster_members"} {
		if n := w.count(`SELECT count(*) FROM ` + table + ` WHERE generation = 1`); n != 0 {
			t.Errorf("%d rows of %s are left of generation 1", n, table)
		}
	}
	w.checkStored()
	w.curated()
	// New documents belong to the new generation.
	w.upload("late.md", document("late", 3))
	w.awaitStates(map[schema.State]int{schema.StateReady: 16})
	w.curated()
	w.checkStored()
	w.saveHistories(wire.WorkflowRebuild, "rebuild_collection", "live")
}

func TestDocumentsRefusedForTheirModelAreQueuedAgainByARebuild(t *testing.T) {
	w := newWorld(t)
	w.upload("old.md", document("old", 2))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 1})
	w.models.space = "another"
	w.upload("new.md", document("new", 2))
	w.awaitStates(map[schema.State]int{schema.StateReady: 1, schema.StateFailed: 1})
	if d := w.document("new.md"); !strings.Contains(d.Reason.Message, "rebuild the collection") {
		t.Errorf("the reason does not name the remedy: %s", d.Reason.Message)
	}
	w.rebuild(schema.NewRebuild{})
	w.awaitStates(map[schema.State]int{schema.StateReady: 2})
	w.checkGeneration()
}

func TestCancelledRebuildLeavesTheCollectionAsItWas(t *testing.T) {
	w := newWorld(t)
	w.settings.CurateAfter, w.settings.CurateKeep = 100*time.Millisecond, -1
	w.uploadAll(someDocuments(10))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 10})
	w.curated()
	g := w.blockEncode("topic")
	w.rebuild(schema.NewRebuild{})
	<-g.reached
	r, err := w.store.CancelRebuild(w.context(), w.principal, w.collection)
	w.ok(err)
	if r.State != schema.GenerationCancelled {
		t.Errorf("cancelled: %+v", r)
	}
	close(g.open)
	w.ok(w.client.GetWorkflow(w.context(), wire.RebuildWorkflowID(w.collection, 2), "").Get(w.context(), nil))
	w.poll("what it wrote to go", func() bool { return w.count(`SELECT count(*) FROM generations WHERE removed_at IS NOT NULL`) == 1 })
	if n := w.count(`SELECT count(*) FROM passages WHERE generation = 2`); n != 0 {
		t.Errorf("%d passages of the cancelled generation", n)
	}
	w.checkStored()
	w.checkGeneration()
	if _, err := w.store.CancelRebuild(w.context(), w.principal, w.collection); err == nil {
		t.Error("cancelled twice")
	}
	w.saveHistories(wire.WorkflowRebuild, "rebuild_collection", "cancelled")
}

func TestRebuildThatTheModelRefusesFailsWithTheDocument(t *testing.T) {
	w := newWorld(t)
	w.uploadAll(someDocuments(3))
	w.upload("odd.md", document("unspeakable", 3))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 4})
	w.models.before = func(_ context.Context, op wire.ModelOp, texts []string) error {
		if op == wire.OpEncode && strings.Contains(strings.Join(texts, " "), "unspeakable") {
			return schema.Invalid("texts", "one is unspeakable")
		}
		return nil
	}
	w.rebuild(schema.NewRebuild{})
	if r := w.awaitRebuild(schema.GenerationFailed); !strings.Contains(r.Reason, "odd.md") {
		t.Errorf("failed: %+v", r)
	}
	w.checkGeneration()
	w.saveHistories(wire.WorkflowRebuild, "rebuild_collection", "failed")
}

func TestKilledWorkerGoesOnWithItsRebuild(t *testing.T) {
	w := newWorld(t)
	w.uploadAll(someDocuments(30))
	stop := w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 30})
	w.curated()
	stop()
	w.rebuild(schema.NewRebuild{})
	first, stdout := w.child("topic 17")
	if !stdout.Scan() {
		t.Fatal("the worker ended")
	}
	w.ok(first.Process.Signal(syscall.SIGKILL))
	_, _ = first.Process.Wait()
	w.child("")
	w.awaitRebuild(schema.GenerationLive)
	w.checkGeneration()
}

func TestKilledWorkerAndWipedTemporalLoseNoRebuild(t *testing.T) {
	w := newWorld(t)
	w.uploadAll(someDocuments(30))
	stop := w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 30})
	w.curated()
	stop()
	w.rebuild(schema.NewRebuild{})
	first, stdout := w.child("topic 17")
	if !stdout.Scan() {
		t.Fatal("the worker ended")
	}
	w.ok(first.Process.Signal(syscall.SIGKILL))
	_, _ = first.Process.Wait()
	w.wipeTemporal()
	w.child("")
	w.awaitRebuild(schema.GenerationLive)
	w.checkGeneration()
}

// TestRebuildBesideIngestAndQueriesLosesNothing uploads, replaces and deletes documents during
// rebuilds, and searches all the while: no query sees two generations, or too few documents.
func TestRebuildBesideIngestAndQueriesLosesNothing(t *testing.T) {
	w := newWorld(t)
	w.settings.CurateAfter = 200 * time.Millisecond
	w.uploadAll(someDocuments(40))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 40})
	w.curated()

	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	var once sync.Once
	end := func() { once.Do(func() { close(stop) }) }
	defer end()
	wg.Go(func() { w.ask(stop, 20) })
	uploads := 0
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			uploads++
			// The first twenty stay unchanged; the others are added, changed and deleted.
			name := fmt.Sprintf("doc-%03d.md", 20+i%30)
			if i%7 == 3 {
				d, err := w.store.DocumentNamed(w.context(), w.principal, w.collection, name)
				if err == nil {
					err = w.store.DeleteDocument(w.context(), w.principal, d.ID)
				}
				if err != nil && !errors.Is(err, schema.ErrNotFound) {
					t.Errorf("delete %s: %v", name, err)
				}
				continue
			}
			if _, err := documents.New(w.store, documents.Options{}).Upload(w.context(), w.principal, w.collection, []schema.Upload{
				{ExternalID: name, FileName: name, Content: strings.NewReader(document(fmt.Sprintf("change %d", i), 2+i%4))}}); err != nil {
				t.Errorf("upload %s: %v", name, err)
			}
		}
	})
	for generation := 2; generation <= 3; generation++ {
		if r := w.rebuild(schema.NewRebuild{}); r.Generation != generation {
			t.Fatalf("rebuild %d: %+v", generation, r)
		}
		w.awaitRebuild(schema.GenerationLive)
	}
	end()
	wg.Wait()
	t.Logf("%d uploads and deletions meanwhile", uploads)
	w.poll("the end of ingestion", func() bool {
		s := w.states()
		return s[schema.StateQueued]+s[schema.StateProcessing]+s[schema.StateReceived] == 0
	})
	if n := w.states()[schema.StateFailed]; n != 0 {
		t.Errorf("%d failed: %s", n, w.reasons())
	}
	w.curated()
	w.checkGeneration()
}

// ask searches, in the index and among vectors, until stop. Each result must be from one
// generation, and from at least a number of documents.
func (w *world) ask(stop <-chan struct{}, least int) {
	index := search.NewIndex(w.store, 1<<20)
	conn := w.superuser()
	ctx := w.context()
	vectors, space, err := w.models.Encode(ctx, wire.LaneInteractive, []string{"a question"})
	if err != nil {
		w.t.Error(err)
		return
	}
	for asked := 0; ; asked++ {
		select {
		case <-stop:
			w.t.Logf("asked %d times", asked)
			return
		default:
		}
		found, err := index.SearchText(ctx, w.principal.Tenant, w.collection, "paragraph",
			lexical.TermQuery{Unit: schema.UnitDocument, K: 500, Settings: lexical.Defaults})
		if err != nil {
			w.t.Errorf("search the index: %v", err)
			return
		}
		if len(found.Hits) < least {
			w.t.Errorf("the index found %d documents, at least %d are there", len(found.Hits), least)
		}
		hits, err := w.store.Nearest(ctx, dense.NearestQuery{Principal: w.principal, Collection: w.collection,
			Space: space, Vector: vectors.Row(0), K: 5000})
		if err != nil {
			w.t.Errorf("search vectors: %v", err)
			return
		}
		versions, places, passages := map[uuid.UUID]bool{}, map[lexical.Ref]bool{}, make([]uuid.UUID, len(hits))
		for i, h := range hits {
			if places[h.Ref] {
				w.t.Errorf("two passages of one answer are %v", h.Ref)
			}
			versions[h.Ref.Version], places[h.Ref], passages[i] = true, true, h.Passage
		}
		if len(versions) < least {
			w.t.Errorf("vectors found %d documents, at least %d are there", len(versions), least)
		}
		var generations int
		if err := conn.QueryRow(ctx, `SELECT count(DISTINCT generation) FROM passages WHERE id = ANY ($1)`, passages).Scan(&generations); err != nil || generations != 1 {
			w.t.Errorf("an answer of %d generations: %v", generations, err)
		}
	}
}

// TestMissingVersionsAreListedPageByPage: a listing looks at no document before its beginning,
// unless none after it is missing.
func TestMissingVersionsAreListedPageByPage(t *testing.T) {
	const page = 4000
	w := newWorld(t)
	numbered := func(n int) uuid.UUID { return uuid.MustParse(fmt.Sprintf("00000000-0000-7000-8000-%012x", n)) }
	const id = `('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`
	w.admin(`
		WITH d AS (
			INSERT INTO documents (tenant_id, id, collection_id, external_id, live_version_id)
			SELECT $1, `+id+`, $2, n::text, `+id+` FROM generate_series(1, 4100) n RETURNING *)
		INSERT INTO versions (tenant_id, id, document_id, collection_id, number, state, sha256, bytes, fingerprint)
		SELECT tenant_id, live_version_id, id, collection_id, 1, 'ready', 'x', 1, 'x' FROM d`, w.principal.Tenant, w.collection)
	in := wire.Rebuild{Tenant: w.principal.Tenant, Collection: w.collection, Generation: w.rebuild(schema.NewRebuild{}).Generation}
	written := func(from, to int) {
		w.admin(`
			INSERT INTO lexical_entries (tenant_id, id, collection_id, generation, version_id)
			SELECT $1, gen_random_uuid(), $2, $3, `+id+` FROM generate_series($4::int, $5::int) n`,
			in.Tenant, in.Collection, in.Generation, from, to)
	}
	var env testsuite.WorkflowTestSuite
	activities := env.NewTestActivityEnvironment()
	rebuilder := ingest.NewRebuilder(w.store, nil, nil, nil)
	activities.RegisterActivity(rebuilder.List)
	check := func(after, wantAfter uuid.UUID, want ...uuid.UUID) {
		t.Helper()
		in.After = after
		result, err := activities.ExecuteActivity(rebuilder.List, in)
		w.ok(err)
		var list wire.RebuildParts
		w.ok(result.Get(&list))
		var got []uuid.UUID
		for _, p := range list.Parts {
			got = append(got, p.Versions...)
		}
		if !slices.Equal(got, want) || list.After != wantAfter {
			t.Errorf("after %s: %d versions, %v, next page after %s; want %d, %v, after %s",
				after, len(got), got[:min(3, len(got))], list.After, len(want), want[:min(3, len(want))], wantAfter)
		}
	}
	sequence := func(from, to int) (out []uuid.UUID) {
		for n := from; n <= to; n++ {
			out = append(out, numbered(n))
		}
		return out
	}
	check(uuid.Nil, numbered(page), sequence(1, page)...)
	check(numbered(page), uuid.Nil, sequence(page+1, 4100)...)
	written(1, 9)
	written(11, 4049)
	written(4051, 4100)
	check(numbered(page), uuid.Nil, numbered(4050))
	check(numbered(4060), numbered(page), numbered(10))
	written(10, 10)
	check(uuid.Nil, uuid.Nil, numbered(4050)) // the page before has none
	written(4050, 4050)
	check(numbered(4060), uuid.Nil)
}
