package ingestworker

// What becomes of documents that are taken in.

import (
	"context"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

func TestDocumentsBecomeReady(t *testing.T) {
	w := newWorld(t)
	w.uploadAll(documents(20))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 20})
	w.whole()
	d := w.document("doc-003.md")
	if d.Title != "About topic 3" || d.MediaType != "text/markdown" || !d.Live || d.Passages == 0 || d.Sections == 0 {
		t.Errorf("document: %+v", d)
	}
}

func TestBrokenDocumentFailsAlone(t *testing.T) {
	w := newWorld(t)
	files := documents(5)
	files["bad.md"] = "BROKEN"
	w.uploadAll(files)
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 5, schema.StateFailed: 1})
	w.whole()
	d := w.document("bad.md")
	if d.Reason == nil || d.Reason.Code != schema.ReasonBroken || d.Live {
		t.Errorf("bad.md: %+v", d)
	}
	_ = context.Background
}
