package workflows

// AnswerQuestion runs the steps of an asynchronous question. Only ids pass through it; text is in
// the store. The activities run the steps of package answer.

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// questionOptions returns the options of the steps. Missing heartbeats show that a worker is gone,
// and failures of the environment are retried. A step reports itself when another try is useless.
func questionOptions(atMost time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout:    atMost,
		ScheduleToCloseTimeout: 50 * time.Minute,
		HeartbeatTimeout:       10 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second,
		},
	}
}

// generateOptions returns the options of steps that call a language model. They are retried for a
// shorter time.
func generateOptions() workflow.ActivityOptions {
	o := questionOptions(3 * time.Minute)
	o.ScheduleToCloseTimeout = 15 * time.Minute
	return o
}

// roundOptions returns the options of judging and of further rounds. They are tried only three
// times, because an answer already waits.
func roundOptions() workflow.ActivityOptions {
	o := generateOptions()
	o.RetryPolicy.MaximumAttempts = 3
	return o
}

// endOptions returns the options of steps that end a question. These must not fail: otherwise the
// job would wait until its lease ends.
func endOptions() workflow.ActivityOptions { return questionOptions(30 * time.Second) }

// AnswerQuestion answers a stored question. Its result is the state in which it left the question.
// If the workflow is cancelled, so is the question.
func AnswerQuestion(ctx workflow.Context, in wire.QuestionInput) (wire.QuestionResult, error) {
	result := wire.QuestionResult{State: schema.JobAnswered, Rounds: 1}
	stage := ""
	if err := workflow.SetQueryHandler(ctx, wire.QueryQuestionStage, func() (string, error) { return stage, nil }); err != nil {
		return result, err
	}
	run := func(activity string, options workflow.ActivityOptions, in, out any) error {
		stage = activity
		return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), activity, in).Get(ctx, out)
	}
	plan := wire.QuestionPlan{}
	err := run(wire.ActivityQuestionUnderstand, questionOptions(30*time.Second), in, &plan)
	if err == nil {
		err = run(wire.ActivityQuestionRetrieve, questionOptions(time.Minute), in, nil)
	}
	if err == nil {
		err = run(wire.ActivityQuestionGenerate, generateOptions(), in, nil)
	}
	// The maximum number of rounds is in the first step's result. Results of older workers have
	// none, so that their questions run as they began.
	for round := 1; err == nil && plan.Rounds > 1 && round <= plan.Rounds; round++ {
		verdict := wire.QuestionVerdict{}
		at := wire.QuestionRound{QuestionInput: in, Round: round}
		if failed := run(wire.ActivityQuestionJudge, roundOptions(), at, &verdict); failed != nil || !verdict.Again {
			err = unlessSpared(failed)
			break
		}
		at.Round++
		if failed := run(wire.ActivityQuestionGenerate, roundOptions(), at, nil); failed != nil {
			err = unlessSpared(failed)
			break
		}
		result.Rounds = at.Round
	}
	if err == nil {
		err = run(wire.ActivityQuestionFinish, questionOptions(time.Minute), in, nil)
	}
	if err != nil {
		return endQuestion(ctx, in, stage, err)
	}
	stage = ""
	return result, nil
}

// unlessSpared drops an error of judging, or of a further round, because the existing answer
// remains. It returns the error if the question was cancelled or lost.
func unlessSpared(err error) error {
	var app *temporal.ApplicationError
	if temporal.IsCanceledError(err) || errors.As(err, &app) && app.Type() == wire.ErrorQuestionLost {
		return err
	}
	return nil
}

// endQuestion ends the question after a step failed.
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
