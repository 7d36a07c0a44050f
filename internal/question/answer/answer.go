// Package answer turns a question into an answer with citations, in steps that each leave their
// result in the store: understand, retrieve, generate, judge, finish. Generate and judge may repeat
// (rounds.go). A synchronous question runs them one after another; an asynchronous question runs
// the same steps as activities of a workflow. A repeated step does nothing twice.
//
// Other packages find the passages (retrieval) and generate text (the gateway). This package
// guarantees that every citation is a verbatim span of stored text (cite.go).
package answer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Names of the steps, as a job's stage shows them.
const (
	StepUnderstand = "understand"
	StepRetrieve   = "retrieve"
	StepGenerate   = "generate"
	StepJudge      = "judge"
	StepFinish     = "finish"
)

// Question is a stored question.
type Question struct {
	ID      uuid.UUID
	Query   wire.SearchQuery // the principal has the groups that it had when it asked
	Async   bool
	State   schema.JobState
	Attempt int
}

// Retrieval is the result of a round of retrieval.
type Retrieval struct {
	Candidates []schema.Candidate
	Trace      []schema.StageReport
	// Skipped says that the question is answered from what the language model knows, because the
	// plan found that it knows enough.
	Skipped bool
	MinK    int    // min_k of the selection, if answers are judged
	Pool    []byte // JSON; what Select selects from; only in the first round
	Verdict *Verdict
}

// generates reports whether an answer is generated from the retrieval.
func (r Retrieval) generates() bool { return r.Skipped || len(r.Candidates) > 0 }

// PlanTraits is what answering needs to know about a query's plan.
type PlanTraits struct {
	Name string
	// Feedback says how answers are judged; nil: not at all.
	Feedback *FeedbackRule
	// Prompt is LLMRequest.Prompt of its answers.
	Prompt string
	// Sampled is the share of questions that are also asked without retrieval, so that the plan
	// learns what the language model knows.
	Sampled float64
}

// Retriever runs a plan.
type Retriever interface {
	// Check returns the traits of the query's plan. If the query is invalid, it returns a
	// FieldError.
	Check(q wire.SearchQuery) (PlanTraits, error)
	// Origin returns which plan and which model pack answer a query. It never fails: what is
	// unknown is empty.
	Origin(ctx context.Context, q wire.SearchQuery) schema.Origin
	Retrieve(ctx context.Context, q wire.SearchQuery) (Retrieval, error)
	// Select repeats the plan's selection from a Retrieval's Pool with another min_k.
	Select(ctx context.Context, q wire.SearchQuery, pool []byte, minK int) (Retrieval, error)
}

// Generator is the language model gateway. An error inside a reply is returned as an error.
type Generator interface {
	Complete(ctx context.Context, r wire.LLMRequest) (wire.LLMReply, error)
}

// Store stores questions and the results of their steps. All writes are fenced: if the question has
// ended or another attempt owns it, nothing is written and the error is schema.ErrLostLease.
type Store interface {
	// Begin sets an unfinished question to running and returns it.
	Begin(ctx context.Context, q wire.QuestionInput) (Question, error)
	// Question returns a question in any state.
	Question(ctx context.Context, q wire.QuestionInput) (Question, error)
	SetStage(ctx context.Context, q wire.QuestionInput, stage string) error
	// SaveRetrieval stores the first result of a round and returns the stored one.
	SaveRetrieval(ctx context.Context, q wire.QuestionInput, round int, r Retrieval) (Retrieval, error)
	// Retrieval returns schema.ErrNotFound for a round without a result.
	Retrieval(ctx context.Context, q wire.QuestionInput, round int) (Retrieval, error)
	// SaveVerdict stores the first verdict on a round's answer and returns the stored one.
	SaveVerdict(ctx context.Context, q wire.QuestionInput, round int, v Verdict) (Verdict, error)
	// Sample marks the question to be asked without retrieval, too, some time later.
	Sample(ctx context.Context, q wire.QuestionInput) error
	// Reply returns a step's reply from the ledger, or schema.ErrNotFound.
	Reply(ctx context.Context, tenant uuid.UUID, s wire.Step) (wire.LLMReply, error)
	// Spent returns the total usage of all model calls that were made for the question.
	Spent(ctx context.Context, q wire.QuestionInput) (schema.Usage, error)
	// Sections returns those of the sections that the principal may see and whose document is not
	// deleted.
	Sections(ctx context.Context, p schema.Principal, ids []uuid.UUID) (map[uuid.UUID]schema.Section, error)
	// SaveAnswer stores answer and citations and ends the question, in one
	// transaction.
	SaveAnswer(ctx context.Context, q wire.QuestionInput, a schema.Answer) error
	// Answer returns the stored answer, or schema.ErrNotFound.
	Answer(ctx context.Context, q wire.QuestionInput) (schema.Answer, error)
	// Fail ends the question with a reason.
	Fail(ctx context.Context, q wire.QuestionInput, r schema.Reason) error
}

