package workflows

// AnswerQuestion: the steps of an asynchronous question. Only ids pass through
// it; text is in the store. The steps are answer's, run as activities.

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// questionOptions of the steps: a worker that goes silent is noticed by its
// heartbeat, what may pass is tried again for some minutes, then the question
// fails with the last reason.
func questionOptions(atMost time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout:    atMost,
		ScheduleToCloseTimeout: 15 * time.Minute,
		HeartbeatTimeout:       10 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second, MaximumAttempts: 10,
		},
	}
}

// endOptions of what ends a question. It must not fail: without it the job
// would wait for its lease to run out.
func endOptions() workflow.ActivityOptions {
	o := questionOptions(30 * time.Second)
	o.RetryPolicy.MaximumAttempts = 0
	return o
}

// AnswerQuestion answers a stored question. Its result is the state in which it
// left the question; a cancelled workflow leaves the question cancelled.
func AnswerQuestion(ctx workflow.Context, in wire.QuestionInput) (wire.QuestionResult, error) {
	result := wire.QuestionResult{State: schema.JobAnswered, Rounds: 1}
	stage := ""
	if err := workflow.SetQueryHandler(ctx, wire.QueryQuestionStage, func() (string, error) { return stage, nil }); err != nil {
		return result, err
	}
	for _, step := range []struct {
		activity string
		atMost   time.Duration
	}{
		{wire.ActivityQuestionUnderstand, 30 * time.Second},
		{wire.ActivityQuestionRetrieve, time.Minute},
		{wire.ActivityQuestionGenerate, 3 * time.Minute},
		{wire.ActivityQuestionFinish, time.Minute},
	} {
		stage = step.activity
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, questionOptions(step.atMost)), step.activity, in).Get(ctx, nil)
		if err != nil {
			return endQuestion(ctx, in, step.activity, err)
		}
	}
	stage = ""
	return result, nil
}

// endQuestion leaves the question in an end after a step failed.
func endQuestion(ctx workflow.Context, in wire.QuestionInput, step string, err error) (wire.QuestionResult, error) {
	// A cancelled context runs no activity.
	last, cancel := workflow.NewDisconnectedContext(ctx)
	defer cancel()
	last = workflow.WithActivityOptions(last, endOptions())
	result := wire.QuestionResult{Rounds: 1}
	var app *temporal.ApplicationError
	switch {
	case temporal.IsCanceledError(err):
		result.State = schema.JobCancelled
		if ending := workflow.ExecuteActivity(last, wire.ActivityQuestionCancel, in).Get(last, nil); ending != nil {
			return result, ending
		}
		return result, err
	case errors.As(err, &app) && app.Type() == wire.ErrorQuestionLost:
		return result, app.Details(&result.State)
	}
	result.State = schema.JobFailed
	return result, workflow.ExecuteActivity(last, wire.ActivityQuestionFail, wire.QuestionFailure{QuestionInput: in, Reason: reasonOf(step, err)}).Get(last, nil)
}

func reasonOf(step string, err error) schema.Reason {
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		return schema.Reason{Code: app.Type(), Message: app.Message()}
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) {
		return schema.Reason{Code: string(schema.CodeDeadline), Message: step + " took too long, or its worker vanished"}
	}
	return schema.Reason{Code: string(schema.CodeInternal), Message: step + ": " + err.Error()}
}
