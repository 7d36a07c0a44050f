package ingestworker

// What counts against a document: killing its parser or its worker, or making a stage fail.
// Unavailable services do not count.

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Parses without a result, as while parsers or the store are unavailable, do not count as deaths.
func TestParsesThatEndWithoutAResultAreNoDeaths(t *testing.T) {
	w := newWorld(t)
	var parses atomic.Int64
	w.parser = &scriptedParser{before: func(context.Context, string) error {
		if parses.Add(1) <= 2*3 {
			return fmt.Errorf("the parsers are being replaced: %w", schema.ErrUnavailable)
		}
		return nil
	}}
	w.upload("a.md", document("one", 2))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 1})
	w.checkStored()
}

// A document that kills its worker fails alone, although the worker cannot report it.
func TestDocumentThatKillsItsWorkerFailsAfterThreeTimes(t *testing.T) {
	w := newWorld(t)
	files := someDocuments(7) // a batch with them
	files["killer.md"] = document("killer", 2)
	w.uploadAll(files)
	for range 3 {
		worker, stdout := w.childWith(childSettings{Deadly: "killer.md"})
		for stdout.Scan() { // until the process ends
		}
		if worker.Wait() == nil {
			t.Fatal("the worker was not killed")
		}
	}
	w.childWith(childSettings{Deadly: "killer.md"})
	w.awaitStates(map[schema.State]int{schema.StateReady: 7, schema.StateFailed: 1})
	if d := w.document("killer.md"); d.Reason == nil || d.Reason.Code != schema.ReasonCrashed {
		t.Errorf("killer.md: %+v", d.Reason)
	}
}

// However long the model server is down, that is not counted with faults of the program.
func TestManyTriesWhileTheModelServerIsAwayAreNoFaults(t *testing.T) {
	w := newWorld(t)
	var tries atomic.Int64
	w.models.before = func(_ context.Context, op wire.ModelOp, _ []string) error {
		if op != wire.OpEncode {
			return nil
		}
		switch n := int(tries.Add(1)); {
		case n <= 2*w.options.Tries:
			return fmt.Errorf("no model server answers: %w", schema.ErrUnavailable)
		case n < 3*w.options.Tries:
			return errors.New("a fault of the program")
		}
		return nil
	}
	w.upload("a.md", document("one", 2))
	w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 1})
	w.checkStored()
}
