package stage

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

type rewrite struct{ passage bool }

var rewriteKind = Kind{
	Name:       "rewrite",
	Parameters: "`as` (question, or passage)",
	Does:       "first: a language model words the question anew, for the stages that follow (ChunkRAG); or writes a passage that would answer it, whose vector counts as much as the question's (HyDE)",
	read:       readRewrite,
}

// readRewrite reads the stage "rewrite":
//
//	rewrite: {as: question}
//
// A language model rewrites the question for the stages that follow. The answer is still to the
// original question (ChunkRAG, section 3.2 and prompt A.1). The stage must be the first. If no
// model can rewrite the question, it stays as it is, and the report says why.
//
// With as: passage the model writes a passage that would answer the question. Stages that compare
// vectors use the mean of its vector and the question's, scaled to unit length; BM25 uses the
// question's words (HyDE, Gao et al. 2023, eq. 8, with one passage).
func readRewrite(p *Parameters) Stage {
	s := rewrite{passage: p.Choice("as", "question", "passage") == "passage"}
	return Stage{Fit: s.fit, Cost: Cost{Calls: 1}, run: s.run}
}

func (rewrite) fit(in schema.Unit) (schema.Unit, error) {
	if in != "" {
		return "", schema.Invalid("", "must be first: what comes before it has searched already")
	}
	return "", nil
}

func (s rewrite) run(ctx context.Context, t *Task, in Candidates) (outcome, error) {
	request := wire.LLMRequest{Task: wire.TaskRewrite}
	if s.passage {
		request.Prompt = "passage"
	}
	reply, err := t.complete(ctx, request, 0)
	switch {
	case ctx.Err() != nil:
		return outcome{}, fmt.Errorf("rewrite the question: %w", ctx.Err())
	case err != nil:
		return outcome{unit: in.unit, why: "the question stays as it is: " + err.Error()}, nil
	case reply.Text == t.query.Text:
		return outcome{unit: in.unit, why: "the question stays as it is" + by(reply.Usage.Model)}, nil
	}
	if s.passage {
		t.hypothetical, t.encoded = reply.Text, false
		return outcome{unit: in.unit, why: fmt.Sprintf("vectors are compared with that of %q, too%s", reply.Text, by(reply.Usage.Model))}, nil
	}
	t.query.Text = reply.Text
	t.analysed, t.index, t.statistics = false, nil, nil // these were of the question before it was rewritten, set by spell
	return outcome{unit: in.unit, why: fmt.Sprintf("%q%s", reply.Text, by(reply.Usage.Model))}, nil
}

// complete asks a language model for a task of this stage. If the query has a question id, the
// reply is stored under that id, the stage and the item.
func (t *Task) complete(ctx context.Context, r wire.LLMRequest, item int) (wire.LLMReply, error) {
	if t.Judges == nil {
		return wire.LLMReply{}, &schema.RemoteError{Code: schema.CodeUnavailable, Message: "no language model is configured"}
	}
	r.Envelope, r.Tenant, r.Question = wire.Header(), t.query.Principal.Tenant, t.query.Text
	r.Step = wire.Step{Question: t.query.Question, Round: 1, Step: fmt.Sprintf("stage %d %s", t.stage, r.Task), Item: item}
	r.Deadline, _ = ctx.Deadline()
	return t.Judges.Complete(ctx, r)
}
