package apiserver

// Asking the query workers for an answer now, and hearing on the way how far
// they are.

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/httpapi"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Ask implements httpapi.Questions.
func (a questions) Ask(ctx context.Context, p schema.Principal, q httpapi.Question, tell func(httpapi.Progress)) (schema.Answer, error) {
	job, err := a.create(ctx, p, q, false)
	if err != nil {
		return schema.Answer{}, err
	}
	request := wire.AskRequest{Envelope: wire.Header(), Query: query(p, q), Question: job.ID, Deadline: deadline(ctx)}
	var reply wire.AskReply
	if tell == nil {
		reply, err = bus.Request[wire.AskReply](ctx, a.nats, wire.AskSubject, request)
	} else {
		reply, err = bus.RequestStream[wire.AskReply](ctx, a.nats, wire.AskSubject, func(stream string) any {
			request.Stream = stream
			return request
		}, func(part string, data []byte) { told(ctx, part, data, tell) })
	}
	switch {
	case err != nil:
		return schema.Answer{}, err
	case reply.Error != nil:
		return schema.Answer{}, reply.Error
	case reply.Answer == nil:
		return schema.Answer{}, fmt.Errorf("question %s: the reply has no answer", job.ID)
	}
	reply.Answer.ID = job.ID
	return *reply.Answer, nil
}

// told passes on what one message of a stream says. One that cannot be read,
// such as a newer build's, is left out: the answer does not depend on it.
func told(ctx context.Context, part string, data []byte, tell func(httpapi.Progress)) {
	var err error
	switch part {
	case wire.PartStage:
		var m wire.QuestionStage
		if m, err = wire.Decode[wire.QuestionStage](data); err == nil {
			tell(httpapi.Progress{Stage: &api.StageEvent{Stage: m.Stage, Round: m.Round, Candidates: m.Candidates}})
		}
	case wire.PartText:
		var m wire.LLMDelta
		if m, err = wire.Decode[wire.LLMDelta](data); err == nil {
			tell(httpapi.Progress{Delta: &api.DeltaEvent{Text: m.Text, Restart: m.Restart}})
		}
	}
	if err != nil {
		slog.DebugContext(ctx, "progress of an answer cannot be read", "part", part, "error", err)
	}
}
