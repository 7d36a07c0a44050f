// Package ingest takes versions from the outbox to ready: the relay publishes
// what is queued, the intake makes batches of it and starts their workflows, the
// activities do the stages, and the reconciler queues again what got lost on
// the way.
//
// Postgres alone knows what is to be done. NATS carries work to whoever is free
// and Temporal carries it through its stages; either may be wiped at any time.
// The fence is a version's attempt: it rises whenever the version is queued, and
// nothing is written for an older one.
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

// links makes span links of traceparents.
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

// transient reports whether err is the fault of the surroundings, not of a
// document or of this program, so that trying again is right however often.
func transient(err error) bool {
	for _, target := range []error{
		schema.ErrUnavailable, schema.ErrOverloaded, schema.ErrConflict, context.Canceled, context.DeadlineExceeded,
		schema.ErrProvider, // an encoder behind an API, or its settings, are to be mended for all documents
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