// Answerer runs the steps. It is safe for concurrent use.
type Answerer struct {
	store     Store
	retriever Retriever
	generator Generator
	tracer    trace.Tracer
}

// New returns an Answerer.
func New(s Store, r Retriever, g Generator) *Answerer {
	return &Answerer{store: s, retriever: r, generator: g, tracer: otel.Tracer("github.com/sluice-rag/sluice/internal/question/answer")}
}

// maxPassageTokens bounds the passages that are sent to a language model, in the tokens of
// internal/text. Candidates beyond it are left out, worst first.
const maxPassageTokens = 12_000

// Ask runs all steps and returns the answer. For a question that is already answered it returns the
// stored answer. If a step fails, the question fails with that reason.
func (a *Answerer) Ask(ctx context.Context, in wire.QuestionInput) (schema.Answer, error) {
	q, err := a.store.Question(ctx, in)
	if err != nil {
		return schema.Answer{}, err
	}
	if q.State == schema.JobAnswered {
		return a.store.Answer(ctx, in)
	}
	answer, err := a.ask(ctx, in)
	if errors.Is(err, schema.ErrLostLease) { // asked twice at once, or cancelled
		if q, err = a.store.Question(ctx, in); err == nil && q.State == schema.JobAnswered {
			return a.store.Answer(ctx, in)
		} else if err == nil {
			err = fmt.Errorf("question %s is %s already: %w", in.Question, q.State, schema.ErrConflict)
		}
		return schema.Answer{}, err
	}
	if err != nil {
		// The question must not stay open, even if the caller's time is over.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if failing := a.Fail(end, in, ReasonOf(err)); failing != nil && !errors.Is(failing, schema.ErrLostLease) {
			err = errors.Join(err, failing)
		}
	}
	return answer, err
}

func (a *Answerer) ask(ctx context.Context, in wire.QuestionInput) (schema.Answer, error) {
	q, err := a.understand(ctx, in)
	if err != nil {
		return schema.Answer{}, err
	}
	found, err := a.retrieve(ctx, in, q)
	if err != nil {
		return schema.Answer{}, err
	}
	reply, err := a.generate(ctx, in, q, 1, found)
	if err != nil {
		return schema.Answer{}, err
	}
	rounds, err := a.improve(ctx, in, q, answerRound{round: 1, found: found, reply: reply})
	if err != nil {
		return schema.Answer{}, err
	}
	return a.finish(ctx, in, q, rounds)
}

// Understand is the first step: it begins the question and checks that it can be run. rounds is the
// maximum number of times that an answer is generated.
func (a *Answerer) Understand(ctx context.Context, in wire.QuestionInput) (rounds int, err error) {
	q, err := a.understand(ctx, in)
	if err != nil {
		return 0, err
	}
	plan, err := a.retriever.Check(q.Query)
	if err != nil || plan.Feedback == nil {
		return 1, err
	}
	return plan.Feedback.Rounds, nil
}

// Retrieve is the second step: it runs the plan and stores the result.
func (a *Answerer) Retrieve(ctx context.Context, in wire.QuestionInput) error {
	q, err := a.store.Question(ctx, in)
	if err != nil {
		return err
	}
	_, err = a.retrieve(ctx, in, q)
	return err
}

