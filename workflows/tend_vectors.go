package workflows

// TendVectors tends the vectors of one large collection: it moves them to the collection's own
// partitions and builds their indexes. A curation starts it and doesn't wait, so that merging and
// clustering go on while an index is built.

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// tendLimit is the longest time that one index may take.
	tendLimit = 6 * time.Hour
	// buildPause is how long it waits while the maximum number of builds is under way elsewhere.
	buildPause = 15 * time.Second
	// maxTendRounds and maxCurateSignals bound one execution.
	maxTendRounds = 1000
)

// TendVectors is the workflow.
func TendVectors(ctx workflow.Context, in wire.Curation) error {
	changed := workflow.GetSignalChannel(ctx, wire.SignalCurate)
	signals := 0
	step := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: tendLimit, HeartbeatTimeout: heartbeat, RetryPolicy: curateRetry,
	})
	for round := 1; ; round++ {
		// The step also covers changes that were signalled before it begins.
		for changed.ReceiveAsync(nil) {
			signals++
		}
		var out wire.Curated
		if err := workflow.ExecuteActivity(step, wire.ActivityTendVectors, in).Get(ctx, &out); err != nil {
			// The reconciler finds a partition without its index; the rest is done after the
			// collection's next change (docs/curation.md).
			return err
		}
		before := signals
		for changed.ReceiveAsync(nil) {
			signals++
		}
		switch {
		case !out.More && signals == before:
			return nil
		case signals >= maxCurateSignals || round >= maxTendRounds || workflow.GetInfo(ctx).GetContinueAsNewSuggested():
			return workflow.NewContinueAsNewError(ctx, TendVectors, in)
		}
		if out.More && out.Did == 0 {
			if err := workflow.Sleep(ctx, buildPause); err != nil {
				return err
			}
		}
	}
}
