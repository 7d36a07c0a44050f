package ingestworker

// Curation of collections after ingestion.

import (
	"context"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// curated waits until the collection's curation has ended, and checks the result.
func (w *world) curated() {
	w.t.Helper()
	ctx := w.context()
	w.poll("versions that nobody curated", func() bool {
		return w.count(`SELECT count(*) FROM versions WHERE NOT curated AND state IN ('ready', 'superseded') AND collection_id = $1`, w.collection) == 0
	})
	w.ok(w.client.GetWorkflow(ctx, wire.CurateWorkflowID(w.collection), "").Get(ctx, nil))
	for what, query := range map[string]string{
		"ready versions without a living entry": `SELECT count(*) FROM versions v JOIN collections c ON c.id = v.collection_id WHERE v.state = 'ready' AND NOT EXISTS (
			SELECT FROM lexical_entries e WHERE e.version_id = v.id AND e.generation = c.generation AND NOT e.dead)`,
		"living entries of versions that are not ready": `SELECT count(*) FROM lexical_entries e JOIN versions v ON v.id = e.version_id WHERE v.state <> 'ready' AND NOT e.dead`,
		"sections of ready versions in no cluster": `SELECT count(*) FROM sections s JOIN versions v ON v.id = s.version_id JOIN collections c ON c.id = v.collection_id
			WHERE v.state = 'ready' AND NOT EXISTS (SELECT FROM cluster_members m WHERE m.section_id = s.id AND m.generation = c.generation)`,
		// An ended generation keeps its members until it is removed.
		"members of clusters that are not ready": `SELECT count(*) FROM cluster_members m JOIN versions v ON v.id = m.version_id
			JOIN collections c ON c.id = m.collection_id AND c.generation = m.generation WHERE v.state <> 'ready'`,
		"clusters whose sums are wrong": `SELECT count(*) FROM clusters c WHERE NOT EXISTS (
			SELECT FROM cluster_members m WHERE m.cluster_id = c.id HAVING count(*) = c.sections AND sum(m.tokens) = c.tokens)`,
	} {
		if n := w.count(query); n != 0 {
			w.t.Errorf("%d %s", n, what)
		}
	}
}

// poll repeats done until it holds, for changes without an event.
func (w *world) poll(what string, done func() bool) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			w.t.Log("open workflows:", w.openWorkflows())
		}
	}()
	waittest.Until(w.t, func() string {
		if !done() {
			return "waiting for " + what
		}
		return ""
	})
}

func TestChangesAreCuratedBySignal(t *testing.T) {
	w := newWorld(t)
	w.uploadAll(someDocuments(20))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 20})
	w.curated()
	if n := w.count(`SELECT count(*) FROM clusters`); n == 0 {
		t.Error("no clusters")
	}
	// The workflow ended when it was idle; the next change starts another.
	w.upload("doc-003.md", document("something else", 4))
	w.awaitStates(map[schema.State]int{schema.StateReady: 20, schema.StateSuperseded: 1})
	w.curated()
	w.checkStored()
	w.saveHistories(wire.WorkflowCurate, "curate_collection", "signals")
}

func TestReconcilerFindsWhatNobodySignalled(t *testing.T) {
	w := newWorld(t)
	w.uploadAll(someDocuments(10))
	stop := w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 10})
	w.curated()
	stop()
	// Deleting sends no signal, and Temporal loses its state.
	d := w.document("doc-004.md")
	w.ok(w.store.DeleteDocument(w.context(), w.principal, d.ID))
	w.wipeTemporal()
	w.settings.CurateAfter = 100 * time.Millisecond
	w.start()
	w.curated()
}

func TestDeletedCollectionLeavesNothingToCurate(t *testing.T) {
	w := newWorld(t)
	w.settings.CurateAfter = 100 * time.Millisecond
	w.uploadAll(someDocuments(10))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 10})
	w.curated()
	w.ok(w.store.DeleteCollection(w.context(), w.principal, w.collection))
	w.poll("an empty collection", func() bool { return w.count(`SELECT count(*) FROM collections WHERE emptied_at IS NULL`) == 0 })
	w.curated()
	for _, table := range []string{"clusters", "cluster_members", "lexical_entries", "lexical_segments", "lexical_pages"} {
		if n := w.count(`SELECT count(*) FROM ` + table); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
}

// TestKilledWorkerLeavesNoCurationUndone kills the worker during an activity, which waits for a
// lock that the test holds.
func TestKilledWorkerLeavesNoCurationUndone(t *testing.T) {
	w := newWorld(t)
	w.uploadAll(someDocuments(12))
	release := w.lock(`LOCK TABLE cluster_members IN ACCESS EXCLUSIVE MODE`)
	first, _ := w.child("")
	w.awaitStates(map[schema.State]int{schema.StateReady: 12})
	w.poll("a step that waits", func() bool {
		return w.count(`SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'cluster_members'::regclass`) > 0
	})
	w.ok(first.Process.Signal(syscall.SIGKILL))
	_, _ = first.Process.Wait()
	release()
	w.child("")
	w.curated()
	w.checkStored()
}

func TestKilledWorkerAndWipedTemporalLeaveNoCurationUndone(t *testing.T) {
	w := newWorld(t)
	w.settings.CurateAfter = 100 * time.Millisecond
	w.uploadAll(someDocuments(12))
	release := w.lock(`LOCK TABLE cluster_members IN ACCESS EXCLUSIVE MODE`)
	first, _ := w.child("")
	w.awaitStates(map[schema.State]int{schema.StateReady: 12})
	w.poll("a step that waits", func() bool {
		return w.count(`SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'cluster_members'::regclass`) > 0
	})
	w.ok(first.Process.Signal(syscall.SIGKILL))
	_, _ = first.Process.Wait()
	release()
	w.wipeTemporal()
	w.child("")
	w.curated()
	w.checkStored()
}

func TestSignalsOfABurstAreOneRound(t *testing.T) {
	w := newWorld(t)
	w.start()
	s := newSignals(w.client)
	w.ok(s.Start(w.context()))
	for range 500 {
		s.Changed(w.principal.Tenant, w.collection)
	}
	w.ok(s.Stop(w.context())) // sends what is left
	ctx := w.context()
	w.ok(w.client.GetWorkflow(ctx, wire.CurateWorkflowID(w.collection), "").Get(ctx, nil))
	events := w.client.GetWorkflowHistory(ctx, wire.CurateWorkflowID(w.collection), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	history, err := read(events)
	w.ok(err)
	received := 0
	for _, e := range history.Events {
		if e.EventType == enums.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED {
			received++
		}
	}
	if received == 0 || received > 3 {
		t.Errorf("%d signals of a burst of 500 changes", received)
	}
}

// lock runs a statement in a transaction that stays open until the function
// that it returns is called, or the test ends.
func (w *world) lock(statement string) (release func()) {
	w.t.Helper()
	conn := w.superuser()
	tx, err := conn.Begin(context.Background())
	w.ok(err)
	_, err = tx.Exec(context.Background(), statement)
	w.ok(err)
	return func() {
		w.t.Helper()
		w.ok(tx.Rollback(context.Background()))
	}
}
