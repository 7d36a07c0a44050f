package workflows

// IngestVersions takes the versions of one batch to ready. They may be of many collections and
// tenants. Only ids pass through it, never text or vectors. Outcomes are per version: a version
// that fails or is lost leaves the batch, and the others go on.

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema/wire"
)

// The stages in order, with the longest time that one run of each may take.
var versionStages = []struct {
	activity string
	limit    time.Duration
}{
	{wire.ActivityParseVersions, 4 * time.Hour},
	{wire.ActivityIndexVersions, 3 * time.Hour},
}

// IngestVersions is the workflow.
func IngestVersions(ctx workflow.Context, in wire.IngestVersions) (wire.BatchResult, error) {
	run := versionsRun{left: in}
	for round := 1; ; round++ {
		err := run.stages(ctx)
		var missing *temporal.ApplicationError
		if round < maxRounds && errors.As(err, &missing) && missing.Type() == wire.ErrorArtifactsMissing {
			continue
		}
		if err != nil {
			return run.result, err
		}
		break
	}
	run.result.Ready = run.left.Versions()
	for _, f := range run.failing {
		if err := f.Get(ctx, nil); err != nil {
			return run.result, err
		}
	}
	return run.result, nil
}

// versionsRun is the state of one execution. The batch shrinks as versions leave.
type versionsRun struct {
	left    wire.IngestVersions
	result  wire.BatchResult
	failing []workflow.Future
}

func (r *versionsRun) stages(ctx workflow.Context) error {
	for _, s := range versionStages {
		if len(r.left.Parts) == 0 {
			return nil
		}
		var out []wire.Outcome
		if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, stageOptions(s.limit)), s.activity, r.left).Get(ctx, &out); err != nil {
			return err
		}
		r.leave(ctx, out)
	}
	return nil
}

// leave removes the versions of outcomes from the batch and has the failed ones marked, while the
// others go on.
func (r *versionsRun) leave(ctx workflow.Context, outcomes []wire.Outcome) {
	if len(outcomes) == 0 {
		return
	}
	failed, stay := wire.IngestVersions{Links: r.left.Links}, wire.IngestVersions{Links: r.left.Links}
	var reasons []wire.Outcome
	for _, part := range r.left.Parts {
		fails, stays := part, part
		fails.Items, stays.Items = nil, nil
		for _, item := range part.Items {
			out := outcomeOf(outcomes, item)
			switch {
			case out == nil, !out.Lost && out.Reason == nil:
				stays.Items = append(stays.Items, item)
			case out.Lost:
				r.result.Lost++
			default:
				r.result.Failed++
				fails.Items = append(fails.Items, item)
				reasons = append(reasons, *out)
			}
		}
		if len(fails.Items) > 0 {
			failed.Parts = append(failed.Parts, fails)
		}
		if len(stays.Items) > 0 {
			stay.Parts = append(stay.Parts, stays)
		}
	}
	r.left = stay
	if len(reasons) > 0 {
		r.failing = append(r.failing, workflow.ExecuteActivity(
			workflow.WithActivityOptions(ctx, stageOptions(time.Minute)), wire.ActivityFailVersions, failed, reasons))
	}
}
