package queryworker

// Plan choices run here: the workflow and its steps, and a loop that starts the workflows of new
// choices and repeats choices that are due.

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	temporalworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/durable/heartbeat"
	"github.com/sluice-rag/sluice/internal/evaluate/planchoice"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/store/choices"
	"github.com/sluice-rag/sluice/plans"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
	"github.com/sluice-rag/sluice/workflows"
)

const (
	// choiceSlice is how long one step of a choice measures.
	choiceSlice = 30 * time.Second
	// choicesAtOnce is the maximum number of choices that one round starts, and that it repeats.
	choicesAtOnce = 100
)

// measuredSearch implements planchoice.Searcher. Searches run with the priority of a client's
// search, because their time is measured, and one at a time.
type measuredSearch struct{ *worker }

func (s measuredSearch) Search(ctx context.Context, q wire.SearchQuery) (schema.SearchResult, error) {
	ctx, cancel := context.WithTimeout(ctx, s.settings.QueryTimeout)
	defer cancel()
	found, err := s.engineFor(q.Principal.Tenant, requestState{}).Run(ctx, q)
	return found.SearchResult, err
}

func (w *worker) chooser() *planchoice.Chooser {
	return &planchoice.Chooser{
		Store: w.choices, Searcher: measuredSearch{w}, Slice: choiceSlice,
		Reader: func(tenant uuid.UUID) planchoice.Reader { return w.models.For(tenant, nil) },
		Writer: gateway{nc: w.deps.NATS, signer: w.deps.Signer},
	}
}

// choiceWorker runs the workflow that chooses plans, one choice at a time.
func (w *worker) choiceWorker() lifecycle.Service {
	return durable.Worker("plan choices", w.deps.Temporal, wire.TaskQueueChoices, temporalworker.Options{
		MaxConcurrentActivityExecutionSize: 1,
		WorkerStopTimeout:                  grace,
		MaxHeartbeatThrottleInterval:       heartbeat.Every,
		DisableRegistrationAliasing:        true,
	}, stopShare, func(r temporalworker.Worker) {
		r.RegisterWorkflowWithOptions(workflows.ChoosePlan, workflow.RegisterOptions{Name: wire.WorkflowChoosePlan})
		w.chooser().Register(r)
	})
}

// choiceStarter starts and repeats choices. One query worker at a time, the leader, runs it. If two
// do so, starting a workflow that runs already has no effect, and the worker that locks a choice
// repeats it.
func (w *worker) choiceStarter() lifecycle.Service {
	return lifecycle.NewLeaderLoop(lifecycle.LeaderLoop{Name: "starter of plan choices", Elector: w.deps.Store, Every: w.jobs.Every,
		Round: func(_, work context.Context) error { return w.startChoices(work) }})
}

func (w *worker) startChoices(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	due, err := w.choices.DueChoices(ctx, choicesAtOnce)
	if err != nil {
		return err
	}
	for _, in := range due {
		if err := w.choices.RepeatChoice(ctx, in, plans.Default); err != nil {
			slog.WarnContext(ctx, "cannot repeat a plan choice; trying again", "tenant", in.Tenant, "choice", in.Choice, "error", err)
		}
	}
	unfinished, err := w.choices.UnfinishedChoices(ctx, choicesAtOnce)
	if err != nil {
		return err
	}
	for _, in := range unfinished {
		if _, err := w.deps.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
			ID: wire.ChoiceWorkflowID(in.Choice), TaskQueue: wire.TaskQueueChoices,
			WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
		}, wire.WorkflowChoosePlan, in); err != nil {
			return fmt.Errorf("start the workflow of choice %s: %w", in.Choice, err)
		}
	}
	return nil
}

var _ planchoice.Store = choiceStore{}

// choiceStore stores choices and ratings of answers.
type choiceStore struct {
	*choices.ChoiceStore
	ratings
}

// ratings lists ratings of answers.
type ratings interface {
	Ratings(ctx context.Context, p schema.Principal, q schema.RatingQuery) ([]schema.RatedAnswer, string, error)
}
