package workflows_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema/wire"
	"github.com/sluice-rag/sluice/workflows"
)

// choose runs ChoosePlan with a scripted step. It returns the number of steps, the recorded reason
// of a failure, and the workflow's error.
func choose(step func(n int) (wire.ChoiceStep, error)) (steps int, reason string, err error) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterActivityWithOptions(func(context.Context, wire.PlanChoice) (wire.ChoiceStep, error) {
		steps++
		return step(steps)
	}, activity.RegisterOptions{Name: wire.ActivityChooseStep})
	env.RegisterActivityWithOptions(func(_ context.Context, _ wire.PlanChoice, why string) error {
		reason = why
		return nil
	}, activity.RegisterOptions{Name: wire.ActivityChooseFail})
	env.ExecuteWorkflow(workflows.ChoosePlan, wire.PlanChoice{Tenant: uuid.New(), Choice: uuid.New()})
	return steps, reason, env.GetWorkflowError()
}

func TestChoosePlanStepsUntilNothingIsLeft(t *testing.T) {
	steps, reason, err := choose(func(n int) (wire.ChoiceStep, error) { return wire.ChoiceStep{More: n < 4}, nil })
	if err != nil || steps != 4 || reason != "" {
		t.Errorf("%v after %d steps, %q", err, steps, reason)
	}
}

func TestChoosePlanTriesAgainUnlessItIsRefused(t *testing.T) {
	steps, reason, err := choose(func(n int) (wire.ChoiceStep, error) {
		switch n {
		case 1:
			return wire.ChoiceStep{}, errors.New("the model server is away")
		case 2:
			return wire.ChoiceStep{More: true}, nil
		}
		return wire.ChoiceStep{}, temporal.NewNonRetryableApplicationError("no plan can be run", wire.ErrorChoiceRefused, nil)
	})
	if err != nil || steps != 3 || reason != "no plan can be run" {
		t.Errorf("%v after %d steps, %q", err, steps, reason)
	}
}

func TestChoosePlanBeginsAnewBeforeItsHistoryGetsLong(t *testing.T) {
	steps, _, err := choose(func(int) (wire.ChoiceStep, error) { return wire.ChoiceStep{More: true}, nil })
	var anew *workflow.ContinueAsNewError
	if !errors.As(err, &anew) || steps != 500 {
		t.Errorf("%v after %d steps", err, steps)
	}
}
