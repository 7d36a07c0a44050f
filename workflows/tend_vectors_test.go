package workflows_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema/wire"
	"github.com/sluice-rag/sluice/workflows"
)

// tending runs TendVectors with a scripted step. It returns how often the step ran and how long the
// workflow took by its own clock.
func tending(step func(env *testsuite.TestWorkflowEnvironment, run int) (wire.Curated, error)) (runs int, took time.Duration, err error) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkflowRunTimeout(24 * time.Hour)
	env.RegisterActivityWithOptions(func(context.Context, wire.Curation) (wire.Curated, error) {
		runs++
		return step(env, runs)
	}, activity.RegisterOptions{Name: wire.ActivityTendVectors})
	begun := env.Now()
	env.ExecuteWorkflow(workflows.TendVectors, wire.Curation{Tenant: uuid.New(), Collection: uuid.New()})
	return runs, env.Now().Sub(begun), env.GetWorkflowError()
}

func TestTendVectorsGoesOnWhileThereIsMore(t *testing.T) {
	runs, took, err := tending(func(_ *testsuite.TestWorkflowEnvironment, run int) (wire.Curated, error) {
		return wire.Curated{Did: 1, More: run < 4}, nil
	})
	if runs != 4 || took >= time.Second || err != nil {
		t.Errorf("%d runs in %v, %v", runs, took, err)
	}
}

func TestTendVectorsWaitsWhileOthersBuild(t *testing.T) {
	runs, took, err := tending(func(_ *testsuite.TestWorkflowEnvironment, run int) (wire.Curated, error) {
		return wire.Curated{More: run < 4}, nil
	})
	if runs != 4 || took < 30*time.Second || err != nil {
		t.Errorf("%d runs in %v, %v", runs, took, err)
	}
}

func TestTendVectorsHearsASignalWhileItWorks(t *testing.T) {
	runs, _, err := tending(func(env *testsuite.TestWorkflowEnvironment, run int) (wire.Curated, error) {
		if run == 1 {
			env.SignalWorkflow(wire.SignalCurate, nil)
		}
		return wire.Curated{}, nil
	})
	if runs != 2 || err != nil {
		t.Errorf("%d runs, %v", runs, err)
	}
}

func TestTendVectorsContinuesAnew(t *testing.T) {
	runs, _, err := tending(func(*testsuite.TestWorkflowEnvironment, int) (wire.Curated, error) {
		return wire.Curated{Did: 1, More: true}, nil
	})
	var again *workflow.ContinueAsNewError
	if runs != 1000 || !errors.As(err, &again) {
		t.Errorf("%d runs, %v", runs, err)
	}
}
