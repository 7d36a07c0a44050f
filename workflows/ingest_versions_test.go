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
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
	"github.com/sluice-rag/sluice/workflows"
)

// How to record more: cmd/internal/ingestworker/history_test.go.
func TestIngestVersionsReplays(t *testing.T) {
	replays(t, "ingest_versions", 4, map[string]any{wire.WorkflowIngestVersions: workflows.IngestVersions})
}

// versionsOf returns a batch of two tenants: the first has two collections with n versions each,
// the second has one.
func versionsOf(n int) wire.IngestVersions {
	in := wire.IngestVersions{Parts: []wire.IngestBatch{batchOf(n), batchOf(n), batchOf(n)}}
	in.Parts[1].Tenant = in.Parts[0].Tenant
	return in
}

func itemsOf(in wire.IngestVersions) (out []wire.Attempt) {
	for _, p := range in.Parts {
		out = append(out, p.Items...)
	}
	return out
}

// versionStages runs IngestVersions with scripted stages, and records their inputs.
type versionStages struct {
	env   *testsuite.TestWorkflowEnvironment
	given map[string][]wire.IngestVersions
}

func newVersionStages(script map[string]func(run int, in wire.IngestVersions) ([]wire.Outcome, error)) *versionStages {
	var suite testsuite.WorkflowTestSuite
	s := &versionStages{env: suite.NewTestWorkflowEnvironment(), given: map[string][]wire.IngestVersions{}}
	for _, name := range []string{wire.ActivityParseVersions, wire.ActivityIndexVersions} {
		s.env.RegisterActivityWithOptions(func(_ context.Context, in wire.IngestVersions) ([]wire.Outcome, error) {
			s.given[name] = append(s.given[name], in)
			if do := script[name]; do != nil {
				return do(len(s.given[name]), in)
			}
			return nil, nil
		}, activity.RegisterOptions{Name: name})
	}
	s.env.RegisterActivityWithOptions(func(_ context.Context, in wire.IngestVersions, out []wire.Outcome) error {
		s.given[wire.ActivityFailVersions] = append(s.given[wire.ActivityFailVersions], in)
		if len(out) != in.Versions() {
			return errors.New("an outcome per version is needed")
		}
		return nil
	}, activity.RegisterOptions{Name: wire.ActivityFailVersions})
	return s
}

func (s *versionStages) run(t *testing.T, in wire.IngestVersions) wire.BatchResult {
	t.Helper()
	s.env.ExecuteWorkflow(workflows.IngestVersions, in)
	if err := s.env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	var result wire.BatchResult
	if err := s.env.GetWorkflowResult(&result); err != nil {
		t.Fatal(err)
	}
	return result
}

func TestIngestVersionsGoesOnWithoutFailedAndLostVersions(t *testing.T) {
	in := versionsOf(2)
	s := newVersionStages(map[string]func(int, wire.IngestVersions) ([]wire.Outcome, error){
		wire.ActivityParseVersions: func(_ int, in wire.IngestVersions) ([]wire.Outcome, error) {
			return []wire.Outcome{
				{Version: in.Parts[0].Items[1].Version, Reason: &schema.Reason{Code: schema.ReasonBroken}},
				{Version: in.Parts[2].Items[0].Version, Lost: true},
				{Version: in.Parts[2].Items[1].Version, Reason: &schema.Reason{Code: schema.ReasonEmpty}},
			}, nil
		},
	})
	if got, want := s.run(t, in), (wire.BatchResult{Ready: 3, Failed: 2, Lost: 1}); got != want {
		t.Errorf("result %+v, want %+v", got, want)
	}
	want := []wire.Attempt{in.Parts[0].Items[0], in.Parts[1].Items[0], in.Parts[1].Items[1]}
	index := s.given[wire.ActivityIndexVersions]
	if len(index) != 1 || len(index[0].Parts) != 2 || !slices.Equal(itemsOf(index[0]), want) {
		t.Errorf("index was given %+v, want %v in two collections", index, want)
	}
	fail := s.given[wire.ActivityFailVersions]
	if len(fail) != 1 || !slices.Equal(itemsOf(fail[0]), []wire.Attempt{in.Parts[0].Items[1], in.Parts[2].Items[1]}) ||
		fail[0].Parts[0].Tenant != in.Parts[0].Tenant || fail[0].Parts[1].Tenant != in.Parts[2].Tenant {
		t.Errorf("fail was given %+v", fail)
	}
}

