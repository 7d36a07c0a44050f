package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
	"github.com/sluice-rag/sluice/workflows"
)

// TestAnswerQuestionReplays runs today's code on recorded histories of questions: a question that
// runs while a worker is updated must go on. cmd/internal/queryworker/jobs_test.go says how to
// record more.
func TestAnswerQuestionReplays(t *testing.T) {
	replays(t, "answer_question", 6, map[string]any{wire.WorkflowAnswerQuestion: workflows.AnswerQuestion})
}

var questionSteps = []string{wire.ActivityQuestionUnderstand, wire.ActivityQuestionRetrieve, wire.ActivityQuestionGenerate, wire.ActivityQuestionFinish}

// steps runs AnswerQuestion with scripted steps, and records which ran.
type steps struct {
	env     *testsuite.TestWorkflowEnvironment
	ran     []string
	failure *wire.QuestionFailure
}

func newSteps(script map[string]func(run int) error) *steps {
	var suite testsuite.WorkflowTestSuite
	s := &steps{env: suite.NewTestWorkflowEnvironment()}
	runs := map[string]int{}
	for _, name := range append(slices.Clone(questionSteps), wire.ActivityQuestionCancel) {
		s.env.RegisterActivityWithOptions(func(context.Context, wire.QuestionInput) error {
			s.ran = append(s.ran, name)
			runs[name]++
			if do := script[name]; do != nil {
				return do(runs[name])
			}
			return nil
		}, activity.RegisterOptions{Name: name})
	}
	s.env.RegisterActivityWithOptions(func(_ context.Context, f wire.QuestionFailure) error {
		s.ran, s.failure = append(s.ran, wire.ActivityQuestionFail), &f
		return nil
	}, activity.RegisterOptions{Name: wire.ActivityQuestionFail})
	return s
}

func (s *steps) run(t *testing.T) (wire.QuestionResult, error) {
	t.Helper()
	s.env.ExecuteWorkflow(workflows.AnswerQuestion, wire.QuestionInput{Tenant: uuid.New(), Question: uuid.New(), Attempt: 1})
	if !s.env.IsWorkflowCompleted() {
		t.Fatal("the workflow did not end")
	}
	var result wire.QuestionResult
	if err := s.env.GetWorkflowError(); err != nil {
		return result, err
	}
	return result, s.env.GetWorkflowResult(&result)
}

func TestAnswerQuestionRunsTheSteps(t *testing.T) {
	s := newSteps(map[string]func(int) error{wire.ActivityQuestionGenerate: func(run int) error {
		if run < 4 {
			return temporal.NewApplicationError("down", string(schema.CodeUnavailable))
		}
		return nil
	}})
	result, err := s.run(t)
	if err != nil || result.State != schema.JobAnswered || result.Rounds != 1 {
		t.Fatalf("got %+v, %v", result, err)
	}
	if want := []string{questionSteps[0], questionSteps[1], questionSteps[2], questionSteps[2], questionSteps[2], questionSteps[2], questionSteps[3]}; !slices.Equal(s.ran, want) {
		t.Errorf("ran %v, want %v", s.ran, want)
	}
	value, err := s.env.QueryWorkflow(wire.QueryQuestionStage)
	var stage string
	if err != nil || value.Get(&stage) != nil || stage != "" {
		t.Errorf("the stage after the end is %q, %v", stage, err)
	}
}

// judged runs AnswerQuestion with a plan of three rounds and scripted verdicts.
func judged(t *testing.T, again []bool, fail map[string]error) (ran []string, result wire.QuestionResult, err error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	note := func(name string, round int) error {
		name = fmt.Sprintf("%s %d", strings.TrimPrefix(name, "question-"), round)
		if len(ran) == 0 || ran[len(ran)-1] != name { // repeated tries count once
			ran = append(ran, name)
		}
		return fail[name]
	}
	env.RegisterActivityWithOptions(func(context.Context, wire.QuestionInput) (wire.QuestionPlan, error) {
		return wire.QuestionPlan{Rounds: 3}, note(wire.ActivityQuestionUnderstand, 0)
	}, activity.RegisterOptions{Name: wire.ActivityQuestionUnderstand})
	for _, name := range []string{wire.ActivityQuestionRetrieve, wire.ActivityQuestionFinish, wire.ActivityQuestionCancel} {
		env.RegisterActivityWithOptions(func(context.Context, wire.QuestionInput) error { return note(name, 0) }, activity.RegisterOptions{Name: name})
	}
	env.RegisterActivityWithOptions(func(_ context.Context, in wire.QuestionRound) error {
		return note(wire.ActivityQuestionGenerate, max(1, in.Round))
	}, activity.RegisterOptions{Name: wire.ActivityQuestionGenerate})
	env.RegisterActivityWithOptions(func(_ context.Context, in wire.QuestionRound) (wire.QuestionVerdict, error) {
		return wire.QuestionVerdict{Again: again[in.Round-1]}, note(wire.ActivityQuestionJudge, in.Round)
	}, activity.RegisterOptions{Name: wire.ActivityQuestionJudge})
	env.RegisterActivityWithOptions(func(context.Context, wire.QuestionFailure) error { return note(wire.ActivityQuestionFail, 0) },
		activity.RegisterOptions{Name: wire.ActivityQuestionFail})
	env.ExecuteWorkflow(workflows.AnswerQuestion, wire.QuestionInput{Tenant: uuid.New(), Question: uuid.New(), Attempt: 1})
	if err = env.GetWorkflowError(); err == nil {
		err = env.GetWorkflowResult(&result)
	}
	return ran, result, err
}

