package queryworker

// This file tells of the steps of answering as they begin: to the stream of who
// waits for the answer, or to whoever follows a job (whose text is told in
// jobtext.go). Nothing depends on it, and what is lost on the way stays lost.

import (
	"context"
	"log/slog"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/answer"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// stream is where one question's progress goes while its asker waits. Its steps
// run one after another.
type stream struct {
	subject    string
	round      int
	candidates int
	generated  bool // an answer has been asked for
}

type streamKey struct{}

// withStream has the progress of a question told on a stream; an empty one is
// none.
func withStream(ctx context.Context, subject string) (context.Context, error) {
	if subject == "" {
		return ctx, nil
	}
	if !wire.IsInbox(subject) {
		return nil, schema.Invalid("stream", "%.100q is no inbox", subject)
	}
	return context.WithValue(ctx, streamKey{}, &stream{subject: subject}), nil
}

func streamOf(ctx context.Context) *stream {
	s, _ := ctx.Value(streamKey{}).(*stream)
	return s
}

// teller is the store that answering uses, and tells of its steps.
type teller struct {
	answer.Store
	nc *nats.Conn
}

// Begin implements answer.Store.
func (t teller) Begin(ctx context.Context, in wire.QuestionInput) (answer.Question, error) {
	q, err := t.Store.Begin(ctx, in)
	if err == nil {
		t.tell(ctx, in, answer.StepUnderstand)
	}
	return q, err
}

// SetStage implements answer.Store.
func (t teller) SetStage(ctx context.Context, in wire.QuestionInput, stage string) error {
	err := t.Store.SetStage(ctx, in, stage)
	if err == nil {
		t.tell(ctx, in, stage)
	}
	return err
}

// SaveRetrieval implements answer.Store.
func (t teller) SaveRetrieval(ctx context.Context, in wire.QuestionInput, round int, r answer.Retrieval) (answer.Retrieval, error) {
	kept, err := t.Store.SaveRetrieval(ctx, in, round, r)
	if s := streamOf(ctx); s != nil && err == nil {
		s.round, s.candidates = round, len(kept.Candidates)
	}
	return kept, err
}

// Retrieval implements answer.Store.
func (t teller) Retrieval(ctx context.Context, in wire.QuestionInput, round int) (answer.Retrieval, error) {
	kept, err := t.Store.Retrieval(ctx, in, round)
	if s := streamOf(ctx); s != nil && err == nil {
		s.round, s.candidates = round, len(kept.Candidates)
	}
	return kept, err
}

func (t teller) tell(ctx context.Context, in wire.QuestionInput, stage string) {
	m := wire.QuestionStage{Envelope: wire.Header(), Question: in.Question, Stage: stage}
	subject := wire.StageSubject(in.Tenant, in.Question)
	if s := streamOf(ctx); s != nil {
		subject = wire.StreamSubject(s.subject, wire.PartStage)
		m.Round, m.Candidates = s.round, s.candidates
	}
	publish(t.nc, subject, m, in.Question)
}

func publish(nc *nats.Conn, subject string, m any, question uuid.UUID) {
	data, err := wire.Encode(m)
	if err == nil {
		err = nc.Publish(subject, data)
	}
	if err != nil {
		slog.Debug("cannot tell of a question's progress", "question", question, "error", err)
	}
}

// makesAnswer reports whether a call's reply is to be the answer to its question, from
// passages or without, so that its text is told while it is made.
func makesAnswer(r wire.LLMRequest) bool {
	return r.Task == wire.TaskAnswer || r.Task == wire.TaskBackground
}

// streamed has the gateway tell the text of an answer on the stream of ctx. An
// answer of a later round makes void what was told before.
func (g gateway) streamed(ctx context.Context, r *wire.LLMRequest) {
	s := streamOf(ctx)
	if s == nil || !makesAnswer(*r) {
		return
	}
	r.Stream = wire.StreamSubject(s.subject, wire.PartText)
	if s.generated {
		publish(g.nc, r.Stream, wire.LLMDelta{Envelope: wire.Header(), Restart: true}, r.Step.Question)
	}
	s.generated = true
}