// Generate is the third step: it has a round's answer generated. The gateway stores the reply under
// the question, the round and the step, so that it is paid for once.
func (a *Answerer) Generate(ctx context.Context, in wire.QuestionRound) error {
	q, err := a.store.Question(ctx, in.QuestionInput)
	if err != nil {
		return err
	}
	round := max(1, in.Round)
	found, err := a.loadRetrieval(ctx, in.QuestionInput, round)
	if err != nil {
		return err
	}
	_, err = a.generate(ctx, in.QuestionInput, q, round, found)
	return err
}

// errPurged ends a running question when one of its documents was deleted. Purge removes the
// results of every question that found a deleted document (docs/security.md).
var errPurged = &schema.RemoteError{Code: schema.CodeNotFound,
	Message: "a document that was found for this question was deleted before the answer was there; ask again"}

// loadRetrieval loads the result of a round's retrieval. Every question has a first round.
func (a *Answerer) loadRetrieval(ctx context.Context, in wire.QuestionInput, round int) (Retrieval, error) {
	found, err := a.store.Retrieval(ctx, in, round)
	switch {
	case round == 1 && errors.Is(err, schema.ErrNotFound):
		return found, errPurged
	case err != nil:
		return found, fmt.Errorf("load the result of retrieval: %w", err)
	}
	return found, nil
}

// Finish is the last step: it verifies the quotes, stores answer and citations and ends the
// question.
func (a *Answerer) Finish(ctx context.Context, in wire.QuestionInput) error {
	q, err := a.store.Question(ctx, in)
	if err != nil {
		return err
	}
	rounds, err := a.rounds(ctx, in, math.MaxInt)
	if err != nil {
		return err
	}
	_, err = a.finish(ctx, in, q, rounds)
	return err
}

// Fail ends the question with a reason.
func (a *Answerer) Fail(ctx context.Context, in wire.QuestionInput, r schema.Reason) error {
	return a.store.Fail(ctx, in, r)
}

// ReasonOf returns the reason to store for a question that failed with err.
func ReasonOf(err error) schema.Reason {
	e := schema.ToRemote(err)
	switch {
	case e.Code != schema.CodeInternal:
	case errors.Is(err, context.DeadlineExceeded):
		e.Code = schema.CodeDeadline
	case errors.Is(err, context.Canceled):
		e.Code, e.Message = schema.CodeUnavailable, "given up before the answer was there, for nobody waits for it or its worker stops: "+e.Message
	}
	return schema.Reason{Code: string(e.Code), Message: e.Message}
}

// step identifies the call that generates a round's answer.
func step(in wire.QuestionInput, round int, found Retrieval) wire.Step {
	task := wire.TaskAnswer
	if found.Skipped {
		task = wire.TaskBackground
	}
	return wire.Step{Question: in.Question, Round: round, Step: string(task)}
}

func (a *Answerer) understand(ctx context.Context, in wire.QuestionInput) (q Question, err error) {
	ctx, end := a.span(ctx, in, StepUnderstand)
	defer func() { end(err) }()
	if q, err = a.store.Begin(ctx, in); err != nil {
		return Question{}, err
	}
	_, err = a.retriever.Check(q.Query)
	return q, err
}

func (a *Answerer) retrieve(ctx context.Context, in wire.QuestionInput, q Question) (found Retrieval, err error) {
	ctx, end := a.span(ctx, in, StepRetrieve)
	defer func() { end(err) }()
	if err = a.store.SetStage(ctx, in, StepRetrieve); err != nil {
		return Retrieval{}, err
	}
	if found, err = a.store.Retrieval(ctx, in, 1); err == nil || !errors.Is(err, schema.ErrNotFound) {
		return found, err
	}
	q.Query.Question = in.Question // model calls of the plan are recorded under the question
	if found, err = a.retriever.Retrieve(ctx, q.Query); err != nil {
		return Retrieval{}, err
	}
	return a.store.SaveRetrieval(ctx, in, 1, found)
}

