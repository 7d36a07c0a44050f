package queryworker

// The synchronous services: search and ask.

import (
	"context"
	"log/slog"
	"time"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/question"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// askTimeout is the timeout of a question whose request has no deadline.
const askTimeout = 2 * time.Minute

func (w *worker) search(ctx context.Context, slot bus.Slot, r wire.SearchRequest) wire.SearchReply {
	w.searching.notify()
	defer w.searching.notify()
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, w.settings.QueryTimeout)
	defer cancel()
	ctx, cancelSearch := withDeadline(ctx, r.Deadline, w.settings.QueryTimeout)
	defer cancelSearch()
	found, err := w.engineFor(r.Principal.Tenant, requestState{slot: slot}).Run(ctx, r.SearchQuery)
	w.jobs.Slow.KeepSearch(ctx, r.SearchQuery, found.SearchResult, time.Since(began), err)
	if err != nil {
		slog.WarnContext(ctx, "a search failed", "tenant", r.Principal.Tenant, "collection", r.Collection, "error", err)
		return searchFailure(question.Remote(err))
	}
	reply := wire.SearchReply{Envelope: wire.Header(), SearchResult: found.SearchResult}
	if reply.Candidates == nil {
		reply.Candidates = []schema.Candidate{}
	}
	return reply
}

func searchFailure(e *schema.RemoteError) wire.SearchReply {
	return wire.SearchReply{Envelope: wire.Header(), Error: e, SearchResult: schema.SearchResult{Candidates: []schema.Candidate{}, Trace: []schema.StageReport{}}}
}

// ask answers a stored question. Its text, plan and asker are read from the store, as for
// asynchronous questions.
func (w *worker) ask(ctx context.Context, slot bus.Slot, r wire.AskRequest) wire.AskReply {
	w.searching.notify()
	defer w.searching.notify()
	ctx, cancel := context.WithTimeout(ctx, question.MaxTime)
	defer cancel()
	ctx, cancelAsk := withDeadline(ctx, r.Deadline, askTimeout)
	defer cancelAsk()
	to, err := newStream(r.Stream)
	if err != nil {
		return askFailure(question.Remote(err))
	}
	began, in := time.Now(), wire.QuestionInput{Tenant: r.Principal.Tenant, Question: r.Question, Attempt: 1}
	result, err := w.answerer(requestState{slot: slot, to: to}).Ask(ctx, in)
	if time.Since(began) >= w.settings.SlowQuestion {
		w.jobs.Slow.KeepQuestion(ctx, in)
	}
	if err != nil {
		slog.WarnContext(ctx, "a question failed", "tenant", r.Principal.Tenant, "collection", r.Collection, "question", r.Question, "error", err)
		return askFailure(question.Remote(err))
	}
	return wire.AskReply{Envelope: wire.Header(), Answer: &result}
}

func askFailure(e *schema.RemoteError) wire.AskReply {
	return wire.AskReply{Envelope: wire.Header(), Error: e}
}

// withDeadline returns ctx with a deadline, or with a timeout if there is no deadline.
func withDeadline(ctx context.Context, deadline time.Time, otherwise time.Duration) (context.Context, context.CancelFunc) {
	if deadline.IsZero() {
		return context.WithTimeout(ctx, otherwise)
	}
	return context.WithDeadline(ctx, deadline)
}
