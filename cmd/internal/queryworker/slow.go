package queryworker

// This file keeps which searches and questions took long. It is for people to look at: where there is no time for it, one
// more is not kept.

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/retrieval/run"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// keepSlowWithin is how long a search that took long may take longer to be kept as one.
	keepSlowWithin = 500 * time.Millisecond
	// forgetSlowEvery is how often those that are too old are forgotten.
	forgetSlowEvery = time.Hour
)

// keepSlowSearch keeps a search that took long. When the store is slow, too, so that two are being kept, it is not.
func (w *worker) keepSlowSearch(ctx context.Context, q wire.SearchQuery, found run.Result, took time.Duration, failure error) {
	if least := w.settings.SlowSearch; least <= 0 || took < least {
		return
	}
	slow := questions.SlowSearch{Query: q, Plan: found.Plan, Took: took, Stages: found.Trace}
	if failure != nil {
		slow.Code = string(remote(failure).Code)
	}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		slow.Trace = span.TraceID().String()
	}
	w.keepSlow(ctx, func(ctx context.Context) error { return w.questions.KeepSlowSearch(ctx, slow) })
}

// keepSlowQuestion keeps a question that has ended if it took long.
func (w *worker) keepSlowQuestion(ctx context.Context, q wire.QuestionInput) {
	if w.settings.SlowQuestion <= 0 {
		return
	}
	w.keepSlow(ctx, func(ctx context.Context) error {
		return w.questions.KeepSlowQuestion(ctx, q.Tenant, q.Question, w.settings.SlowQuestion)
	})
}

func (w *worker) keepSlow(ctx context.Context, keep func(context.Context) error) {
	select {
	case w.keeping <- struct{}{}:
		defer func() { <-w.keeping }()
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
func (w *worker) forgetSlow() lifecycle.Service {
	return lifecycle.NewLoop("slow queries", nil, func(fetch, _ context.Context) error {
		tick := time.NewTicker(forgetSlowEvery)
		defer tick.Stop()
		for {
			if err := w.questions.DropSlowQueries(fetch); err != nil && fetch.Err() == nil {
				slog.WarnContext(fetch, "could not forget old slow queries; trying again", "error", err)
			}
			select {
			case <-fetch.Done():
				return fetch.Err()
			case <-tick.C:
			}
		}
	})
}
