// Package ingest takes versions from the outbox to ready: the relay publishes what is queued, the
// intake forms batches and starts their workflows, the activities do the stages, and the reconciler
// queues again what got lost on the way.
//
// Postgres is the only source of truth about what has to be done. NATS carries work to whichever
// worker is free, and Temporal carries it through its stages; either may be wiped at any time. A
// version's attempt is the fencing token: it rises whenever the version is queued, and nothing is
// written for an older attempt.
package ingest

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/schema"
)

const scope = "github.com/sluice-rag/sluice/internal/ingest"

var tracer = otel.Tracer(scope)

// links returns the span links of traceparents.
func links(traceparents []string) trace.SpanStartOption {
	var out []trace.Link
	for _, t := range traceparents {
		ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": t})
		if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
			out = append(out, trace.Link{SpanContext: sc})
		}
	}
	return trace.WithLinks(out...)
}

// transient reports whether err is a failure of the environment, not of a document or of this
// program. Such an error is retried without limit.
func transient(err error) bool {
	for _, target := range []error{
		schema.ErrUnavailable, schema.ErrOverloaded, schema.ErrConflict, context.Canceled, context.DeadlineExceeded,
		schema.ErrProvider, // of an encoder behind an API; it concerns all documents until the encoder or its settings are fixed
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
