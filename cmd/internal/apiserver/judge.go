package apiserver

import (
	"context"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// judgeAPI implements httpapi.Judge: the query workers ask the language model.
type judgeAPI struct{ questionAPI }

// JudgeAnswer implements httpapi.Judge.
func (a judgeAPI) JudgeAnswer(ctx context.Context, p schema.Principal, answer schema.AnswerToJudge, dryRun bool) (schema.Judgement, error) {
	if err := answer.Check(); err != nil {
		return schema.Judgement{}, err
	}
	ctx, cancel := a.waitContext(ctx)
	defer cancel()
	reply, err := bus.Request[wire.JudgeReply](ctx, a.nats, wire.JudgeSubject, wire.JudgeRequest{Envelope: wire.Header(), Principal: p, AnswerToJudge: answer,
		DryRun: dryRun, Deadline: deadline(ctx)}, bus.SignedBy(a.signer))
	if err != nil {
		return schema.Judgement{}, clientError(ctx, err)
	}
	if reply.Error != nil {
		return schema.Judgement{}, reply.Error
	}
	return reply.Judgement, nil
}
