package question

// This file keeps which searches and questions took long. It is for people to look at: where there
// is no time for it, one more is not kept.

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// keepSlowWithin is how long a search that took long may take longer to be kept as one.
	keepSlowWithin = 500 * time.Millisecond
	// forgetSlowEvery is how often those that are too old are forgotten.
	forgetSlowEvery = time.Hour
)

// Slow keeps what took long.
type Slow struct {
	store            Store
	search, question time.Duration // from which on a search or a question is kept; 0: none is
	keeping          chan struct{} // a place for each that is being kept
}

// NewSlow makes a Slow that keeps searches and questions from these times on; 0: none.
func NewSlow(store Store, search, question time.Duration) *Slow {
	return &Slow{store: store, search: search, question: question, keeping: make(chan struct{}, 2)}
}

// KeepSearch keeps a search that took long. When the store is slow, too, so that two are being
// kept, it is not.
func (s *Slow) KeepSearch(ctx context.Context, q wire.SearchQuery, found schema.SearchResult, took time.Duration, failure error) {
	if s.search <= 0 || took < s.search {
		return
	}
	slow := answer.SlowSearch{Query: q, Plan: found.Plan, Took: took, Stages: found.Trace}
	if failure != nil {
		slow.Code = string(Remote(failure).Code)
	}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		slow.Trace = span.TraceID().String()
	}
	s.keep(ctx, func(ctx context.Context) error { return s.store.KeepSlowSearch(ctx, slow) })
}

// KeepQuestion keeps a question that has ended if it took long.
func (s *Slow) KeepQuestion(ctx context.Context, q wire.QuestionInput) {
	if s.question <= 0 {
		return
	}
	s.keep(ctx, func(ctx context.Context) error {
		return s.store.KeepSlowQuestion(ctx, q.Tenant, q.Question, s.question)
	})
}

func (s *Slow) keep(ctx context.Context, keep func(context.Context) error) {
	select {
	case s.keeping <- struct{}{}:
		defer func() { <-s.keeping }()
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepSlowWithin)
	defer cancel()
	if err := keep(ctx); err != nil {
		slog.WarnContext(ctx, "could not keep what was slow", "error", err)
	}
}

// forgetSlow forgets those that are too old.
func (j *Jobs) forgetSlow() lifecycle.Service {
	return lifecycle.NewLeaderLoop(lifecycle.LeaderLoop{Name: "slow queries", Elector: j.Elector, Every: forgetSlowEvery,
		Round: func(fetch, _ context.Context) error { return j.Store.DropSlowQueries(fetch) }})
}
