package ingestworker

// Records the histories that the replay test of package workflows replays.
// After a change of IngestVersions that is meant, add new ones beside the old:
//
//	go test ./cmd/internal/ingestworker -run TestRecordHistories -record NAME
//
// writes workflows/testdata/ingest_versions_NAME_*.json, and the same for curations
// and rebuilds (curation_test.go, rebuild_test.go). Old histories stay as long
// as batches of that time may still run.

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

var record = flag.String("record", "", "write the histories of this test under this name to workflows/testdata")

// TestRecordHistories runs the possible courses of a batch and checks that each ends.
func TestRecordHistories(t *testing.T) {
	for name, run := range map[string]func(w *world){
		"ready": func(w *world) {
			w.uploadAll(someDocuments(3))
			w.start()
			w.awaitStates(map[schema.State]int{schema.StateReady: 3})
		},
		"failures": func(w *world) {
			files := someDocuments(3)
			files["bad.md"] = "BROKEN"
			w.uploadAll(files)
			w.start()
			w.awaitStates(map[schema.State]int{schema.StateReady: 3, schema.StateFailed: 1})
		},
		"collections": func(w *world) {
			w.uploadInto(3, 2)
			w.addTenant()
			w.upload("a.md", document("other", 3))
			w.start()
			w.awaitAll(7)
			w.poll("curation", func() bool { return w.count(uncuratedSQL) == 0 })
			w.saveHistories(wire.WorkflowCurateMany, "curate_together", "signals")
		},
		"lost_artifacts": func(w *world) {
			// The first run's artifacts are lost, as after a crash of the database.
			w.admin(`CREATE SEQUENCE lost`)
			w.admin(`GRANT USAGE ON SEQUENCE lost TO PUBLIC`)
			w.admin(`CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$
				BEGIN IF nextval('lost') = 1 THEN RETURN NULL; END IF; RETURN NEW; END $$`)
			w.admin(`CREATE TRIGGER lose BEFORE INSERT ON artifacts FOR EACH ROW EXECUTE FUNCTION lose()`)
			w.upload("a.md", document("held", 3))
			w.start()
			w.awaitStates(map[schema.State]int{schema.StateReady: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.parser = &scriptedParser{}
			run(w)
			w.saveHistories(wire.WorkflowIngestVersions, "ingest_versions", name)
		})
	}
}

// saveHistories waits for the end of every workflow of a type and keeps its
// history, as prefix_RECORD_name_N.json, if asked to.
func (w *world) saveHistories(kind, prefix, name string) {
	w.t.Helper()
	ctx := w.context()
	list, err := w.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: w.temporal.Namespace, Query: "WorkflowType = '" + kind + "'"})
	w.ok(err)
	if len(list.Executions) == 0 {
		w.t.Fatal("no workflow ran")
	}
	for i, e := range list.Executions {
		w.ok(w.client.GetWorkflow(ctx, e.Execution.WorkflowId, e.Execution.RunId).Get(ctx, nil))
		if *record == "" {
			continue
		}
		history, err := read(w.client.GetWorkflowHistory(ctx, e.Execution.WorkflowId, e.Execution.RunId, false,
			enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT))
		w.ok(err)
		data, err := protojson.MarshalOptions{Multiline: true, Indent: " "}.Marshal(history)
		w.ok(err)
		dir := filepath.Join("..", "..", "..", "workflows", "testdata")
		w.ok(os.MkdirAll(dir, 0o755))
		w.ok(os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s_%s_%s_%d.json", prefix, *record, name, i)), append(data, '\n'), 0o644))
	}
}

func read(events client.HistoryEventIterator) (*historypb.History, error) {
	var out historypb.History
	for events.HasNext() {
		e, err := events.Next()
		if err != nil {
			return nil, err
		}
		out.Events = append(out.Events, e)
	}
	return &out, nil
}
