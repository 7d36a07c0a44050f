package answer

// This file is the loop of judged answers (SAGE, section VI): an answer that is not good enough is
// generated again from another selection of what was found. A verdict is stored with its round, so
// that a repeated step judges nothing twice. Judging can only improve the result: when it fails,
// the existing answers remain.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// stageFeedback is the name of a verdict in traces; "judge" is a stage of plans.
const stageFeedback = "feedback"

// FeedbackRule says how a plan's answers are judged.
type FeedbackRule struct {
	Least  int // score from which an answer is good enough
	Rounds int // maximum number of rounds
}

// Verdict is the judgement of a round's answer.
type Verdict struct {
	Score  int          `json:"score"` // from 1 to 10; 0: the answer was not judged
	Adjust int          `json:"adjust"`
	Again  bool         `json:"again"` // another round follows
	Why    string       `json:"why"`
	Usage  schema.Usage `json:"usage"` // of the judgement
}

// answerRound is a round: what was selected, and the reply that was generated from it.
type answerRound struct {
	round int
	found Retrieval
	reply wire.LLMReply
}

// Judge is the step after an answer was generated: it has the answer judged and, unless it is good
// enough, makes another selection. again says that another round has to be generated.
func (a *Answerer) Judge(ctx context.Context, in wire.QuestionRound) (again bool, err error) {
	q, err := a.store.Question(ctx, in.QuestionInput)
	if err != nil {
		return false, err
	}
	rounds, err := a.rounds(ctx, in.QuestionInput, max(1, in.Round))
	if err != nil {
		return false, err
	}
	verdict, _, err := a.judge(ctx, in.QuestionInput, q, rounds)
	return verdict.Again, err
}

// rounds loads the rounds up to the last one; those without a generated answer are left out.
func (a *Answerer) rounds(ctx context.Context, in wire.QuestionInput, last int) ([]answerRound, error) {
	var out []answerRound
	for round := 1; round <= last; round++ {
		found, err := a.loadRetrieval(ctx, in, round)
		if errors.Is(err, schema.ErrNotFound) && round > 1 {
			break
		}
		if err != nil {
			return nil, err
		}
		m := answerRound{round: round, found: found}
		if found.generates() {
			m.reply, err = a.store.Reply(ctx, in.Tenant, step(in, round, found))
			if errors.Is(err, schema.ErrNotFound) && round > 1 {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("load what was generated: %w", err)
			}
		}
		out = append(out, m)
		if found.Verdict == nil || !found.Verdict.Again {
			break
		}
	}
	return out, nil
}

// improve judges answers and generates others until one is good enough, and returns all rounds. It
// does what the steps of a workflow do. Errors end it with the rounds so far, except that it
// returns an error if the question was lost or the caller gave up.
func (a *Answerer) improve(ctx context.Context, in wire.QuestionInput, q Question, first answerRound) ([]answerRound, error) {
	rounds := []answerRound{first}
	within, cancel := reserveTime(ctx)
	defer cancel()
	for {
		verdict, next, err := a.judge(within, in, q, rounds)
		if err == nil && !verdict.Again {
			rounds[len(rounds)-1].found.Verdict = &verdict
			return rounds, nil
		}
		m := answerRound{round: len(rounds) + 1, found: next}
		if err == nil {
			rounds[len(rounds)-1].found.Verdict = &verdict
			m.reply, err = a.generate(within, in, q, m.round, next)
		}
		switch {
		case errors.Is(err, schema.ErrLostLease) || ctx.Err() != nil && err != nil:
			return nil, err
		case err != nil: // another round is optional
			if last := &rounds[len(rounds)-1].found; last.Verdict == nil {
				last.Verdict = &Verdict{Why: "not judged: " + schema.ToRemote(err).Message}
			}
			return rounds, nil
		}
		rounds = append(rounds, m)
	}
}

// reserveTime shortens the deadline of ctx so that enough time is left to finish.
func reserveTime(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(5*time.Second, time.Until(deadline)/10)))
}

// judge has the last round's answer judged, and stores the verdict. If another round follows, it
// stores and returns that round's selection, too.
func (a *Answerer) judge(ctx context.Context, in wire.QuestionInput, q Question, rounds []answerRound) (out Verdict, next Retrieval, err error) {
	ctx, end := a.span(ctx, in, StepJudge)
	defer func() { end(err) }()
	last := rounds[len(rounds)-1]
	if kept := last.found.Verdict; kept != nil {
		if kept.Again {
			next, err = a.store.Retrieval(ctx, in, last.round+1)
		}
		return *kept, next, err
	}
	if err = a.store.SetStage(ctx, in, StepJudge); err != nil {
		return out, next, err
	}
	plan, err := a.retriever.Check(q.Query)
	if err != nil {
		return out, next, err
	}
	if plan.Feedback == nil || last.found.Skipped || len(last.found.Candidates) == 0 {
		return Verdict{}, next, nil
	}
	out = a.verdict(ctx, in, q, last, *plan.Feedback)
	if ctx.Err() != nil {
		return Verdict{}, next, fmt.Errorf("judge the answer: %w", context.Cause(ctx))
	}
	if out.Again {
		out, next = a.again(ctx, in, q, rounds, out)
		if ctx.Err() != nil {
			return Verdict{}, next, fmt.Errorf("select again: %w", context.Cause(ctx))
		}
	}
	if out.Again {
		if next, err = a.store.SaveRetrieval(ctx, in, last.round+1, next); err != nil {
			return Verdict{}, next, err
		}
	}
	out, err = a.store.SaveVerdict(ctx, in, last.round, out)
	return out, next, err
}

