package workflows_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/sluice-rag/sluice/schema/wire"
	"github.com/sluice-rag/sluice/workflows"
)

// rebuild runs RebuildCollection with scripted steps and records which ran.
type rebuild struct {
	env     *testsuite.TestWorkflowEnvironment
	in      wire.Rebuild
	lists   []int // number of parts in each list; none after the last
	cut     func(part int) error
	flips   []bool
	failure string

	mu  sync.Mutex // parts are cut at the same time
	ran []string

	after uuid.UUID // where the next list begins: where the last one with parts ended
}

func (r *rebuild) note(step string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ran = append(r.ran, step)
}

func (r *rebuild) run(t *testing.T) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	r.env = suite.NewTestWorkflowEnvironment()
	r.in = wire.Rebuild{Tenant: uuid.New(), Collection: uuid.New(), Generation: 2}
	var parts atomic.Int32
	for name, do := range map[string]any{
		wire.ActivityRebuildList: func(_ context.Context, in wire.Rebuild) (out wire.RebuildParts, err error) {
			r.note("list")
			if in.After != r.after {
				return out, temporal.NewNonRetryableApplicationError("a list begins elsewhere", "", nil)
			}
			if len(r.lists) > 0 {
				if r.lists[0] > 0 {
					r.after = uuid.New()
					out.After = r.after
				}
				for range r.lists[0] {
					out.Parts = append(out.Parts, wire.RebuildPart{Rebuild: in, Versions: []uuid.UUID{uuid.New()}})
				}
				r.lists = r.lists[1:]
			}
			return out, nil
		},
		wire.ActivityRebuildCut: func(context.Context, wire.RebuildPart) error {
			r.note("cut")
			if r.cut != nil {
				return r.cut(int(parts.Add(1)))
			}
			return nil
		},
		wire.ActivityRebuildCluster: func(context.Context, wire.Rebuild) error {
			r.note("cluster")
			return nil
		},
		wire.ActivityRebuildFlip: func(context.Context, wire.Rebuild) (bool, error) {
			r.note("flip")
			live := len(r.flips) == 0 || r.flips[0]
			r.flips = r.flips[min(1, len(r.flips)):]
			return live, nil
		},
		wire.ActivityRebuildFail: func(_ context.Context, _ wire.Rebuild, reason string) error {
			r.failure = reason
			return nil
		},
	} {
		r.env.RegisterActivityWithOptions(do, activity.RegisterOptions{Name: name})
	}
	r.env.ExecuteWorkflow(workflows.RebuildCollection, r.in)
	if err := r.env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}

func TestRebuildCollectionCutsClustersAndFlips(t *testing.T) {
	r := rebuild{lists: []int{3, 1}}
	r.run(t)
	if want := []string{"list", "cut", "cut", "cut", "list", "cut", "list", "cluster", "flip"}; !slices.Equal(r.ran, want) {
		t.Errorf("ran %v, want %v", r.ran, want)
	}
}

func TestRebuildCollectionCutsWhatCameBeforeTheFlip(t *testing.T) {
	r := rebuild{lists: []int{1, 0, 2}, flips: []bool{false, true}}
	r.run(t)
	if want := []string{"list", "cut", "list", "cluster", "flip", "list", "cut", "cut", "list", "flip"}; !slices.Equal(r.ran, want) {
		t.Errorf("ran %v, want %v", r.ran, want)
	}
}

func TestRebuildCollectionFailsWithWhatWasRefused(t *testing.T) {
	r := rebuild{lists: []int{5}, cut: func(part int) error {
		if part == 2 {
			return temporal.NewNonRetryableApplicationError("document a.md cannot be taken", wire.ErrorRebuildRefused, nil)
		}
		return nil
	}}
	r.run(t)
	if r.failure != "document a.md cannot be taken" {
		t.Errorf("failed with %q", r.failure)
	}
	if slices.Contains(r.ran, "flip") {
		t.Error("went live all the same")
	}
}

func TestRebuildCollectionEndsWhenItIsOver(t *testing.T) {
	r := rebuild{lists: []int{2}, cut: func(int) error {
		return temporal.NewNonRetryableApplicationError("cancelled", wire.ErrorRebuildOver, nil)
	}}
	r.run(t)
	if r.failure != "" || slices.Contains(r.ran, "flip") {
		t.Errorf("ran %v, failed with %q", r.ran, r.failure)
	}
}
