package workflows_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema/wire"
	"github.com/sluice-rag/sluice/workflows"
)

// How to record more: cmd/internal/sourceworker/history_test.go.
func TestSyncSourceReplays(t *testing.T) {
	replays(t, "sync_source", 6, map[string]any{wire.WorkflowSyncSource: workflows.SyncSource})
}

// synchronise runs SyncSource with a scripted step, and returns the steps that ran with their
// inputs.
func synchronise(in wire.SourceSync, step func(name string, n int) (wire.SourceStep, error)) (names []string, given []wire.SourceSync, err error) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	for _, name := range []string{wire.ActivitySourceBegin, wire.ActivitySourceFollow, wire.ActivitySourceDelete, wire.ActivitySourceRemove} {
		env.RegisterActivityWithOptions(func(_ context.Context, in wire.SourceSync) (wire.SourceStep, error) {
			names, given = append(names, name), append(given, in)
			return step(name, len(names))
		}, activity.RegisterOptions{Name: name})
	}
	env.ExecuteWorkflow(workflows.SyncSource, in)
	return names, given, env.GetWorkflowError()
}

func TestSyncSourceDoesTheStepsThatAreNamed(t *testing.T) {
	run := uuid.New()
	names, given, err := synchronise(wire.SourceSync{Tenant: uuid.New(), Source: uuid.New()}, func(name string, n int) (wire.SourceStep, error) {
		switch {
		case name == wire.ActivitySourceBegin:
			return wire.SourceStep{Run: run, Attempt: 3, Next: wire.ActivitySourceFollow}, nil
		case name == wire.ActivitySourceFollow && n == 2:
			return wire.SourceStep{}, errors.New("Postgres is away")
		case name == wire.ActivitySourceFollow:
			return wire.SourceStep{Run: run, Attempt: 3, Next: wire.ActivitySourceDelete}, nil
		}
		return wire.SourceStep{Run: run, Attempt: 3}, nil
	})
	want := []string{wire.ActivitySourceBegin, wire.ActivitySourceFollow, wire.ActivitySourceFollow, wire.ActivitySourceDelete}
	if err != nil || !slices.Equal(names, want) {
		t.Fatalf("%v, %v", names, err)
	}
	for i, in := range given[1:] {
		if in.Run != run || in.Attempt != 3 {
			t.Errorf("step %d was given %+v", i+1, in)
		}
	}
}

func TestSyncSourceBeginsAnewBeforeItsHistoryGetsLong(t *testing.T) {
	more := func(string, int) (wire.SourceStep, error) {
		return wire.SourceStep{Next: wire.ActivitySourceFollow}, nil
	}
	names, _, err := synchronise(wire.SourceSync{}, more)
	var anew *workflow.ContinueAsNewError
	if !errors.As(err, &anew) || len(names) != 500 {
		t.Fatalf("%v after %d steps", err, len(names))
	}
	names, _, err = synchronise(wire.SourceSync{Next: wire.ActivitySourceDelete}, func(string, int) (wire.SourceStep, error) { return wire.SourceStep{}, nil })
	if err != nil || !slices.Equal(names, []string{wire.ActivitySourceDelete}) {
		t.Errorf("it goes on with %v, %v", names, err)
	}
}
