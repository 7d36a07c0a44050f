package workflows_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema/wire"
	"github.com/sluice-rag/sluice/workflows"
)

// How to record more: cmd/internal/ingestworker/history_test.go, and
// cmd/internal/queryworker/planchoices_test.go.
func TestCurationsRebuildsAndChoicesReplay(t *testing.T) {
	for prefix, least := range map[string]int{"curate_collection": 2, "curate_together": 3, "rebuild_collection": 3, "choose_plan": 2, "reparse_collection": 2, "tend_vectors": 1} {
		replays(t, prefix, least, map[string]any{
			wire.WorkflowCurate:     workflows.CurateCollection,
			wire.WorkflowVectors:    workflows.TendVectors,
			wire.WorkflowCurateMany: workflows.CurateCollections,
			wire.WorkflowRebuild:    workflows.RebuildCollection,
			wire.WorkflowReparse:    workflows.ReparseCollection,
			wire.WorkflowChoosePlan: workflows.ChoosePlan,
		})
	}
}

var curateSteps = []string{wire.ActivityBackfill, wire.ActivityCluster, wire.ActivityMerge, wire.ActivityVectors, wire.ActivitySweep}

// curation runs CurateCollection with scripted steps and records which ran.
type curation struct {
	env *testsuite.TestWorkflowEnvironment
	ran []string
}

func newCuration(script map[string]func(run int) (wire.Curated, error)) *curation {
	var suite testsuite.WorkflowTestSuite
	c := &curation{env: suite.NewTestWorkflowEnvironment()}
	c.env.SetWorkflowRunTimeout(time.Hour)
	for _, name := range curateSteps {
		c.env.RegisterActivityWithOptions(func(context.Context, wire.Curation) (wire.Curated, error) {
			c.ran = append(c.ran, name)
			if do := script[name]; do != nil {
				return do(c.count(name))
			}
			return wire.Curated{}, nil
		}, activity.RegisterOptions{Name: name})
	}
	return c
}

func (c *curation) count(name string) int {
	n := 0
	for _, r := range c.ran {
		if r == name {
			n++
		}
	}
	return n
}

func (c *curation) run() error {
	c.env.ExecuteWorkflow(workflows.CurateCollection, wire.Curation{Tenant: uuid.New(), Collection: uuid.New()})
	return c.env.GetWorkflowError()
}

func TestCurateCollectionRunsItsStepsInOrderAndEnds(t *testing.T) {
	c := newCuration(nil)
	if err := c.run(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(c.ran, curateSteps) {
		t.Errorf("ran %v, want %v", c.ran, curateSteps)
	}
}

func TestCurateCollectionGoesOnWhileThereIsMore(t *testing.T) {
	c := newCuration(map[string]func(int) (wire.Curated, error){
		wire.ActivityMerge: func(run int) (wire.Curated, error) { return wire.Curated{Did: 8, More: run < 3}, nil },
	})
	if err := c.run(); err != nil {
		t.Fatal(err)
	}
	if n := c.count(wire.ActivityMerge); n != 3 {
		t.Errorf("merged %d times, want 3", n)
	}
}

func TestCurateCollectionHearsASignalWhileItWorks(t *testing.T) {
	var c *curation
	c = newCuration(map[string]func(int) (wire.Curated, error){
		wire.ActivitySweep: func(run int) (wire.Curated, error) {
			if run == 1 { // at the end of the first round, for the second one
				c.env.SignalWorkflow(wire.SignalCurate, nil)
			}
			return wire.Curated{}, nil
		},
	})
	if err := c.run(); err != nil {
		t.Fatal(err)
	}
	if n := c.count(wire.ActivityCluster); n != 2 {
		t.Errorf("clustered %d times, want 2", n)
	}
}

func TestCurateCollectionTakesManySignalsForOneAndContinuesAnew(t *testing.T) {
	c := newCuration(map[string]func(int) (wire.Curated, error){
		wire.ActivityVectors: func(int) (wire.Curated, error) { return wire.Curated{Did: 1, More: true}, nil },
	})
	for i := range 5 { // the test environment accepts fewer than 1,000 at a time
		c.env.RegisterDelayedCallback(func() {
			for range 300 {
				c.env.SignalWorkflow(wire.SignalCurate, nil)
			}
		}, time.Duration(i+1)*100*time.Millisecond)
	}
	var again *workflow.ContinueAsNewError
	if err := c.run(); !errors.As(err, &again) {
		t.Fatalf("got %v, want to continue as new", err)
	}
	if !slices.Equal(c.ran, curateSteps) {
		t.Errorf("ran %v before it continued as new, want one round", c.ran)
	}
}

func TestCurateCollectionDoesTheOtherStepsWhenOneFails(t *testing.T) {
	failing := func(int) (wire.Curated, error) {
		return wire.Curated{}, temporal.NewNonRetryableApplicationError("broken", "broken", nil)
	}
	c := newCuration(map[string]func(int) (wire.Curated, error){wire.ActivityMerge: failing})
	if err := c.run(); err == nil {
		t.Error("a curation with a failed step must say so")
	}
	if !slices.Equal(c.ran, curateSteps) {
		t.Errorf("ran %v", c.ran)
	}
	// Clustering marks versions as done that have to be indexed first.
	c = newCuration(map[string]func(int) (wire.Curated, error){wire.ActivityBackfill: failing})
	if err := c.run(); err == nil {
		t.Error("a curation with a failed step must say so")
	}
	if c.count(wire.ActivityCluster) != 0 || c.count(wire.ActivitySweep) != 1 {
		t.Errorf("ran %v", c.ran)
	}
}

// TestCurateCollectionRestsWhileItsCollectionChanges: rounds of 2 and 20 seconds are followed by a
// rest, unless there is more to do.
func TestCurateCollectionRestsWhileItsCollectionChanges(t *testing.T) {
	var c *curation
	c = newCuration(map[string]func(int) (wire.Curated, error){
		wire.ActivitySweep: func(run int) (wire.Curated, error) {
			if run < 4 {
				c.env.SignalWorkflow(wire.SignalCurate, nil)
			}
			return wire.Curated{}, nil
		},
	})
	for _, round := range []struct {
		lasts time.Duration
		more  bool
	}{{10 * time.Millisecond, false}, {2 * time.Second, false}, {20 * time.Second, false}, {20 * time.Second, true}, {time.Second, false}} {
		c.env.OnActivity(wire.ActivityMerge, mock.Anything, mock.Anything).Once().After(round.lasts).Return(wire.Curated{More: round.more}, nil)
	}
	var waits []time.Duration
	c.env.SetOnTimerScheduledListener(func(_ string, wait time.Duration) { waits = append(waits, wait.Round(time.Second)) })
	if err := c.run(); err != nil {
		t.Fatal(err)
	}
	want := []time.Duration{time.Second, time.Second, 6 * time.Second, 10 * time.Second, time.Second}
	if !slices.Equal(waits, want) {
		t.Errorf("rounds waited %v, want %v", waits, want)
	}
}
