package queryworker

// Retrieval for answering, by the engine of plans.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"time"

	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/internal/retrieval/run"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// retriever implements answer.Retriever.
type retriever struct {
	*worker
	request requestState
}

// Check implements answer.Retriever.
func (r retriever) Check(q wire.SearchQuery) (answer.PlanTraits, error) {
	plan, err := r.engine.Check(q)
	if err != nil {
		return answer.PlanTraits{}, err
	}
	out := answer.PlanTraits{Name: plan.Name, Prompt: plan.Prompt()}
	if plan.SkipsRetrieval() {
		out.Sampled = r.settings.ShadowShare // share of questions that are also asked without retrieval, to learn from
	}
	if f := plan.Feedback(); f != nil {
		out.Feedback = &answer.FeedbackRule{Least: f.Least, Rounds: f.Rounds}
	}
	return out, nil
}

// originTime is how long an answer waits for the name of the model pack.
const originTime = 2 * time.Second

// Origin implements answer.Retriever.
func (r retriever) Origin(ctx context.Context, q wire.SearchQuery) schema.Origin {
	var out schema.Origin
	if plan, err := r.engine.Plan(q); err == nil {
		sum := sha256.Sum256([]byte(plan.Text()))
		out.PlanSHA256 = hex.EncodeToString(sum[:])
	}
	ctx, cancel := context.WithTimeout(ctx, originTime)
	defer cancel()
	info, err := r.engine.Pack(ctx)
	if err != nil {
		slog.WarnContext(ctx, "cannot look up the model pack; the receipt of an answer will not name it", "tenant", q.Principal.Tenant, "error", err)
		return out
	}
	out.Pack, out.PackVersion, out.PackSHA256 = info.Pack, info.Version, info.SHA256
	return out
}

// Retrieve returns only the context, in its order: the answer is made from it and stored with it.
// The explanation is stored, too, but without the names of documents that are not in the context.
// An answer outlives its documents, so of those it only has ids and scores.
func (r retriever) Retrieve(ctx context.Context, q wire.SearchQuery) (answer.Retrieval, error) {
	q.Explain = true
	found, err := r.engineFor(q.Principal.Tenant, r.request).Run(ctx, q)
	if err != nil {
		return answer.Retrieval{}, err
	}
	out := retrieved(found)
	plan, err := r.engine.Plan(q)
	if f := plan.Feedback(); err == nil && f != nil {
		out.MinK, out.Pool = f.MinK, found.Pool
	}
	return out, err
}

// Select implements answer.Retriever.
func (r retriever) Select(ctx context.Context, q wire.SearchQuery, pool []byte, minK int) (answer.Retrieval, error) {
	q.Explain = true
	found, err := r.engineFor(q.Principal.Tenant, r.request).Select(ctx, q, pool, minK)
	if err != nil {
		return answer.Retrieval{}, err
	}
	return retrieved(found), nil
}

// retrieved converts a result for answering.
func retrieved(found run.Result) answer.Retrieval {
	out := answer.Retrieval{Trace: found.Trace, Skipped: found.Skipped}
	named := map[string]bool{}
	for _, i := range found.Context {
		c := found.Candidates[i]
		out.Candidates = append(out.Candidates, c)
		named[c.ExternalID] = true
	}
	for i := range out.Trace {
		for _, judged := range [][]schema.Judged{out.Trace[i].Kept, out.Trace[i].Dropped} {
			for j := range judged {
				if !named[judged[j].Document] {
					judged[j].Document, judged[j].Location = "", ""
				}
			}
		}
	}
	return out
}
