package sourceworker

// This file records the histories that the replay test of package workflows replays. After an
// intended change of SyncSource, add new histories beside the old ones:
//
//	go test ./cmd/internal/sourceworker -run TestRecordHistories -record NAME
//
// writes workflows/testdata/sync_source_NAME_*.json. Old histories stay as long as workflows of
// that time may still run.

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

var record = flag.String("record", "", "write the histories of this test under this name to workflows/testdata")

// TestRecordHistories runs the possible courses of a synchronisation, and checks that each ends.
func TestRecordHistories(t *testing.T) {
	for name, run := range map[string]func(w *world){
		"followed": func(w *world) { // files are listed and fetched, and one is deleted later
			for _, file := range []string{"a.md", "b.md", "c.md", "d.md", "e.md", "f.md"} {
				w.write("docs/"+file, file)
			}
			w.add("docs", "folder", map[string]string{"path": w.root + "/docs"})
			w.ended("docs", 1)
			w.ok(os.Remove(filepath.Join(w.root, "docs/a.md")))
			w.act("docs", "run")
			w.ended("docs", 2)
		},
		"failed": func(w *world) { // the folder is missing, and comes back
			w.add("docs", "folder", map[string]string{"path": w.root + "/docs"})
			w.state("docs", schema.SourceRetrying)
			w.write("docs/a.md", "a")
			w.ended("docs", 1)
		},
		"removed": func(w *world) {
			w.write("docs/a.md", "a")
			w.add("docs", "folder", map[string]string{"path": w.root + "/docs"})
			w.ended("docs", 1)
			w.do(http.MethodDelete, "/v1/sources/docs", nil, http.StatusAccepted, nil)
			w.until(w.gone("docs"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.start()
			run(w)
			w.saveHistories(name)
		})
	}
}

// saveHistories waits for the end of every synchronisation, and keeps its history if asked to.
func (w *world) saveHistories(name string) {
	w.t.Helper()
	ctx := w.context()
	var all *workflowservice.ListWorkflowExecutionsResponse
	w.until(func() (wrong string) {
		var err error
		all, err = w.client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
			Namespace: w.temporal.Namespace, Query: "WorkflowType = '" + wire.WorkflowSyncSource + "'"})
		w.ok(err)
		if len(all.Executions) == 0 {
			return "no workflow is listed"
		}
		return ""
	})
	slices.Reverse(all.Executions) // oldest first
	for i, e := range all.Executions {
		w.ok(w.client.GetWorkflow(ctx, e.Execution.WorkflowId, e.Execution.RunId).Get(ctx, nil))
		if *record == "" {
			continue
		}
		var history historypb.History
		events := w.client.GetWorkflowHistory(ctx, e.Execution.WorkflowId, e.Execution.RunId, false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for events.HasNext() {
			event, err := events.Next()
			w.ok(err)
			history.Events = append(history.Events, event)
		}
		data, err := protojson.MarshalOptions{Multiline: true, Indent: " "}.Marshal(&history)
		w.ok(err)
		file := filepath.Join("..", "..", "..", "workflows", "testdata", fmt.Sprintf("sync_source_%s_%s_%d.json", *record, name, i))
		w.ok(os.WriteFile(file, append(data, '\n'), 0o644))
	}
}