// verdict has the answer judged. Again says that it is not good enough and that another round may
// follow. None follows if the model that read the answer judged it by itself, because it reads the
// same answer from more passages.
func (a *Answerer) verdict(ctx context.Context, in wire.QuestionInput, q Question, m answerRound, f FeedbackRule) Verdict {
	request := wire.LLMRequest{Envelope: wire.Header(), Tenant: in.Tenant, Task: wire.TaskFeedback, Question: q.Query.Text,
		Step:     wire.Step{Question: in.Question, Round: m.round, Step: string(wire.TaskFeedback)},
		Passages: passagesOf(fitting(m.found.Candidates)), Versions: versionsOf(fitting(m.found.Candidates)), Answer: m.reply.Text, Confidence: confidence(m.reply)}
	request.Deadline, _ = ctx.Deadline()
	reply, err := a.generator.Complete(ctx, request)
	if err == nil && reply.Feedback == nil {
		err = errors.New("the reply has no score")
	}
	if err != nil {
		return Verdict{Why: "not judged: " + schema.ToRemote(err).Message}
	}
	v := Verdict{Score: reply.Feedback.Score, Adjust: reply.Feedback.Adjust, Usage: reply.Usage}
	v.Why = fmt.Sprintf("the answer is worth %d of 10, by %s", v.Score, reply.Usage.Provider)
	switch {
	case v.Score >= f.Least:
		v.Why += fmt.Sprintf("; %d is enough", f.Least)
	case m.round >= f.Rounds:
		v.Why += fmt.Sprintf("; less than %d, but this is the last of %d rounds", f.Least, f.Rounds)
	case request.Confidence != nil && reply.Usage.Provider == noModelProvider:
		v.Why += fmt.Sprintf("; less than %d, but only another model's judgement begins another round", f.Least)
	default:
		v.Again = true
	}
	return v
}

// confidence returns how sure the extractive provider is of its own answer; 0 if it refused to
// answer. It returns nil for language models, which report no confidence.
func confidence(reply wire.LLMReply) *float64 {
	if reply.Usage.Provider != noModelProvider {
		return nil
	}
	sure := 0.0
	for _, q := range reply.Quotes {
		sure = max(sure, q.Answer.Confidence)
	}
	if sure == 0 && reply.Supported {
		return nil
	}
	return &sure
}

// again selects for another round. It ends the loop if an earlier round had the same selection,
// because the same passages give the same answer.
func (a *Answerer) again(ctx context.Context, in wire.QuestionInput, q Question, rounds []answerRound, v Verdict) (Verdict, Retrieval) {
	last := rounds[len(rounds)-1]
	minK := max(1, last.found.MinK+v.Adjust)
	q.Query.Question = in.Question
	next, err := a.retriever.Select(ctx, q.Query, rounds[0].found.Pool, minK)
	next.MinK = minK
	same := slices.IndexFunc(rounds, func(m answerRound) bool { return m.found.selects(next) })
	switch {
	case err != nil:
		v.Again, v.Why = false, fmt.Sprintf("%s; nothing is selected again: %s", v.Why, schema.ToRemote(err).Message)
	case len(next.Candidates) == 0:
		v.Again, v.Why = false, v.Why+"; nothing is left to select from"
	case same >= 0:
		v.Again, v.Why = false, fmt.Sprintf("%s; min_k %d selects what round %d had", v.Why, minK, same+1)
	default:
		v.Why += fmt.Sprintf("; min_k becomes %d", minK)
	}
	return v, next
}

// selects reports whether another retrieval selects the same text in the same order.
func (r Retrieval) selects(other Retrieval) bool {
	return slices.EqualFunc(fitting(r.Candidates), fitting(other.Candidates), func(a, b schema.Candidate) bool { return slices.Equal(a.Spans, b.Spans) })
}

// best returns the round whose answer was judged best; among equals one that the documents support,
// then the first.
func best(rounds []answerRound) answerRound {
	out := rounds[0]
	score := func(m answerRound) int {
		n := 0
		if m.found.Verdict != nil {
			n = 2 * m.found.Verdict.Score
		}
		if m.reply.Supported {
			n++
		}
		return n
	}
	for _, m := range rounds[1:] {
		if score(m) > score(out) {
			out = m
		}
	}
	return out
}

// spent returns the usage of all model calls for the question: by the plan's stages, in all rounds,
// and by the check of the answer. The provider is that of the kept answer. If a paid language model
// was used, the usage of Sluice's own models is left out, because it costs nothing. Otherwise that
// is the only usage, and the cost is nominal.
func (a *Answerer) spent(ctx context.Context, in wire.QuestionInput, kept answerRound) (schema.Usage, error) {
	out, err := a.store.Spent(ctx, in)
	if err != nil {
		return schema.Usage{}, err
	}
	if paid := out.Paid(); paid.InputTokens > 0 || paid.OutputTokens > 0 {
		out = paid
	}
	out.Provider, out.Model = kept.reply.Usage.Provider, kept.reply.Usage.Model
	return out, nil
}
