package workflows_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
	"github.com/sluice-rag/sluice/workflows"
)

// TestIngestBatchReplays runs today's code on recorded histories of batches: a batch that runs
// while a worker is updated must go on. cmd/internal/ingestworker/history_test.go says how to
// record more.
func TestIngestBatchReplays(t *testing.T) {
	replays(t, "ingest_batch", 3, map[string]any{wire.WorkflowIngestBatch: workflows.IngestBatch})
}

// batchOf returns a batch of n versions.
func batchOf(n int) wire.IngestBatch {
	in := wire.IngestBatch{Tenant: uuid.New(), Collection: uuid.New()}
	for range n {
		in.Items = append(in.Items, wire.Attempt{Version: uuid.New(), Attempt: 1})
	}
	return in
}

// stages runs IngestBatch with scripted stages, and records their inputs.
type stages struct {
	env   *testsuite.TestWorkflowEnvironment
	given map[string][][]wire.Attempt
}

func newStages(t *testing.T, script map[string]func(run int, in wire.IngestBatch) ([]wire.Outcome, error)) *stages {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	s := &stages{env: suite.NewTestWorkflowEnvironment(), given: map[string][][]wire.Attempt{}}
	for _, name := range []string{wire.ActivityParse, wire.ActivitySegment, wire.ActivityEncode, wire.ActivityWrite} {
		s.env.RegisterActivityWithOptions(func(_ context.Context, in wire.IngestBatch) ([]wire.Outcome, error) {
			s.given[name] = append(s.given[name], in.Items)
			if do := script[name]; do != nil {
				return do(len(s.given[name]), in)
			}
			return nil, nil
		}, activity.RegisterOptions{Name: name})
	}
	s.env.RegisterActivityWithOptions(func(_ context.Context, in wire.IngestBatch, out []wire.Outcome) error {
		s.given[wire.ActivityFail] = append(s.given[wire.ActivityFail], in.Items)
		if len(out) != len(in.Items) {
			return errors.New("an outcome per version is needed")
		}
		return nil
	}, activity.RegisterOptions{Name: wire.ActivityFail})
	return s
}

func (s *stages) run(t *testing.T, in wire.IngestBatch) wire.BatchResult {
	t.Helper()
	s.env.ExecuteWorkflow(workflows.IngestBatch, in)
	if err := s.env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	var result wire.BatchResult
	if err := s.env.GetWorkflowResult(&result); err != nil {
		t.Fatal(err)
	}
	return result
}

func TestIngestBatchGoesOnWithoutFailedAndLostVersions(t *testing.T) {
	in := batchOf(4)
	s := newStages(t, map[string]func(int, wire.IngestBatch) ([]wire.Outcome, error){
		wire.ActivityParse: func(_ int, in wire.IngestBatch) ([]wire.Outcome, error) {
			return []wire.Outcome{{Version: in.Items[1].Version, Reason: &schema.Reason{Code: schema.ReasonBroken}}}, nil
		},
		wire.ActivityEncode: func(_ int, in wire.IngestBatch) ([]wire.Outcome, error) {
			return []wire.Outcome{{Version: in.Items[0].Version, Lost: true}}, nil
		},
	})
	if got, want := s.run(t, in), (wire.BatchResult{Ready: 2, Failed: 1, Lost: 1}); got != want {
		t.Errorf("result %+v, want %+v", got, want)
	}
	if got := s.given[wire.ActivityWrite]; len(got) != 1 || !slices.Equal(got[0], in.Items[2:]) {
		t.Errorf("write was given %v, want the last two of %v", got, in.Items)
	}
	if got := s.given[wire.ActivityFail]; len(got) != 1 || !slices.Equal(got[0], in.Items[1:2]) {
		t.Errorf("fail was given %v, want the second of %v", got, in.Items)
	}
}

func TestIngestBatchEndsWhenNoVersionIsLeft(t *testing.T) {
	s := newStages(t, map[string]func(int, wire.IngestBatch) ([]wire.Outcome, error){
		wire.ActivityParse: func(_ int, in wire.IngestBatch) ([]wire.Outcome, error) {
			return []wire.Outcome{{Version: in.Items[0].Version, Lost: true}}, nil
		},
	})
	if got, want := s.run(t, batchOf(1)), (wire.BatchResult{Lost: 1}); got != want {
		t.Errorf("result %+v, want %+v", got, want)
	}
	if len(s.given[wire.ActivitySegment]) != 0 {
		t.Error("nothing was left, but the next stage ran")
	}
}

func TestIngestBatchBeginsAgainWhenArtifactsAreGone(t *testing.T) {
	s := newStages(t, map[string]func(int, wire.IngestBatch) ([]wire.Outcome, error){
		wire.ActivityWrite: func(run int, _ wire.IngestBatch) ([]wire.Outcome, error) {
			if run == 1 {
				return nil, temporal.NewNonRetryableApplicationError("gone", wire.ErrorArtifactsMissing, nil)
			}
			return nil, nil
		},
	})
	if got, want := s.run(t, batchOf(2)), (wire.BatchResult{Ready: 2}); got != want {
		t.Errorf("result %+v, want %+v", got, want)
	}
	if n := len(s.given[wire.ActivityParse]); n != 2 {
		t.Errorf("parse ran %d times, want 2", n)
	}
}

func TestIngestBatchRetriesWhatIsNoDocumentsFault(t *testing.T) {
	s := newStages(t, map[string]func(int, wire.IngestBatch) ([]wire.Outcome, error){
		wire.ActivityEncode: func(run int, _ wire.IngestBatch) ([]wire.Outcome, error) {
			if run < 9 { // the test environment tries ten times
				return nil, errors.New("away")
			}
			return nil, nil
		},
	})
	if got, want := s.run(t, batchOf(2)), (wire.BatchResult{Ready: 2}); got != want {
		t.Errorf("result %+v, want %+v", got, want)
	}
}
