package ingestworker

// Documents in batches.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/ingest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestDocumentsBecomeReady(t *testing.T) {
	w := newWorld(t)
	w.uploadAll(someDocuments(20))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 20})
	w.checkStored()
	d := w.document("doc-003.md")
	if d.Title != "About topic 3" || d.MediaType != "text/markdown" || !d.Live || d.Passages == 0 || d.Sections == 0 {
		t.Errorf("document: %+v", d)
	}
}

func TestBrokenDocumentFailsAlone(t *testing.T) {
	w := newWorld(t)
	files := someDocuments(5)
	files["bad.md"] = "BROKEN"
	w.uploadAll(files)
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 5, schema.StateFailed: 1})
	w.checkStored()
	d := w.document("bad.md")
	if d.Reason == nil || d.Reason.Code != schema.ReasonBroken || d.Live {
		t.Errorf("bad.md: %+v", d)
	}
}

// gate lets calls of the model pass, or blocks them until it is opened.
type gate struct {
	reached chan struct{} // closed when the first call waits
	open    chan struct{}
	once    sync.Once
}

func newGate() *gate { return &gate{reached: make(chan struct{}), open: make(chan struct{})} }

func (g *gate) wait(ctx context.Context) error {
	g.once.Do(func() { close(g.reached) })
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// blockEncode blocks the model's calls that encode a text with this word.
func (w *world) blockEncode(word string) *gate {
	g := newGate()
	w.models.before = func(ctx context.Context, op wire.ModelOp, texts []string) error {
		if op == wire.OpEncode && strings.Contains(strings.Join(texts, " "), word) {
			return g.wait(ctx)
		}
		return nil
	}
	return g
}

func TestChangedDocumentReplacesItsOldVersionInOneCommit(t *testing.T) {
	w := newWorld(t)
	g := w.blockEncode("second")
	w.upload("a.md", document("first", 3))
	w.start()
	// Every paragraph of document has the word "second".
	<-g.reached
	close(g.open)
	w.awaitStates(map[schema.State]int{schema.StateReady: 1})
	first := w.count(`SELECT count(*) FROM documents d JOIN versions v ON v.id = d.live_version_id WHERE v.number = 1`)
	if first != 1 {
		t.Fatal("the first version is not live")
	}

	g = w.blockEncode("altered")
	w.upload("a.md", document("altered", 4))
	<-g.reached
	if n := w.count(`SELECT count(*) FROM documents d JOIN versions v ON v.id = d.live_version_id WHERE v.number = 1 AND v.state = 'ready'`); n != 1 {
		t.Error("while the change is processed the old version must stay live")
	}
	close(g.open)
	w.awaitStates(map[schema.State]int{schema.StateReady: 1, schema.StateSuperseded: 1})
	w.checkStored()
	if n := w.count(`SELECT count(*) FROM documents d JOIN versions v ON v.id = d.live_version_id WHERE v.number = 2`); n != 1 {
		t.Error("the second version is not live")
	}
	if d := w.document("a.md"); d.Title != "About altered" || d.Version != 2 {
		t.Errorf("document: %+v", d)
	}
}

func TestOlderVersionThatComesLateDoesNotGoLive(t *testing.T) {
	w := newWorld(t)
	g := w.blockEncode("slow")
	w.upload("a.md", document("slow", 3))
	w.start()
	<-g.reached
	w.upload("a.md", document("quick", 3))
	w.awaitStates(map[schema.State]int{schema.StateReady: 1})
	close(g.open)
	w.awaitStates(map[schema.State]int{schema.StateReady: 1, schema.StateSuperseded: 1})
	w.checkStored()
	if n := w.count(`SELECT count(*) FROM documents d JOIN versions v ON v.id = d.live_version_id WHERE v.number = 2`); n != 1 {
		t.Error("the newer version is not live")
	}
}

func TestFailedChangeLeavesTheOldVersion(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.upload("a.md", document("first", 3))
	w.awaitStates(map[schema.State]int{schema.StateReady: 1})
	w.upload("a.md", "BROKEN")
	w.awaitStates(map[schema.State]int{schema.StateReady: 1, schema.StateFailed: 1})
	w.checkStored()
	if d := w.document("a.md"); !d.Live || d.State != schema.StateFailed {
		t.Errorf("document: %+v", d)
	}
}

func TestDocumentDeletedWhileProcessedStaysDeleted(t *testing.T) {
	w := newWorld(t)
	g := w.blockEncode("doomed")
	uploaded := w.upload("a.md", document("doomed", 3))
	w.upload("b.md", document("kept", 3))
	w.start()
	<-g.reached
	w.ok(w.store.DeleteDocument(w.context(), w.principal, uploaded.Document))
	close(g.open)
	w.awaitStates(map[schema.State]int{schema.StateReady: 1})
	w.checkStored()
	if n := w.count(`SELECT count(*) FROM versions WHERE id = $1 AND state <> 'cancelled'`, uploaded.Version); n != 0 { // they may have been purged already
		t.Error("a deleted document's version is not cancelled")
	}
	if n := w.count(`SELECT count(*) FROM passages WHERE version_id = $1`, uploaded.Version); n != 0 {
		t.Errorf("a deleted document has %d passages", n)
	}
}

func TestRowThatPostgresRefusesFailsItsDocumentAlone(t *testing.T) {
	w := newWorld(t)
	w.admin(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF NEW.body LIKE '%poison%' THEN RAISE EXCEPTION 'this text is refused'; END IF;
			RETURN NEW;
		END $$`)
	w.admin(`CREATE TRIGGER refuse BEFORE INSERT ON sections FOR EACH ROW EXECUTE FUNCTION refuse()`)
	files := someDocuments(5)
	files["poison.md"] = document("poison", 3)
	w.uploadAll(files)
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 5, schema.StateFailed: 1})
	w.checkStored()
	d := w.document("poison.md")
	if d.Reason == nil || d.Reason.Code != schema.ReasonRejected || !strings.Contains(d.Reason.Message, "this text is refused") {
		t.Errorf("poison.md: %+v", d.Reason)
	}
}

func TestTextThatTheModelRefusesFailsItsDocumentAlone(t *testing.T) {
	w := newWorld(t)
	w.models.before = func(_ context.Context, op wire.ModelOp, texts []string) error {
		if op == wire.OpEncode && strings.Contains(strings.Join(texts, " "), "unspeakable") {
			return schema.Invalid("texts", "one is unspeakable")
		}
		return nil
	}
	files := someDocuments(3)
	files["bad.md"] = document("unspeakable", 3)
	w.uploadAll(files)
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 3, schema.StateFailed: 1})
	w.checkStored()
	if d := w.document("bad.md"); d.Reason == nil || d.Reason.Code != schema.ReasonModel {
		t.Errorf("bad.md: %+v", d.Reason)
	}
}

func TestModelServerOfAnotherSpaceIsRefusedWithTheRemedy(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.upload("a.md", document("one", 2))
	w.awaitStates(map[schema.State]int{schema.StateReady: 1})
	w.models.space = "another"
	w.upload("b.md", document("two", 2))
	w.awaitStates(map[schema.State]int{schema.StateReady: 1, schema.StateFailed: 1})
	d := w.document("b.md")
	if d.Reason == nil || d.Reason.Code != schema.ReasonModel || !strings.Contains(d.Reason.Message, "load the model pack of scripted") {
		t.Errorf("b.md: %+v", d.Reason)
	}
}

func TestModelServerThatIsAwayIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	var refused atomic.Int64
	w.models.before = func(context.Context, wire.ModelOp, []string) error {
		if refused.Add(1) <= 5 { // more often than faults of the program are retried
			return schema.ErrUnavailable
		}
		return nil
	}
	w.upload("a.md", document("one", 2))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 1})
	w.checkStored()
}

func TestStageThatKeepsFailingEndsWithAReason(t *testing.T) {
	w := newWorld(t)
	w.models.before = func(_ context.Context, op wire.ModelOp, _ []string) error {
		if op == wire.OpEncode {
			return errors.New("a fault of the program")
		}
		return nil
	}
	w.upload("a.md", document("one", 2))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateFailed: 1})
	if d := w.document("a.md"); d.Reason == nil || !strings.Contains(d.Reason.Message, "a fault of the program") {
		t.Errorf("a.md: %+v", d.Reason)
	}
}

func TestDocumentThatKillsItsParserFailsAfterThreeTimes(t *testing.T) {
	w := newWorld(t)
	var deaths atomic.Int64
	w.parser = &scriptedParser{before: func(_ context.Context, name string) error {
		if name == "killer.md" {
			deaths.Add(1)
			return &ingest.FileError{Reason: schema.Reason{Code: schema.ReasonCrashed, Message: "killed"}, Err: errors.New("killed")}
		}
		return nil
	}}
	files := someDocuments(3)
	files["killer.md"] = document("killer", 2)
	w.uploadAll(files)
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 3, schema.StateFailed: 1})
	if d := w.document("killer.md"); d.Reason == nil || d.Reason.Code != schema.ReasonCrashed || deaths.Load() != 3 {
		t.Errorf("killer.md after %d deaths: %+v", deaths.Load(), d.Reason)
	}
}

func TestRetryWorksInsideTheDuplicateWindow(t *testing.T) {
	w := newWorld(t)
	var healed atomic.Bool
	w.parser = &scriptedParser{before: func(context.Context, string) error {
		if healed.Load() {
			return nil
		}
		return &ingest.FileError{Reason: schema.Reason{Code: schema.ReasonTimeout, Message: "slow"}, Err: errors.New("slow")}
	}}
	uploaded := w.upload("a.md", document("one", 2))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateFailed: 1})
	healed.Store(true)
	_, err := w.store.RetryDocument(w.context(), w.principal, uploaded.Document)
	w.ok(err)
	w.awaitStates(map[schema.State]int{schema.StateReady: 1})
	w.checkStored()
	if d := w.document("a.md"); d.Attempt != 2 {
		t.Errorf("attempt %d, want 2", d.Attempt)
	}
}

func TestLostArtifactsMakeTheStagesRunAgain(t *testing.T) {
	w := newWorld(t)
	g := w.blockEncode("held")
	w.upload("a.md", document("held", 3))
	w.start()
	<-g.reached
	// As a crash of Postgres does to an unlogged table.
	w.admin(`TRUNCATE artifacts`)
	close(g.open)
	w.awaitStates(map[schema.State]int{schema.StateReady: 1})
	w.checkStored()
}

func TestWritingTwiceChangesNothing(t *testing.T) {
	w := newWorld(t)
	uploaded := w.uploadAll(someDocuments(2))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 2})
	before := w.count(`SELECT count(*) FROM passages`)
	events := w.count(`SELECT coalesce(max(id), 0)::int FROM outbox`)
	docs := writable(uploaded)
	lost, err := w.store.WriteVersions(w.context(), w.principal.Tenant, w.collection, docs)
	w.ok(err)
	if len(lost) != 0 || w.count(`SELECT count(*) FROM passages`) != before {
		t.Errorf("a repeated write: outcomes %v, %d passages, had %d", lost, w.count(`SELECT count(*) FROM passages`), before)
	}
	docs[0].Attempt.Attempt = 9
	lost, err = w.store.WriteVersions(w.context(), w.principal.Tenant, w.collection, docs)
	w.ok(err)
	if len(lost) != 1 || !lost[0].Lost {
		t.Errorf("a write under another attempt: %v", lost)
	}
	if after := w.count(`SELECT coalesce(max(id), 0)::int FROM outbox`); after > events {
		t.Error("a write that does nothing must tell of nothing")
	}
	w.checkStored()
}

// TestModelServersThatDisagreeFailADocument: somebody must fix that, so the document fails instead
// of waiting silently.
func TestModelServersThatDisagreeFailADocument(t *testing.T) {
	w := newWorld(t)
	w.models.before = func(_ context.Context, op wire.ModelOp, _ []string) error {
		if op == wire.OpEncode {
			return fmt.Errorf("encode 2 texts: %w", modelclient.ErrPackMismatch)
		}
		return nil
	}
	w.upload("a.md", document("packs", 3))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateFailed: 1})
	if d := w.document("a.md"); d.Reason == nil || !strings.Contains(d.Reason.Message, "3 times") || !strings.Contains(d.Reason.Message, modelclient.ErrPackMismatch.Error()) {
		t.Errorf("got %+v", d.Reason)
	}
}

func TestTitleGivenWithTheUploadIsEmbedded(t *testing.T) {
	w := newWorld(t)
	var embedded atomic.Bool
	w.models.before = func(_ context.Context, op wire.ModelOp, texts []string) error {
		if op == wire.OpEncode && strings.HasPrefix(texts[0], "A given name\n") {
			embedded.Store(true)
		}
		return nil
	}
	_, err := documents.New(w.store, documents.Options{}).Upload(w.context(), w.principal, w.collection, []schema.Upload{{ExternalID: "a.md", FileName: "a.md",
		Title: "A given name", Content: strings.NewReader(document("one", 2))}})
	w.ok(err)
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 1})
	if d := w.document("a.md"); d.Title != "A given name" || !embedded.Load() {
		t.Errorf("the title is %q; embedded with the text: %t", d.Title, embedded.Load())
	}
}
