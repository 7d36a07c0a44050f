package ingestworker

// Parsing documents again.

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/ingest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func (w *world) reparse() schema.Reparse {
	w.t.Helper()
	r, err := w.store.StartReparse(w.context(), w.principal, w.collection)
	w.ok(err)
	return r
}

// awaitReparse waits until the newest run is in a state.
func (w *world) awaitReparse(want schema.ReparseState) schema.Reparse {
	w.t.Helper()
	var r schema.Reparse
	w.poll("a run that is "+string(want), func() bool {
		var err error
		r, err = w.store.Reparse(w.context(), w.principal, w.collection)
		w.ok(err)
		return r.State == want
	})
	return r
}

// markOldParser marks the stored text of documents as that of an older parser.
func (w *world) markOldParser(names ...string) {
	w.t.Helper()
	w.admin(`UPDATE sections s SET layout = '\x0102' FROM documents d WHERE d.id = s.document_id AND d.external_id = ANY ($1)`, names)
}

func (w *world) version(name string) (number int) {
	w.t.Helper()
	w.ok(w.superuser().QueryRow(w.context(), `SELECT v.number FROM documents d JOIN versions v ON v.id = d.live_version_id WHERE d.external_id = $1`, name).Scan(&number))
	return number
}

func TestReparseReplacesWhatParsesToSomethingElse(t *testing.T) {
	w := newWorld(t)
	var now atomic.Bool
	w.parser = &scriptedParser{before: func(_ context.Context, name string) error {
		if now.Load() && name == "bad.md" {
			return &ingest.FileError{Reason: schema.Reason{Code: schema.ReasonBroken, Message: "its middle is missing"}, Err: errors.New("broken")}
		}
		return nil
	}}
	w.uploadAll(someDocuments(9))
	w.upload("bad.md", document("bad", 2))
	w.upload("short.md", document("short", 2))
	w.upload("twice.md", document("twice", 2))
	_, err := documents.New(w.store, documents.Options{}).Upload(w.context(), w.principal, w.collection, []schema.Upload{{ExternalID: "old.md", FileName: "old.md",
		Content: strings.NewReader(document("old", 3)), Title: "Given", Labels: []string{"staff"}, Metadata: schema.Metadata{"year": 1999}}})
	w.ok(err)
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 13})
	// The newest version of one document failed: the older, live text does not replace it.
	w.upload("twice.md", "BROKEN")
	w.awaitStates(map[schema.State]int{schema.StateReady: 13, schema.StateFailed: 1})
	w.markOldParser("old.md", "doc-003.md")
	w.admin(`UPDATE sections s SET body = repeat(body, 3) FROM documents d WHERE d.id = s.document_id AND d.external_id = 'short.md'`)
	now.Store(true)
	if r := w.reparse(); r.State != schema.ReparseRunning || r.Total != 13 || r.Number != 1 {
		t.Errorf("asked for: %+v", r)
	}
	r := w.awaitReparse(schema.ReparseDone)
	if r.Unchanged != 8 || r.Changed != 2 || r.Failed != 3 || r.Writing != 0 || len(r.Failures) != 3 {
		t.Fatalf("done: %+v", r)
	}
	for i, want := range []struct{ name, code, message string }{
		{"bad.md", schema.ReasonBroken, "its middle is missing"}, {"short.md", schema.ReasonRejected, "which stay"}, {"twice.md", schema.ReasonBroken, "its newest version failed"}} {
		if f := r.Failures[i]; f.ExternalID != want.name || f.Reason.Code != want.code || !strings.Contains(f.Reason.Message, want.message) {
			t.Errorf("failure %d is %+v, want %+v", i, f, want)
		}
	}
	for name, want := range map[string]int{"old.md": 2, "doc-003.md": 2, "doc-004.md": 1, "bad.md": 1, "twice.md": 1} {
		if got := w.version(name); got != want {
			t.Errorf("version %d of %s is live, want %d", got, name, want)
		}
	}
	if n := w.count(`SELECT count(*) FROM sections s JOIN versions v ON v.id = s.version_id WHERE v.state = 'ready' AND s.layout = '\x0102'`); n != 0 {
		t.Errorf("%d live sections are of the older parser", n)
	}
	// The text that citations refer to stays, as for a version that an upload replaced.
	if n := w.count(`SELECT count(DISTINCT v.id) FROM sections s JOIN versions v ON v.id = s.version_id WHERE v.state = 'superseded'`); n != 2 {
		t.Errorf("the text of %d replaced versions is stored, want 2", n)
	}
	d := w.document("old.md")
	if d.Title != "Given" || d.Metadata["year"] == nil || len(d.Labels) != 1 || d.Labels[0] != "staff" || d.State != schema.StateReady {
		t.Errorf("old.md is %+v", d)
	}
	if n := w.count(`SELECT count(*) FROM versions a JOIN versions b ON b.document_id = a.document_id AND b.number = a.number + 1
		WHERE b.state = 'ready' AND (a.fingerprint <> b.fingerprint OR a.sha256 <> b.sha256)`); n != 0 {
		t.Errorf("%d documents would count as changed at their next upload", n)
	}
	w.admin(`DELETE FROM sections s USING documents d WHERE d.id = s.document_id AND d.external_id = 'short.md'`) // the test broke its text
	w.admin(`DELETE FROM documents WHERE external_id = 'short.md'`)
	calls := w.models.calls.Load()
	w.reparse()
	if r := w.awaitReparse(schema.ReparseDone); r.Number != 2 || r.Unchanged != 10 || r.Changed != 0 || r.Failed != 2 {
		t.Errorf("again: %+v", r)
	}
	if n := w.models.calls.Load() - calls; n != 0 {
		t.Errorf("a run that changes nothing asked the models %d times", n)
	}
	w.saveHistories(wire.WorkflowReparse, "reparse_collection", "done")
}

