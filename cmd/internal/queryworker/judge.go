package queryworker

// The service that judges answers: it asks the language model whether an answer is correct, given
// reference answers.

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/question"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func (w *worker) judge(ctx context.Context, slot bus.Slot, r wire.JudgeRequest) wire.JudgeReply {
	ctx, cancel := withDeadline(ctx, r.Deadline, askTimeout)
	defer cancel()
	out, err := judgeAnswer(ctx, gateway{w.deps.NATS, w.deps.Signer, requestState{slot: slot}}, r)
	if err != nil {
		slog.WarnContext(ctx, "an answer was not judged", "tenant", r.Principal.Tenant, "error", err)
		return judgeFailure(question.Remote(err))
	}
	return wire.JudgeReply{Envelope: wire.Header(), Judgement: out}
}

// judgeAnswer asks which model judges, which costs nothing, and then asks that model.
func judgeAnswer(ctx context.Context, g gateway, r wire.JudgeRequest) (schema.Judgement, error) {
	model, err := g.Complete(ctx, wire.LLMRequest{Envelope: wire.Header(), Tenant: r.Principal.Tenant, Task: wire.TaskWho})
	if err != nil {
		return schema.Judgement{}, fmt.Errorf("ask which language model judges: %w", err)
	}
	if model.Usage.Model == "" { // the provider is Sluice's own, without a language model
		return schema.Judgement{}, schema.Invalid("provider", "the provider %s has no language model to judge an answer: set one up (SLUICE_LLM_BASE_URL or a key)", model.Usage.Provider)
	}
	out := schema.Judgement{Model: model.Usage.By()}
	if r.DryRun {
		return out, nil
	}
	deadline, _ := ctx.Deadline()
	reply, err := g.Complete(ctx, wire.LLMRequest{Envelope: wire.Header(), Tenant: r.Principal.Tenant, Step: wire.Step{Step: "judge"}, Task: wire.TaskCorrectness,
		Question: r.Question, References: r.References, Answer: r.Answer, Deadline: deadline})
	if err != nil {
		return out, fmt.Errorf("judge an answer: %w", err)
	}
	out.Correct, out.Usage = reply.Correct, reply.Usage
	return out, nil
}

func judgeFailure(e *schema.RemoteError) wire.JudgeReply {
	return wire.JudgeReply{Envelope: wire.Header(), Error: e}
}