func TestAnswerQuestionJudgesInRounds(t *testing.T) {
	down := temporal.NewApplicationError("down", string(schema.CodeUnavailable))
	lost := temporal.NewNonRetryableApplicationError("ended", wire.ErrorQuestionLost, nil, schema.JobCancelled)
	for _, x := range []struct {
		name   string
		again  []bool
		fail   map[string]error
		ran    string
		rounds int
	}{
		{"good enough", []bool{false}, nil, "generate 1,judge 1,finish 0", 1},
		{"the second is", []bool{true, false}, nil, "generate 1,judge 1,generate 2,judge 2,finish 0", 2},
		{"none is", []bool{true, true, false}, nil, "generate 1,judge 1,generate 2,judge 2,generate 3,judge 3,finish 0", 3},
		{"judging is down", []bool{true}, map[string]error{"judge 1": down}, "generate 1,judge 1,finish 0", 1},
		{"another answer cannot be made", []bool{true}, map[string]error{"generate 2": down}, "generate 1,judge 1,generate 2,finish 0", 1},
		{"it is lost", []bool{true}, map[string]error{"judge 1": lost}, "generate 1,judge 1", 1},
	} {
		ran, result, err := judged(t, x.again, x.fail)
		if got := strings.Join(ran, ","); err != nil || got != "understand 0,retrieve 0,"+x.ran || result.Rounds != x.rounds {
			t.Errorf("%s: got %+v, %v after %s", x.name, result, err, got)
		}
	}
}

func TestAnswerQuestionLeavesAReason(t *testing.T) {
	for _, c := range []struct {
		name   string
		fail   error
		reason schema.Reason
		runs   int
	}{
		{"what trying again cannot help", temporal.NewNonRetryableApplicationError("no such plan", string(schema.CodeInvalid), nil),
			schema.Reason{Code: "invalid", Message: "no such plan"}, 1},
		{"what never recovers", temporal.NewApplicationError("down", string(schema.CodeUnavailable)), schema.Reason{Code: "unavailable", Message: "down"}, 10},
	} {
		s := newSteps(map[string]func(int) error{wire.ActivityQuestionRetrieve: func(int) error { return c.fail }})
		result, err := s.run(t)
		if err != nil || result.State != schema.JobFailed || s.failure == nil || s.failure.Reason != c.reason {
			t.Errorf("%s: got %+v, %v, reason %+v", c.name, result, err, s.failure)
		}
		n := 0
		for _, r := range s.ran {
			if r == wire.ActivityQuestionRetrieve {
				n++
			}
		}
		if n != c.runs {
			t.Errorf("%s: tried %d times, want %d", c.name, n, c.runs)
		}
	}
}

func TestAnswerQuestionThatIsLostTouchesNothing(t *testing.T) {
	s := newSteps(map[string]func(int) error{wire.ActivityQuestionGenerate: func(int) error {
		return temporal.NewNonRetryableApplicationError("ended", wire.ErrorQuestionLost, nil, schema.JobCancelled)
	}})
	result, err := s.run(t)
	if err != nil || result.State != schema.JobCancelled || len(s.ran) != 3 {
		t.Errorf("got %+v, %v after %v", result, err, s.ran)
	}
}

func TestAnswerQuestionIsCancelledBetweenTries(t *testing.T) {
	s := newSteps(map[string]func(int) error{wire.ActivityQuestionGenerate: func(int) error {
		return temporal.NewApplicationError("down", string(schema.CodeUnavailable))
	}})
	s.env.RegisterDelayedCallback(s.env.CancelWorkflow, 10*time.Second)
	_, err := s.run(t)
	var cancelled *temporal.CanceledError
	if !errors.As(err, &cancelled) || s.ran[len(s.ran)-1] != wire.ActivityQuestionCancel || s.failure != nil {
		t.Errorf("got %v after %v", err, s.ran)
	}
}
