package ingestworker

// Vectors of large collections on Temporal: a separate worker, because an activity may take hours,
// and the signal that starts it.

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/internal/curate"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/schema/wire"
	"github.com/sluice-rag/sluice/workflows"
)

// vectors returns the Temporal worker that builds vector indexes, of one collection at a time. Stop
// cancels an activity; another worker goes on with it.
func vectors(c client.Client, a *curate.Activities) lifecycle.Service {
	return durable.Worker("vectors", c, wire.TaskQueueVectors, worker.Options{
		MaxConcurrentActivityExecutionSize: 1,
		MaxConcurrentActivityTaskPollers:   1,
		MaxConcurrentWorkflowTaskPollers:   2,
		WorkerStopTimeout:                  time.Second,
	}, 1, func(w worker.Worker) {
		w.RegisterWorkflowWithOptions(workflows.TendVectors, workflow.RegisterOptions{Name: wire.WorkflowVectors})
		w.RegisterActivityWithOptions(a.TendVectors, activity.RegisterOptions{Name: wire.ActivityTendVectors})
	})
}

// TendVectors implements curate.Vectors.
func (s curations) TendVectors(ctx context.Context, in wire.Curation) error {
	options := client.StartWorkflowOptions{
		ID:                       wire.VectorsWorkflowID(in.Collection),
		TaskQueue:                wire.TaskQueueVectors,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	}
	if _, err := s.client.SignalWithStartWorkflow(ctx, options.ID, wire.SignalCurate, nil, options, wire.WorkflowVectors, in); err != nil {
		return fmt.Errorf("start the vector workflow of collection %s: %w", in.Collection, err)
	}
	return nil
}
