package workflows

// RebuildCollection builds a generation beside the live one: it cuts, encodes and indexes every
// live version again, clusters them, and then asks for the flip, which finds the versions that came
// meanwhile. The generation's row says whether it still has to be built; this workflow may be lost
// at any time, and another execution continues where it was.

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// rebuildAtOnce is how many parts are cut at a time: one waits for the models while another is
	// written.
	rebuildAtOnce = 2
	// rebuildSecondAtOnce is the same for the second encoder, which is limited to a share of
	// processor time and gives way to other work.
	rebuildSecondAtOnce = 1
	// maxRebuildPages bounds one execution's history.
	maxRebuildPages = 50
)

// rebuildRetry has no limit: failures of the environment are temporary, and others are errors of
// their own types.
var rebuildRetry = &temporal.RetryPolicy{
	InitialInterval:        200 * time.Millisecond,
	BackoffCoefficient:     1.5,
	MaximumInterval:        20 * time.Second,
	NonRetryableErrorTypes: []string{wire.ErrorRebuildRefused, wire.ErrorRebuildOver},
}

func rebuildOptions(ctx workflow.Context, limit time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: limit, HeartbeatTimeout: heartbeat, RetryPolicy: rebuildRetry,
	})
}

// RebuildCollection is the workflow.
func RebuildCollection(ctx workflow.Context, in wire.Rebuild) error {
	err := rebuild(ctx, in)
	var refused *temporal.ApplicationError
	if errors.As(err, &refused) {
		switch refused.Type() {
		case wire.ErrorRebuildOver:
			return nil // cancelled, or another execution was faster
		case wire.ErrorRebuildRefused:
			return workflow.ExecuteActivity(rebuildOptions(ctx, time.Minute), wire.ActivityRebuildFail, in, refused.Message()).Get(ctx, nil)
		}
	}
	return err
}

func rebuild(ctx workflow.Context, in wire.Rebuild) error {
	for page := 1; ; page++ {
		var list wire.RebuildParts
		if err := workflow.ExecuteActivity(rebuildOptions(ctx, 10*time.Minute), wire.ActivityRebuildList, in).Get(ctx, &list); err != nil {
			return err
		}
		if len(list.Parts) > 0 {
			atOnce := rebuildAtOnce
			if in.Second {
				atOnce = rebuildSecondAtOnce
			}
			if err := cutParts(ctx, list.Parts, atOnce); err != nil {
				return err
			}
			in.After = list.After
		} else {
			if !in.Clustered {
				if err := workflow.ExecuteActivity(rebuildOptions(ctx, 2*time.Hour), wire.ActivityRebuildCluster, in).Get(ctx, nil); err != nil {
					return err
				}
				in.Clustered = true
			}
			var live bool
			if err := workflow.ExecuteActivity(rebuildOptions(ctx, 30*time.Minute), wire.ActivityRebuildFlip, in).Get(ctx, &live); err != nil {
				return err
			}
			if live {
				return nil
			}
		}
		if page >= maxRebuildPages || workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return workflow.NewContinueAsNewError(ctx, RebuildCollection, in)
		}
	}
}

// cutParts has the parts cut, atOnce at a time. After an error it starts no more, waits for those
// under way, and returns the first error.
func cutParts(ctx workflow.Context, parts []wire.RebuildPart, atOnce int) error {
	var failure error
	running := 0
	selector := workflow.NewSelector(ctx)
	for _, part := range parts {
		if running == atOnce {
			selector.Select(ctx)
		}
		if failure != nil {
			break
		}
		running++
		selector.AddFuture(workflow.ExecuteActivity(rebuildOptions(ctx, time.Hour), wire.ActivityRebuildCut, part), func(f workflow.Future) {
			running--
			if err := f.Get(ctx, nil); err != nil && failure == nil {
				failure = err
			}
		})
	}
	for running > 0 {
		selector.Select(ctx)
	}
	return failure
}
