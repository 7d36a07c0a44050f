package question

// The activities of the workflow AnswerQuestion, which run the steps of package answer.

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/sluice-rag/sluice/internal/durable/heartbeat"
	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Register registers the activities of the workflow AnswerQuestion.
func (j *Jobs) Register(r worker.ActivityRegistry) {
	answerer := j.Answerer(nil)
	r.RegisterActivityWithOptions(func(ctx context.Context, in wire.QuestionInput) (out wire.QuestionPlan, err error) {
		err = j.step(ctx, wire.ActivityQuestionUnderstand, in, func(ctx context.Context, in wire.QuestionInput) (err error) {
			out.Rounds, err = answerer.Understand(ctx, in)
			return err
		})
		return out, err
	}, activity.RegisterOptions{Name: wire.ActivityQuestionUnderstand})
	r.RegisterActivityWithOptions(func(ctx context.Context, in wire.QuestionRound) error {
		return j.step(ctx, wire.ActivityQuestionGenerate, in.QuestionInput, func(ctx context.Context, _ wire.QuestionInput) error {
			return j.Answerer(&in.QuestionInput).Generate(ctx, in)
		})
	}, activity.RegisterOptions{Name: wire.ActivityQuestionGenerate})
	r.RegisterActivityWithOptions(func(ctx context.Context, in wire.QuestionRound) (out wire.QuestionVerdict, err error) {
		err = j.step(ctx, wire.ActivityQuestionJudge, in.QuestionInput, func(ctx context.Context, _ wire.QuestionInput) (err error) {
			out.Again, err = answerer.Judge(ctx, in)
			return err
		})
		return out, err
	}, activity.RegisterOptions{Name: wire.ActivityQuestionJudge})
	for name, step := range map[string]func(context.Context, wire.QuestionInput) error{
		wire.ActivityQuestionRetrieve: answerer.Retrieve,
		wire.ActivityQuestionFinish: func(ctx context.Context, in wire.QuestionInput) error {
			defer j.Slow.KeepQuestion(ctx, in)
			return answerer.Finish(ctx, in)
		},
		wire.ActivityQuestionCancel: func(ctx context.Context, in wire.QuestionInput) error {
			return ignoreEnded(j.Store.Cancel(ctx, in))
		},
	} {
		r.RegisterActivityWithOptions(func(ctx context.Context, in wire.QuestionInput) error {
			return j.step(ctx, name, in, step)
		}, activity.RegisterOptions{Name: name})
	}
	r.RegisterActivityWithOptions(func(ctx context.Context, in wire.QuestionFailure) error {
		return j.step(ctx, wire.ActivityQuestionFail, in.QuestionInput, func(ctx context.Context, q wire.QuestionInput) error {
			defer j.Slow.KeepQuestion(ctx, q)
			return ignoreEnded(answerer.Fail(ctx, q, in.Reason))
		})
	}, activity.RegisterOptions{Name: wire.ActivityQuestionFail})
}

// ignoreEnded drops the error that says that a question has ended already, for steps that end it.
func ignoreEnded(err error) error {
	if errors.Is(err, schema.ErrLostLease) {
		return nil
	}
	return err
}

// step runs one step with heartbeats, and gives its error the type by which the workflow decides.
func (j *Jobs) step(ctx context.Context, name string, in wire.QuestionInput, run func(context.Context, wire.QuestionInput) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// If the question was cancelled, the requests that the step made are cancelled with it. If the
	// step only has to be repeated, they go on. Temporal does not distinguish the two.
	ctx = j.Cancels(ctx, func(error) bool { return j.cancelled(ctx, in) })
	faults := heartbeat.Faults(ctx)
	defer heartbeat.Start(ctx, heartbeat.Every, faults)()
	err := run(ctx, in)
	if err == nil {
		return nil
	}
	slog.WarnContext(ctx, "a step of a question failed", "tenant", in.Tenant, "question", in.Question, "attempt", in.Attempt,
		"step", name, "try", activity.GetInfo(ctx).Attempt, "error", err)
	if errors.Is(err, schema.ErrLostLease) {
		state := schema.JobState("")
		if q, loading := j.Store.Question(ctx, in); loading == nil {
			state = q.State
		}
		return temporal.NewNonRetryableApplicationError(err.Error(), wire.ErrorQuestionLost, nil, state)
	}
	reason := answer.ReasonOf(err)
	if !isTemporary(err, name) {
		faults++
		activity.RecordHeartbeat(ctx, faults)
	}
	if isPermanent(err, reason) || faults >= maxFaults {
		return temporal.NewNonRetryableApplicationError(reason.Message, reason.Code, nil)
	}
	return temporal.NewApplicationError(reason.Message, reason.Code)
}

// maxFaults is how often a step may fail for another reason than that a part of the system is
// unavailable.
const maxFaults = 10

// isTemporary reports whether err says that a part of the system is unavailable, for which the step
// waits, or that this try was cut short. Errors that the gateway returns about a language model are
// only retried a few times.
func isTemporary(err error, step string) bool {
	var remote *schema.RemoteError
	if errors.As(err, &remote) && (step == wire.ActivityQuestionGenerate || step == wire.ActivityQuestionJudge) {
		return false
	}
	for _, unavailable := range []error{schema.ErrUnavailable, schema.ErrOverloaded, context.Canceled} {
		if errors.Is(err, unavailable) {
			return true
		}
	}
	return false
}

// cancelled reports whether a question was cancelled.
func (j *Jobs) cancelled(ctx context.Context, in wire.QuestionInput) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	q, err := j.Store.Question(ctx, in)
	return err == nil && q.State == schema.JobCancelled
}

// isPermanent reports whether trying again cannot help: the question itself is at fault, or another
// service reported an internal error that a person must fix.
func isPermanent(err error, reason schema.Reason) bool {
	switch schema.Code(reason.Code) {
	case schema.CodeInvalid, schema.CodeNotFound, schema.CodeConflict, schema.CodeTooLarge, schema.CodeQuota:
		return true
	case schema.CodeInternal:
		var remote *schema.RemoteError
		return errors.As(err, &remote)
	}
	return false
}
