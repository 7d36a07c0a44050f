package durable_test

import (
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestSlowTaskIsNoDeadlock: a workflow that gets no processor for longer than the SDK's default
// limit of a second goes on.
func TestSlowTaskIsNoDeadlock(t *testing.T) {
	ns := localtest.Temporal(t)
	ctx := waittest.Context(t)
	c, err := durable.Dial(ctx, durable.Options{Address: ns.Address, Namespace: ns.Namespace, Name: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var begun atomic.Bool
	slow := func(workflow.Context) error {
		if begun.Swap(true) {
			return nil // a failed task is repeated
		}
		over := make(chan struct{})
		time.AfterFunc(3*time.Second/2, func() { close(over) }) //house:clock longer than the SDK lets a task compute
		<-over
		return nil
	}
	service := durable.Worker("slow", c, wire.TaskQueueQuestions, worker.Options{}, 1, func(w worker.Worker) {
		w.RegisterWorkflowWithOptions(slow, workflow.RegisterOptions{Name: "slow"})
	})
	if err := service.Start(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := service.Stop(ctx); err != nil {
			t.Error(err)
		}
	}()
	started, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "slow", TaskQueue: wire.TaskQueueQuestions}, "slow")
	if err != nil {
		t.Fatal(err)
	}
	if err := started.Get(ctx, nil); err != nil {
		t.Fatal(err)
	}
	history := c.GetWorkflowHistory(ctx, started.GetID(), started.GetRunID(), false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		e, err := history.Next()
		if err != nil {
			t.Fatal(err)
		}
		if failed := e.GetWorkflowTaskFailedEventAttributes(); failed != nil {
			t.Errorf("a task of the workflow failed: %s", failed.GetFailure().GetMessage())
		}
	}
}
