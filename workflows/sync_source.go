package workflows

// SyncSource keeps a collection in step with a source. The work to do and the work done are in the
// store: a step does some of it and returns the next step. If the source fails, or asks to wait,
// the workflow ends; the store has the time at which another one continues.

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema/wire"
)

// maxSourceSteps bounds one execution's history.
const maxSourceSteps = 500

// sourceRetry has no limit: an error comes from Postgres or from a worker that ended. Failures of
// sources are not errors here.
var sourceRetry = &temporal.RetryPolicy{
	InitialInterval:    500 * time.Millisecond,
	BackoffCoefficient: 1.5,
	MaximumInterval:    20 * time.Second,
}

// SyncSource is the workflow. A step may take long, because a source may be slow; its heartbeat
// shows that it is alive.
func SyncSource(ctx workflow.Context, in wire.SourceSync) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 24 * time.Hour, HeartbeatTimeout: heartbeat, RetryPolicy: sourceRetry,
	})
	next := in.Next
	if next == "" {
		next = wire.ActivitySourceBegin
	}
	for step := 1; next != ""; step++ {
		var out wire.SourceStep
		in.Next = ""
		if err := workflow.ExecuteActivity(ctx, next, in).Get(ctx, &out); err != nil {
			return err
		}
		in.Run, in.Attempt, next = out.Run, out.Attempt, out.Next
		if next != "" && (step >= maxSourceSteps || workflow.GetInfo(ctx).GetContinueAsNewSuggested()) {
			in.Next = next
			return workflow.NewContinueAsNewError(ctx, SyncSource, in)
		}
	}
	return nil
}
