package answer

// This file asks questions that were answered from documents once more without them, and has the
// two answers compared, so that a plan learns what the language model knows (FIT-RAG, section 4.3).

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// noModelProvider is the provider without a language model.
const noModelProvider = "extractive"

// minRightScore is the score from which an answer without retrieval counts as right: the score from
// which SAGE's judge calls an answer highly accurate.
const minRightScore = 9

// sample reports whether a question is among those that are asked without retrieval. That depends
// only on its id.
func (p PlanTraits) sample(question uuid.UUID, provider string) bool {
	if p.Sampled <= 0 || provider == noModelProvider {
		return false
	}
	sum := sha256.Sum256(question[:])
	return float64(binary.BigEndian.Uint64(sum[:8]))/(1<<64) < p.Sampled
}

// ErrNothingLearnt says that nothing can be learnt from a question, now or later.
var ErrNothingLearnt = errors.New("nothing is learnt from the question")

// Shadow asks an answered question without retrieval and has that answer judged against the cited
// one. It returns the question and whether the language model was right. The error is
// ErrNothingLearnt if another try cannot help. The replies of both calls are stored under the
// question, so that neither is paid for twice.
func (a *Answerer) Shadow(ctx context.Context, in wire.QuestionInput) (question string, right bool, err error) {
	ctx, end := a.span(ctx, in, "shadow")
	defer func() { end(err) }()
	q, err := a.store.Question(ctx, in)
	switch {
	case err != nil:
		return "", false, err
	case q.State != schema.JobAnswered && q.State.Final():
		return "", false, fmt.Errorf("it is %s: %w", q.State, ErrNothingLearnt)
	case q.State != schema.JobAnswered:
		return "", false, fmt.Errorf("it is %s: %w", q.State, schema.ErrUnavailable)
	}
	cited, err := a.store.Answer(ctx, in)
	if err != nil {
		return "", false, err
	}
	if !cited.Supported || len(cited.Citations) == 0 { // or its documents were deleted since
		return "", false, fmt.Errorf("it has no cited answer: %w", ErrNothingLearnt)
	}
	request := wire.LLMRequest{Envelope: wire.Header(), Tenant: in.Tenant, Task: wire.TaskBackground, Question: q.Query.Text,
		Step: wire.Step{Question: in.Question, Round: 1, Step: "shadow"}}
	request.Deadline, _ = ctx.Deadline()
	reply, err := a.generator.Complete(ctx, request)
	if err != nil {
		if schema.ToRemote(err).Code == schema.CodeInvalid {
			err = fmt.Errorf("%w: %w", ErrNothingLearnt, err)
		}
		return "", false, fmt.Errorf("answer without retrieval: %w", err)
	}
	if reply.Text == "" {
		return q.Query.Text, false, nil
	}
	request.Task, request.Step.Step, request.Answer = wire.TaskFeedback, "shadow feedback", reply.Text
	request.Passages = []wire.LLMPassage{{Title: "The answer that the documents prove", Text: cited.Answer}}
	for _, c := range cited.Citations {
		request.Passages = append(request.Passages, wire.LLMPassage{Title: c.Title, Text: c.Quote})
	}
	verdict, err := a.generator.Complete(ctx, request)
	switch {
	case err != nil:
		return "", false, fmt.Errorf("judge the answer without retrieval: %w", err)
	case verdict.Feedback == nil || verdict.Usage.Provider == noModelProvider: // that provider compares no answers
		return "", false, fmt.Errorf("no language model judged the answer without retrieval: %w", schema.ErrUnavailable)
	}
	return q.Query.Text, verdict.Feedback.Score >= minRightScore, nil
}
