package ingestworker

// Ingestion on Temporal: the worker that runs the workflow and its stages, and the client that
// starts batches.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/fairness"
	"github.com/sluice-rag/sluice/internal/ingest"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/schema/wire"
	"github.com/sluice-rag/sluice/workflows"
)

// stages returns the Temporal worker. Stop lets running stages finish; after WorkerStopTimeout they
// are cancelled, and another worker repeats them.
func stages(c client.Client, a *ingest.Activities, searches *fairness.Foreground, o ingest.Options) lifecycle.Service {
	return durable.Worker("ingest stages", c, wire.TaskQueueIngest, worker.Options{
		// Stages of the batches that this worker has claimed, and as many of other workers'.
		MaxConcurrentActivityExecutionSize:     2 * o.Batches,
		MaxConcurrentActivityTaskPollers:       2,
		MaxConcurrentWorkflowTaskPollers:       2,
		MaxConcurrentWorkflowTaskExecutionSize: 2 * o.Batches,
		WorkerStopTimeout:                      Grace,
		Interceptors:                           []interceptor.WorkerInterceptor{&pausingOptions{searches: searches}},
	}, 1, func(w worker.Worker) {
		w.RegisterWorkflowWithOptions(workflows.IngestVersions, workflow.RegisterOptions{Name: wire.WorkflowIngestVersions})
		w.RegisterWorkflowWithOptions(workflows.IngestBatch, workflow.RegisterOptions{Name: wire.WorkflowIngestBatch})
		for name, stage := range map[string]any{
			wire.ActivityParseVersions: a.Parse, wire.ActivityIndexVersions: a.Index, wire.ActivityFailVersions: a.Fail,
			wire.ActivityParse: a.ParseBatch, wire.ActivitySegment: a.CutBatch, wire.ActivityEncode: a.CutBatch,
			wire.ActivityWrite: a.WriteBatch, wire.ActivityFail: a.FailBatch,
		} {
			w.RegisterActivityWithOptions(stage, activity.RegisterOptions{Name: name})
		}
	})
}

// batches starts IngestVersions workflows.
type batches struct{ client client.Client }

// Start implements ingest.Workflows.
func (b batches) Start(ctx context.Context, id string, in wire.IngestVersions) error {
	_, err := b.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       id,
		TaskQueue:                wire.TaskQueueIngest,
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		EnableEagerStart:         true,
	}, wire.WorkflowIngestVersions, in)
	if err != nil {
		return fmt.Errorf("start workflow %s: %w", id, err)
	}
	return nil
}

// Wait implements ingest.Workflows.
func (b batches) Wait(ctx context.Context, id string) error {
	var result wire.BatchResult
	err := b.client.GetWorkflow(ctx, id, "").Get(ctx, &result)
	var failed *temporal.WorkflowExecutionError
	var unknown *serviceerror.NotFound
	switch {
	case err == nil:
		slog.InfoContext(ctx, "batch ended", "batch", id, "ready", result.Ready, "failed", result.Failed, "lost", result.Lost)
		return nil
	case errors.As(err, &failed):
		// The leases of its versions expire, and they are queued again.
		slog.ErrorContext(ctx, "batch failed", "batch", id, "error", err)
		return nil
	case errors.As(err, &unknown):
		slog.WarnContext(ctx, "temporal no longer has the workflow of a batch", "batch", id)
		return nil
	}
	return fmt.Errorf("wait for workflow %s: %w", id, err)
}
