package workflows

// ReparseCollection parses the documents of a collection again, and waits until those that changed
// are written. The store has a row for each document that was dealt with: this workflow may be lost
// at any time, and another execution continues where it was.

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// reparsePause is the first pause while the workflow waits for documents to be written, and
	// mostReparsePause the longest.
	reparsePause     = 500 * time.Millisecond
	mostReparsePause = 30 * time.Second
	// maxReparseRounds bounds one execution's history.
	maxReparseRounds = 100
)

// reparseRetry has no limit: a document's fault is an outcome, and all other errors are temporary.
var reparseRetry = &temporal.RetryPolicy{
	InitialInterval:        200 * time.Millisecond,
	BackoffCoefficient:     1.5,
	MaximumInterval:        20 * time.Second,
	NonRetryableErrorTypes: []string{wire.ErrorReparseOver},
}

func reparseOptions(ctx workflow.Context, limit time.Duration) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: limit, HeartbeatTimeout: heartbeat, RetryPolicy: reparseRetry,
	})
}

// ReparseCollection is the workflow.
func ReparseCollection(ctx workflow.Context, in wire.Reparse) error {
	err := reparse(ctx, in)
	var over *temporal.ApplicationError
	if errors.As(err, &over) && over.Type() == wire.ErrorReparseOver {
		return nil // cancelled, or another execution was faster
	}
	return err
}

func reparse(ctx workflow.Context, in wire.Reparse) error {
	pause := reparsePause
	for round := 1; ; round++ {
		var list wire.ReparseParts
		if err := workflow.ExecuteActivity(reparseOptions(ctx, 10*time.Minute), wire.ActivityReparseList, in).Get(ctx, &list); err != nil {
			return err
		}
		for _, part := range list.Parts {
			if err := workflow.ExecuteActivity(reparseOptions(ctx, 6*time.Hour), wire.ActivityReparseParse, part).Get(ctx, nil); err != nil {
				return err
			}
		}
		switch {
		case len(list.Parts) > 0:
			pause = reparsePause
		case !list.Wait:
			var done bool
			if err := workflow.ExecuteActivity(reparseOptions(ctx, time.Minute), wire.ActivityReparseFinish, in).Get(ctx, &done); err != nil {
				return err
			}
			if done {
				return nil
			}
			fallthrough
		default:
			if err := workflow.Sleep(ctx, pause); err != nil {
				return err
			}
			pause = min(2*pause, mostReparsePause)
		}
		if round >= maxReparseRounds || workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return workflow.NewContinueAsNewError(ctx, ReparseCollection, in)
		}
	}
}