func TestCancelledReparseLeavesTheRestAsItIs(t *testing.T) {
	w := newWorld(t)
	var hold atomic.Bool
	reached, open := make(chan struct{}, 100), make(chan struct{})
	w.parser = &scriptedParser{before: func(ctx context.Context, _ string) error {
		if !hold.Load() {
			return nil
		}
		reached <- struct{}{}
		select {
		case <-open:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
	w.uploadAll(someDocuments(6))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 6})
	w.markOldParser("doc-000.md", "doc-001.md", "doc-002.md", "doc-003.md", "doc-004.md", "doc-005.md")
	hold.Store(true)
	w.reparse()
	<-reached
	r, err := w.store.CancelReparse(w.context(), w.principal, w.collection)
	w.ok(err)
	if r.State != schema.ReparseCancelled || r.FinishedAt == nil {
		t.Errorf("cancelled: %+v", r)
	}
	close(open)
	w.ok(w.client.GetWorkflow(w.context(), wire.ReparseWorkflowID(w.collection, 1), "").Get(w.context(), nil))
	if n := w.count(`SELECT count(*) FROM versions`); n != 6 {
		t.Errorf("%d versions after a run that was cancelled, want 6", n)
	}
	if _, err := w.store.CancelReparse(w.context(), w.principal, w.collection); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("cancelled twice: %v", err)
	}
	w.checkStored()
	w.saveHistories(wire.WorkflowReparse, "reparse_collection", "cancelled")
	hold.Store(false)
	w.reparse()
	if r := w.awaitReparse(schema.ReparseDone); r.Changed != 6 {
		t.Errorf("after it: %+v", r)
	}
	w.checkStored()
}

// A worker is killed while it writes documents that were parsed again, and Temporal loses its
// state: nothing is lost or done twice.
func TestKilledWorkerAndWipedTemporalLoseNoReparse(t *testing.T) {
	w := newWorld(t)
	w.parser = nil // as in the child processes
	first, _ := w.child("")
	w.uploadAll(someDocuments(12))
	w.awaitStates(map[schema.State]int{schema.StateReady: 12})
	w.ok(first.Process.Signal(syscall.SIGKILL))
	_, _ = first.Process.Wait()
	w.markOldParser("doc-001.md", "doc-007.md", "doc-008.md")
	w.reparse()
	second, stdout := w.child("topic 7")
	if !stdout.Scan() {
		t.Fatal("the worker ended")
	}
	w.ok(second.Process.Signal(syscall.SIGKILL))
	_, _ = second.Process.Wait()
	w.wipeTemporal()
	w.child("")
	if r := w.awaitReparse(schema.ReparseDone); r.Unchanged != 9 || r.Changed != 3 || r.Failed != 0 {
		t.Errorf("done: %+v", r)
	}
	if n := w.count(`SELECT count(*) FROM versions`); n != 15 {
		t.Errorf("%d versions, want 15", n)
	}
	w.checkStored()
}

// A document that kills its workers keeps its text, and the others are parsed.
func TestReparseOfADocumentThatKillsItsWorkerEnds(t *testing.T) {
	w := newWorld(t)
	w.settings.CurateAfter = time.Hour
	first, _ := w.child("")
	w.uploadAll(someDocuments(5))
	w.upload("killer.md", document("killer", 2))
	w.awaitStates(map[schema.State]int{schema.StateReady: 6})
	w.ok(first.Process.Signal(syscall.SIGKILL))
	_, _ = first.Process.Wait()
	w.markOldParser("doc-001.md", "killer.md")
	w.reparse()
	for range 3 {
		worker, stdout := w.childWith(childSettings{Deadly: "killer.md"})
		for stdout.Scan() { // until the process ends
		}
		if worker.Wait() == nil {
			t.Fatal("the worker was not killed")
		}
	}
	w.childWith(childSettings{Deadly: "killer.md"})
	r := w.awaitReparse(schema.ReparseDone)
	if r.Unchanged != 4 || r.Changed != 1 || r.Failed != 1 || r.Failures[0].ExternalID != "killer.md" || r.Failures[0].Reason.Code != schema.ReasonCrashed {
		t.Errorf("done: %+v", r)
	}
	if w.version("killer.md") != 1 {
		t.Error("the text of the document is not what it was")
	}
	w.checkStored()
}
