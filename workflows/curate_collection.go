package workflows

// CurateCollection tends one collection: it runs its steps in order, again and again, until a round
// does nothing and no signal came meanwhile. Signals say that something changed and carry nothing,
// so any number of them asks for one round.

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// settle is how long a round waits first, so that changes that come together are handled
	// together.
	settle = time.Second
	// While a collection keeps changing, curation rests between two rounds for restShare times as
	// long as the last one took, at most maxRest. So its part of the machine's time is bounded, and
	// a round handles more changes, each at a lower cost.
	restShare = 3
	maxRest   = 10 * time.Second
	// maxCurateSignals and maxCurateRounds bound one execution: the server accepts 10,000 signals
	// and 51,200 events.
	maxCurateSignals = 1000
	maxCurateRounds  = 200
)

// curateSteps are the steps of a round in order, with the longest time that one run of each may
// take. Clustering marks versions as curated, so it does not run if indexing failed.
var curateSteps = []struct {
	activity string
	limit    time.Duration
}{
	{wire.ActivityBackfill, 2 * time.Hour},
	{wire.ActivityCluster, time.Hour},
	{wire.ActivityMerge, time.Hour},
	{wire.ActivityVectors, 6 * time.Hour},
	{wire.ActivitySweep, 30 * time.Minute},
}

// curateRetry gives up on a step after about two minutes: the other steps go on, and the reconciler
// starts a new curation later.
var curateRetry = &temporal.RetryPolicy{
	InitialInterval:    200 * time.Millisecond,
	BackoffCoefficient: 2,
	MaximumInterval:    20 * time.Second,
	MaximumAttempts:    12,
}

// CurateCollection is the workflow.
func CurateCollection(ctx workflow.Context, in wire.Curation) error {
	changed := workflow.GetSignalChannel(ctx, wire.SignalCurate)
	signals := 0
	// drain receives the signals that have arrived and reports whether there were any.
	drain := func() bool {
		before := signals
		for changed.ReceiveAsync(nil) {
			signals++
		}
		return signals > before
	}
	rest := settle
	for round := 1; ; round++ {
		// Signals that arrive during the wait belong to this round.
		if err := workflow.Sleep(ctx, rest); err != nil {
			return err
		}
		drain()
		began := workflow.Now(ctx)
		more, err := curateRound(ctx, in)
		if err != nil {
			// The reconciler finds what is left in the store: versions that are not marked,
			// segments to merge, shards without an index (docs/curation.md).
			return err
		}
		if rest = settle; !more {
			// Histories of executions that always waited for settle can be replayed: the duration
			// of a timer is not compared.
			rest = min(max(settle, restShare*workflow.Now(ctx).Sub(began)), maxRest)
		}
		again := drain() || more
		switch {
		case !again:
			return nil
		case signals >= maxCurateSignals || round >= maxCurateRounds || workflow.GetInfo(ctx).GetContinueAsNewSuggested():
			// The next execution begins with a round, which is what the received signals asked for.
			return workflow.NewContinueAsNewError(ctx, CurateCollection, in)
		}
	}
}

// curateRound runs every step once, also those after a failed one, and reports whether a step left
// work.
func curateRound(ctx workflow.Context, in wire.Curation) (more bool, err error) {
	var failures []error
	indexed := true
	for _, s := range curateSteps {
		if s.activity == wire.ActivityCluster && !indexed {
			continue
		}
		step := workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: s.limit, HeartbeatTimeout: heartbeat, RetryPolicy: curateRetry,
		})
		var out wire.Curated
		if err := workflow.ExecuteActivity(step, s.activity, in).Get(ctx, &out); err != nil {
			if temporal.IsCanceledError(err) {
				return false, err
			}
			failures = append(failures, err)
			indexed = indexed && s.activity != wire.ActivityBackfill
			continue
		}
		more = more || out.More
	}
	return more, errors.Join(failures...)
}
