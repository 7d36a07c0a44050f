package question

// This file stores slow searches and questions, for people to look at. When there is no time to
// store one, it is dropped.

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
	// keepSlowWithin is the longest time that storing a slow search may add to it.
	keepSlowWithin = 500 * time.Millisecond
	// forgetSlowEvery is the interval at which old ones are deleted.
	forgetSlowEvery = time.Hour
)

// Slow stores slow searches and questions.
type Slow struct {
	store            Store
	search, question time.Duration // durations from which a search or a question is stored; 0: none is
	keeping          chan struct{} // a semaphore for those that are being stored
}

// NewSlow returns a Slow that stores searches and questions that took at least these times; 0:
// none.
func NewSlow(store Store, search, question time.Duration) *Slow {
	return &Slow{store: store, search: search, question: question, keeping: make(chan struct{}, 2)}
}

// KeepSearch stores a search if it took long. It drops the search if the store is so slow that two
// others are still being stored.
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

// KeepQuestion stores a question that has ended, if it took long.
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
		slog.WarnContext(ctx, "could not record a slow query", "error", err)
	}
}

// forgetSlow deletes stored ones that are too old.
func (j *Jobs) forgetSlow() lifecycle.Service {
	return lifecycle.NewLeaderLoop(lifecycle.LeaderLoop{Name: "slow queries", Elector: j.Elector, Every: forgetSlowEvery,
		Round: func(fetch, _ context.Context) error { return j.Store.DropSlowQueries(fetch) }})
}
