package queryworker

// Progress of answering. When a step begins, a message is sent to the stream of the client that
// waits for the answer, or to clients that follow the job, whose text is sent in jobtext.go.
// Delivery is best effort.

import (
	"context"
	"log/slog"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// stream is the progress stream of one question whose client waits. Its steps run one after
// another.
type stream struct {
	subject    string
	round      int
	candidates int
	generated  bool // an answer has been asked for
}

// newStream returns the stream with a NATS subject, nil for "".
func newStream(subject string) (*stream, error) {
	if subject == "" {
		return nil, nil
	}
	if !wire.IsInbox(subject) {
		return nil, schema.Invalid("stream", "%.100q is not a NATS inbox", subject)
	}
	return &stream{subject: subject}, nil
}

// progressStore is an answer.Store that publishes the steps.
type progressStore struct {
	answer.Store
	nc *nats.Conn
	to *stream // nil: publish to clients that follow the job
}

// Begin implements answer.Store.
func (p progressStore) Begin(ctx context.Context, in wire.QuestionInput) (answer.Question, error) {
	q, err := p.Store.Begin(ctx, in)
	if err == nil {
		p.publishStage(in, answer.StepUnderstand)
	}
	return q, err
}

// SetStage implements answer.Store.
func (p progressStore) SetStage(ctx context.Context, in wire.QuestionInput, stage string) error {
	err := p.Store.SetStage(ctx, in, stage)
	if err == nil {
		p.publishStage(in, stage)
	}
	return err
}

// SaveRetrieval implements answer.Store.
func (p progressStore) SaveRetrieval(ctx context.Context, in wire.QuestionInput, round int, r answer.Retrieval) (answer.Retrieval, error) {
	kept, err := p.Store.SaveRetrieval(ctx, in, round, r)
	if p.to != nil && err == nil {
		p.to.round, p.to.candidates = round, len(kept.Candidates)
	}
	return kept, err
}

// Retrieval implements answer.Store.
func (p progressStore) Retrieval(ctx context.Context, in wire.QuestionInput, round int) (answer.Retrieval, error) {
	kept, err := p.Store.Retrieval(ctx, in, round)
	if p.to != nil && err == nil {
		p.to.round, p.to.candidates = round, len(kept.Candidates)
	}
	return kept, err
}

func (p progressStore) publishStage(in wire.QuestionInput, stage string) {
	m := wire.QuestionStage{Envelope: wire.Header(), Question: in.Question, Stage: stage}
	subject := wire.StageSubject(in.Tenant, in.Question)
	if p.to != nil {
		subject = wire.StreamSubject(p.to.subject, wire.PartStage)
		m.Round, m.Candidates = p.to.round, p.to.candidates
	}
	publish(p.nc, subject, m, in.Question)
}

func publish(nc *nats.Conn, subject string, m any, question uuid.UUID) {
	data, err := wire.Encode(m)
	if err == nil {
		err = nc.Publish(subject, data)
	}
	if err != nil {
		slog.Debug("cannot publish a question's progress", "question", question, "error", err)
	}
}

// isAnswer reports whether the reply of a call is the answer to its question, from passages or
// without, so that its text is streamed.
func isAnswer(r wire.LLMRequest) bool {
	return r.Task == wire.TaskAnswer || r.Task == wire.TaskBackground
}

// streamTo makes the gateway send the text of an answer to the request's stream. The answer of a
// later round replaces the text sent before.
func (g gateway) streamTo(r *wire.LLMRequest) {
	s := g.to
	if s == nil || !isAnswer(*r) {
		return
	}
	r.Stream = wire.StreamSubject(s.subject, wire.PartText)
	if s.generated {
		publish(g.nc, r.Stream, wire.LLMDelta{Envelope: wire.Header(), Restart: true}, r.Step.Question)
	}
	s.generated = true
}
