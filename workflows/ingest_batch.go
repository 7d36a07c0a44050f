// Package workflows holds the durable workflows: deterministic code that starts activities and
// waits for them. The activities are in other packages.
package workflows

// IngestBatch takes the versions of one batch through their stages. New batches run IngestVersions;
// this workflow finishes those that older builds started. Only ids pass through it, never text or
// vectors. Outcomes are per version: a version that fails or is lost leaves the batch, and the
// others go on.

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema/wire"
)

// maxRounds bounds how often the stages run from the first one.
const maxRounds = 5

// infrastructure retries errors that are no document's fault. There is no limit: each try extends
// the leases, and if they are lost nevertheless, the versions are reported as lost.
var infrastructure = &temporal.RetryPolicy{
	InitialInterval:    200 * time.Millisecond,
	BackoffCoefficient: 1.5,
	MaximumInterval:    5 * time.Second,
}

// heartbeat is how soon the death of a worker is detected.
const heartbeat = 10 * time.Second

func stageOptions(limit time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{StartToCloseTimeout: limit, HeartbeatTimeout: heartbeat, RetryPolicy: infrastructure}
}

// The stages in order, with the longest time that one run of each may take.
var stages = []struct {
	activity string
	limit    time.Duration
}{
	{wire.ActivityParse, 2 * time.Hour},
	{wire.ActivitySegment, time.Hour},
	{wire.ActivityEncode, time.Hour},
	{wire.ActivityWrite, 30 * time.Minute},
}

// IngestBatch is the workflow.
func IngestBatch(ctx workflow.Context, in wire.IngestBatch) (wire.BatchResult, error) {
	run := batchRun{batch: in}
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
	run.result.Ready = len(run.batch.Items)
	for _, f := range run.failing {
		if err := f.Get(ctx, nil); err != nil {
			return run.result, err
		}
	}
	return run.result, nil
}

// batchRun is the state of one execution. The batch shrinks as versions leave.
type batchRun struct {
	batch   wire.IngestBatch
	result  wire.BatchResult
	failing []workflow.Future
}

func (r *batchRun) stages(ctx workflow.Context) error {
	for _, s := range stages {
		if len(r.batch.Items) == 0 {
			return nil
		}
		var out []wire.Outcome
		if err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, stageOptions(s.limit)), s.activity, r.batch).Get(ctx, &out); err != nil {
			return err
		}
		r.leave(ctx, out)
	}
	return nil
}

// leave removes the versions of outcomes from the batch and has the failed ones marked, while the
// others go on.
func (r *batchRun) leave(ctx workflow.Context, outcomes []wire.Outcome) {
	if len(outcomes) == 0 {
		return
	}
	failed := wire.IngestBatch{Tenant: r.batch.Tenant, Collection: r.batch.Collection, Links: r.batch.Links}
	var reasons []wire.Outcome
	stay := make([]wire.Attempt, 0, len(r.batch.Items))
	for _, item := range r.batch.Items {
		out := outcomeOf(outcomes, item)
		switch {
		case out == nil:
			stay = append(stay, item)
		case out.Lost:
			r.result.Lost++
		case out.Reason == nil:
			stay = append(stay, item)
		default:
			r.result.Failed++
			failed.Items = append(failed.Items, item)
			reasons = append(reasons, *out)
		}
	}
	r.batch.Items = stay
	if len(reasons) > 0 {
		r.failing = append(r.failing, workflow.ExecuteActivity(
			workflow.WithActivityOptions(ctx, stageOptions(time.Minute)), wire.ActivityFail, failed, reasons))
	}
}

func outcomeOf(outcomes []wire.Outcome, item wire.Attempt) *wire.Outcome {
	for i := range outcomes {
		if outcomes[i].Version == item.Version {
			return &outcomes[i]
		}
	}
	return nil
}
