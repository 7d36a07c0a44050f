package durable_test

import (
	"fmt"
	"testing"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestMain(m *testing.M) { localtest.Main(m, localtest.Need{Temporal: true}) }

// TestTaskQueuesTellWhatWaitsAndWhoWorks: a workflow waits while there is no worker; then it runs,
// and the worker is listed.
func TestTaskQueuesTellWhatWaitsAndWhoWorks(t *testing.T) {
	ns := localtest.Temporal(t)
	c, err := durable.Later(durable.Options{Address: ns.Address, Namespace: ns.Namespace, Name: "a worker"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	look := func() schema.TaskQueue {
		t.Helper()
		all, err := durable.TaskQueues(t.Context(), c, ns.Namespace)
		if err != nil || len(all) != 14 {
			t.Fatalf("%+v, %v", all, err)
		}
		for _, q := range all {
			if q.Name == wire.TaskQueueQuestions && q.Kind == "workflow" {
				return q
			}
		}
		t.Fatalf("the queue of questions is not in %+v", all)
		return schema.TaskQueue{}
	}
	if q := look(); q.Backlog != 0 || len(q.Workers) != 0 {
		t.Errorf("an unused queue is %+v", q)
	}
	done := func(workflow.Context) error { return nil }
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "one", TaskQueue: wire.TaskQueueQuestions}, "done")
	if err != nil {
		t.Fatal(err)
	}
	// The server counts it some time after it is queued.
	var q schema.TaskQueue
	backlog := func(want int64) {
		t.Helper()
		waittest.Until(t, func() string {
			if q = look(); q.Backlog != want {
				return fmt.Sprintf("the backlog is %d, want %d", q.Backlog, want)
			}
			return ""
		})
	}
	backlog(1)
	if len(q.Workers) != 0 {
		t.Errorf("nobody works, and it tells of %+v", q.Workers)
	}
	w := worker.New(c, wire.TaskQueueQuestions, worker.Options{})
	w.RegisterWorkflowWithOptions(done, workflow.RegisterOptions{Name: "done"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if err := run.Get(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	backlog(0)
	if len(q.Workers) == 0 || q.Workers[0].Name != "a worker" || q.Workers[0].Seen.IsZero() {
		t.Errorf("with a worker the queue is %+v", q)
	}
}
