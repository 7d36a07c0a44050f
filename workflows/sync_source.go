package workflows

// SyncSource keeps a collection in step with a place. What there is to do, and what was done, is in
// the store: a step does some of it and names the next. A place that fails, or asks for time, ends
// the workflow; the store has when another one goes on.

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema/wire"
)

// maxSourceSteps bounds one execution's history.
const maxSourceSteps = 500

// sourceRetry has no limit: an error is of Postgres, or of a worker that ended. What places say is
// no error here.
var sourceRetry = &temporal.RetryPolicy{
	InitialInterval:    500 * time.Millisecond,
	BackoffCoefficient: 1.5,
	MaximumInterval:    20 * time.Second,
}

// SyncSource is the workflow. A step may take long, for a place may be slow; that it lives is what
// its heartbeat says.
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
