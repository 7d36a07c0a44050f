package workflows

// ChoosePlan measures plans on a collection's questions and proposes one. The work to do and the
// work done are in the store: a step does some of it and reports whether there is more. This
// workflow may be lost at any time, and another execution continues where it was.

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema/wire"
)

// maxChoiceSteps bounds one execution's history.
const maxChoiceSteps = 500

// choiceRetry has no limit: failures of the environment are temporary, and others are errors of
// their own type.
var choiceRetry = &temporal.RetryPolicy{
	InitialInterval:        500 * time.Millisecond,
	BackoffCoefficient:     1.5,
	MaximumInterval:        20 * time.Second,
	NonRetryableErrorTypes: []string{wire.ErrorChoiceRefused},
}

// ChoosePlan is the workflow.
func ChoosePlan(ctx workflow.Context, in wire.PlanChoice) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 15 * time.Minute, HeartbeatTimeout: heartbeat, RetryPolicy: choiceRetry,
	})
	for step := 1; ; step++ {
		var out wire.ChoiceStep
		err := workflow.ExecuteActivity(ctx, wire.ActivityChooseStep, in).Get(ctx, &out)
		var refused *temporal.ApplicationError
		switch {
		case errors.As(err, &refused) && refused.Type() == wire.ErrorChoiceRefused:
			return workflow.ExecuteActivity(ctx, wire.ActivityChooseFail, in, refused.Message()).Get(ctx, nil)
		case err != nil || !out.More:
			return err
		case step >= maxChoiceSteps || workflow.GetInfo(ctx).GetContinueAsNewSuggested():
			return workflow.NewContinueAsNewError(ctx, ChoosePlan, in)
		}
	}
}
