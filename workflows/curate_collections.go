package workflows

// CurateCollections does a round for each of many collections, in few activities: a workflow with
// five activities for each would cost more than the work itself. Collections that are large, or
// that fail, get their own CurateCollection.

import (
	"errors"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema/wire"
)

// CurateCollections is the workflow.
func CurateCollections(ctx workflow.Context, in wire.Curations) error {
	step := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Hour, HeartbeatTimeout: heartbeat, RetryPolicy: curateRetry,
	})
	var failures []error
	for left := in.Collections; len(left) > 0; {
		var out wire.CuratedMany
		if err := workflow.ExecuteActivity(step, wire.ActivityCurateMany, wire.Curations{Collections: left}).Get(ctx, &out); err != nil {
			// The reconciler finds what is left in the store.
			return errors.Join(append(failures, err)...)
		}
		if err := startCurations(ctx, out.Alone); err != nil {
			failures = append(failures, err)
		}
		left = left[min(max(out.Did, 1), len(left)):]
	}
	return errors.Join(failures...)
}

// startCurations starts the curations of collections. Curations that already run go on.
func startCurations(ctx workflow.Context, collections []wire.Curation) error {
	started := make([]workflow.ChildWorkflowFuture, len(collections))
	for i, c := range collections {
		child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID:            wire.CurateWorkflowID(c.Collection),
			WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			ParentClosePolicy:     enums.PARENT_CLOSE_POLICY_ABANDON,
		})
		started[i] = workflow.ExecuteChildWorkflow(child, wire.WorkflowCurate, c)
	}
	var failures []error
	for _, f := range started {
		var runs *temporal.ChildWorkflowExecutionAlreadyStartedError
		if err := f.GetChildWorkflowExecution().Get(ctx, nil); err != nil && !errors.As(err, &runs) {
			failures = append(failures, err)
		}
	}
	return errors.Join(failures...)
}