func TestIngestVersionsEndsWhenNoVersionIsLeft(t *testing.T) {
	s := newVersionStages(map[string]func(int, wire.IngestVersions) ([]wire.Outcome, error){
		wire.ActivityParseVersions: func(_ int, in wire.IngestVersions) (out []wire.Outcome, _ error) {
			for _, item := range itemsOf(in) {
				out = append(out, wire.Outcome{Version: item.Version, Lost: true})
			}
			return out, nil
		},
	})
	if got, want := s.run(t, versionsOf(1)), (wire.BatchResult{Lost: 3}); got != want {
		t.Errorf("result %+v, want %+v", got, want)
	}
	if len(s.given[wire.ActivityIndexVersions]) != 0 {
		t.Error("nothing was left, but the next stage ran")
	}
}

func TestIngestVersionsBeginsAgainWhenArtifactsAreGone(t *testing.T) {
	s := newVersionStages(map[string]func(int, wire.IngestVersions) ([]wire.Outcome, error){
		wire.ActivityIndexVersions: func(run int, _ wire.IngestVersions) ([]wire.Outcome, error) {
			if run == 1 {
				return nil, temporal.NewNonRetryableApplicationError("gone", wire.ErrorArtifactsMissing, nil)
			}
			return nil, nil
		},
	})
	if got, want := s.run(t, versionsOf(2)), (wire.BatchResult{Ready: 6}); got != want {
		t.Errorf("result %+v, want %+v", got, want)
	}
	if n := len(s.given[wire.ActivityParseVersions]); n != 2 {
		t.Errorf("parse ran %d times, want 2", n)
	}
}

// together runs CurateCollections with a scripted step, and returns the step's inputs and the
// collections that got their own curation.
func together(t *testing.T, in wire.Curations, step func(run int, in wire.Curations) (wire.CuratedMany, error)) (given []wire.Curations, alone []uuid.UUID, err error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterActivityWithOptions(func(_ context.Context, in wire.Curations) (wire.CuratedMany, error) {
		given = append(given, in)
		return step(len(given), in)
	}, activity.RegisterOptions{Name: wire.ActivityCurateMany})
	env.RegisterWorkflowWithOptions(func(_ workflow.Context, in wire.Curation) error {
		alone = append(alone, in.Collection)
		return nil
	}, workflow.RegisterOptions{Name: wire.WorkflowCurate})
	env.ExecuteWorkflow(workflows.CurateCollections, in)
	return given, alone, env.GetWorkflowError()
}

func TestCurateCollectionsGoesOnUntilAllAreSeenTo(t *testing.T) {
	var in wire.Curations
	for range 5 {
		in.Collections = append(in.Collections, wire.Curation{Tenant: uuid.New(), Collection: uuid.New()})
	}
	given, alone, err := together(t, in, func(_ int, in wire.Curations) (wire.CuratedMany, error) {
		return wire.CuratedMany{Did: 2, Alone: in.Collections[1:min(2, len(in.Collections))]}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(given) != 3 || !slices.Equal(given[1].Collections, in.Collections[2:]) || !slices.Equal(given[2].Collections, in.Collections[4:]) {
		t.Errorf("the step was given %+v", given)
	}
	if want := []uuid.UUID{in.Collections[1].Collection, in.Collections[3].Collection}; !slices.Equal(alone, want) {
		t.Errorf("alone are %v, want %v", alone, want)
	}
}
