package apiserver

// Synchronous questions: asking the query workers, and passing on their progress.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/httpapi"
	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Ask implements httpapi.Questions.
func (a questionAPI) Ask(ctx context.Context, p schema.Principal, q schema.Query, progress func(httpapi.Progress)) (schema.Answer, error) {
	job, note, err := a.create(ctx, p, q, false)
	if err != nil {
		return schema.Answer{}, err
	}
	if progress != nil {
		progress(httpapi.Progress{Question: job.ID})
	}
	ctx, cancel := a.waitContext(ctx)
	defer cancel()
	request := wire.AskRequest{Envelope: wire.Header(), SearchQuery: wire.SearchQuery{Principal: p, Query: q}, Question: job.ID, Deadline: deadline(ctx)}
	reply, err := bus.Route(a.workers, wire.AskSubject, q.Collection, func(at string) (wire.AskReply, error) {
		if progress == nil {
			return bus.Request[wire.AskReply](ctx, a.nats, at, request, bus.SignedBy(a.signer))
		}
		return bus.RequestStream[wire.AskReply](ctx, a.nats, at, func(stream string) any {
			request.Stream = stream
			return request
		}, func(part string, data []byte) { forwardProgress(ctx, part, data, progress) }, bus.SignedBy(a.signer))
	})
	switch {
	case err != nil:
		err = clientError(ctx, err)
	case reply.Error != nil:
		err = reply.Error
	case reply.Answer == nil:
		err = fmt.Errorf("question %s: the reply has no answer", job.ID)
	}
	if err != nil {
		a.failUnanswered(ctx, p, job.ID, err)
		return schema.Answer{}, err
	}
	reply.Answer.ID, reply.Answer.PlanNote, reply.Answer.Question = job.ID, note, q.Original()
	if q.Asked != "" {
		reply.Answer.Standalone = q.Text
	}
	// Labels may have changed while the answer was made.
	hidden, err := a.SourcesHidden(context.WithoutCancel(ctx), p, job.ID)
	if err != nil {
		return schema.Answer{}, err
	}
	if hidden {
		return reply.Answer.Withhold(), nil
	}
	return *reply.Answer, nil
}

// failUnanswered fails a question whose request has ended without an answer. Usually its worker has
// done so already, unless the worker died or never got the question.
func (a questionAPI) failUnanswered(ctx context.Context, p schema.Principal, question uuid.UUID, why error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	in := wire.QuestionInput{Tenant: p.Tenant, Question: question, Attempt: 1}
	if err := a.Fail(ctx, in, answer.ReasonOf(why)); err != nil && !errors.Is(err, schema.ErrLostLease) {
		slog.WarnContext(ctx, "cannot mark a question as failed; the query workers will do so", "tenant", p.Tenant, "question", question, "error", err)
	}
}

// errStopping is the error of questions that have no answer when the server stops.
var errStopping = fmt.Errorf("the server is stopping; ask again: %w", schema.ErrUnavailable)

// waitContext returns the context of a question that a client waits for. When the client
// disconnects or the server stops, the workers are notified.
func (a questionAPI) waitContext(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() bool { return true }
	if a.waiting != nil {
		stop = context.AfterFunc(a.waiting, func() { cancel(errStopping) })
	}
	ctx = bus.Cancels(ctx, func(cause error) bool { return errors.Is(cause, context.Canceled) || errors.Is(cause, errStopping) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// clientError returns the error that the client gets: errStopping if the server stops, else err.
func clientError(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errStopping) {
		return errStopping
	}
	return err
}

// forwardProgress passes on one message of a stream. A message that cannot be decoded, such as one
// of a newer build, is left out: the answer does not depend on it.
func forwardProgress(ctx context.Context, part string, data []byte, progress func(httpapi.Progress)) {
	var err error
	switch part {
	case wire.PartStage:
		var m wire.QuestionStage
		if m, err = wire.Decode[wire.QuestionStage](data); err == nil {
			progress(httpapi.Progress{Stage: &api.StageEvent{Stage: m.Stage, Round: m.Round, Candidates: m.Candidates}})
		}
	case wire.PartText:
		var m wire.LLMDelta
		if m, err = wire.Decode[wire.LLMDelta](data); err == nil {
			progress(httpapi.Progress{Delta: &api.DeltaEvent{Text: m.Text, Restart: m.Restart}})
		}
	}
	if err != nil {
		slog.DebugContext(ctx, "cannot decode the progress of an answer", "part", part, "error", err)
	}
}
