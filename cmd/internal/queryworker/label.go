package queryworker

// The service that labels questions: it asks the language model what it knows without texts, and
// with which texts it answers correctly.

import (
	"context"
	"log/slog"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/internal/question"
	"github.com/sluice-rag/sluice/internal/question/learn"
	"github.com/sluice-rag/sluice/internal/retrieval/run"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// labelPlan retrieves the texts to label: the candidates of the plan fitrag before its first model
// stage.
const labelPlan = `name: label
stages:
  - hybrid: {unit: passage, k: 100, depth: 100, method: weighted, normalise: max, of: [{lexical: {unit: passage, weight: 1}}, {dense: {unit: passage, weight: 0.5}}]}
`

// finder implements learn.Finder.
type finder struct{ *run.Engine }

func (f finder) Find(ctx context.Context, p schema.Principal, collection uuid.UUID, text string, k int) ([]schema.Candidate, error) {
	found, err := f.Run(ctx, wire.SearchQuery{Principal: p, Query: schema.Query{Collection: collection, Text: text, PlanText: labelPlan, K: k}})
	return found.Candidates[:min(k, len(found.Candidates))], err
}

func (w *worker) label(ctx context.Context, slot bus.Slot, r wire.LabelRequest) wire.LabelReply {
	ctx, cancel := context.WithTimeout(ctx, question.MaxTime)
	defer cancel()
	ctx, cancelLabel := withDeadline(ctx, r.Deadline, askTimeout)
	defer cancelLabel()
	teacher := learn.Teacher{Store: w.learning, Asker: gateway{w.deps.NATS, w.deps.Signer, requestState{slot: slot}}, Finder: finder{w.engineFor(r.Principal.Tenant, requestState{slot: slot})},
		Models: w.models.For(r.Principal.Tenant, slot.Yields), Answers: func(a []string) learn.Answers { return evaluate.NewAnswers(a) }}
	out, err := teacher.Label(ctx, r.Principal, r.Collection, schema.Labelling{LabelledQuestion: schema.LabelledQuestion{Question: r.Question, Answers: r.Answers},
		Texts: r.Texts, Calls: r.Calls, Cost: r.Cost})
	reply := wire.LabelReply{Envelope: wire.Header(), Labelled: out}
	if err != nil {
		slog.WarnContext(ctx, "a question was not labelled", "tenant", r.Principal.Tenant, "collection", r.Collection, "error", err)
		reply.Error = question.Remote(err)
	}
	return reply
}

func labelFailure(e *schema.RemoteError) wire.LabelReply {
	return wire.LabelReply{Envelope: wire.Header(), Error: e}
}