func (a *Answerer) generate(ctx context.Context, in wire.QuestionInput, q Question, round int, found Retrieval) (reply wire.LLMReply, err error) {
	ctx, end := a.span(ctx, in, StepGenerate)
	defer func() { end(err) }()
	if err = a.store.SetStage(ctx, in, StepGenerate); err != nil || !found.generates() {
		return wire.LLMReply{}, err
	}
	plan, err := a.retriever.Check(q.Query)
	if err != nil {
		return wire.LLMReply{}, err
	}
	at := step(in, round, found)
	request := wire.LLMRequest{Envelope: wire.Header(), Tenant: in.Tenant, Step: at, Task: wire.LLMTask(at.Step), Question: q.Query.Text,
		Passages: passagesOf(fitting(found.Candidates)), Versions: versionsOf(fitting(found.Candidates))}
	if !found.Skipped {
		request.Choices, request.Prompt, request.Risk = q.Query.Choices, plan.Prompt, q.Query.Risk
	}
	request.Deadline, _ = ctx.Deadline()
	if reply, err = a.generator.Complete(ctx, request); err != nil {
		return wire.LLMReply{}, fmt.Errorf("generate the answer: %w", err)
	}
	return reply, nil
}

func passagesOf(candidates []schema.Candidate) []wire.LLMPassage {
	var out []wire.LLMPassage
	for _, c := range candidates {
		out = append(out, wire.LLMPassage{Title: c.Title, Location: c.Location, Headings: c.HeadingPath, Text: c.Text})
	}
	return out
}

// fitting returns the candidates that fit into a language model's request.
func fitting(candidates []schema.Candidate) []schema.Candidate {
	tokens := 0
	for i, c := range candidates {
		if tokens += c.Tokens; tokens > maxPassageTokens && i > 0 {
			return candidates[:i]
		}
	}
	return candidates
}

func (a *Answerer) finish(ctx context.Context, in wire.QuestionInput, q Question, rounds []answerRound) (out schema.Answer, err error) {
	ctx, end := a.span(ctx, in, StepFinish)
	defer func() { end(err) }()
	if err = a.store.SetStage(ctx, in, StepFinish); err != nil {
		return schema.Answer{}, err
	}
	plan, err := a.retriever.Check(q.Query)
	if err != nil {
		return schema.Answer{}, err
	}
	kept := best(rounds)
	found, reply := kept.found, kept.reply
	citations, at, differing, err := a.cite(ctx, q, fitting(found.Candidates), reply.Quotes)
	if err != nil {
		return schema.Answer{}, err
	}
	out = schema.Answer{
		Question: q.Query.Text, Answer: reply.Text, Supported: reply.Supported && len(citations) > 0,
		Citations: citations, Plan: plan.Name, Rounds: len(rounds), Trace: traceOf(rounds, kept, len(citations)),
	}
	out.Uncited = found.Skipped
	a.prove(ctx, &out, in, q, kept, at)
	switch {
	case found.Skipped:
	case reply.Withheld != "":
		out.Answer, out.Sentences = schema.NoAnswer, nil
	case !out.Supported:
		out.Answer, out.Citations, out.Sentences = schema.NoAnswer, []schema.Citation{}, nil
	}
	if out.Supported {
		out.Notes = append(otherPeriods(q.Query.Text, out.Citations), differing[:min(len(differing), maxNotes)]...)
	}
	if out.Usage, err = a.spent(ctx, in, kept); err != nil {
		return schema.Answer{}, err
	}
	if out.Supported && plan.sample(in.Question, reply.Usage.Provider) {
		if err := a.store.Sample(ctx, in); err != nil {
			return schema.Answer{}, err
		}
	}
	out.Origin = a.retriever.Origin(ctx, q.Query)
	return out, a.store.SaveAnswer(ctx, in, out)
}

// span starts the span of a step.
func (a *Answerer) span(ctx context.Context, in wire.QuestionInput, name string) (context.Context, func(error)) {
	ctx, span := a.tracer.Start(ctx, "question "+name, trace.WithAttributes(
		attribute.String("sluice.tenant", in.Tenant.String()), attribute.String("sluice.question", in.Question.String())))
	return ctx, func(err error) {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}
