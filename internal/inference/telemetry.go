package inference

// This file counts requests and gives each a span that continues its caller's trace. Package batch
// does the same for batches.

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/schema/wire"
)

const scope = "github.com/sluice-rag/sluice/internal/inference"

type requestMetrics struct {
	duration      metric.Float64Histogram
	tokenised     metric.Float64Histogram
	heldBytes     metric.Int64UpDownCounter
	heldSequences metric.Int64UpDownCounter
}

func newRequestMetrics() requestMetrics {
	meter := otel.Meter(scope)
	var m requestMetrics
	// An instrument that can't be created is a no-op. Names and units here are constants, so that
	// can't happen.
	m.duration, _ = meter.Float64Histogram("sluice.model.request.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from receiving a request to its reply, by operation, lane and outcome."),
		metric.WithExplicitBucketBoundaries(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30))
	m.tokenised, _ = meter.Float64Histogram("sluice.model.tokenise.duration", metric.WithUnit("s"),
		metric.WithDescription("Time to tokenise the texts of a request, by operation."),
		metric.WithExplicitBucketBoundaries(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1))
	m.heldBytes, _ = meter.Int64UpDownCounter("sluice.model.held.bytes", metric.WithUnit("By"),
		metric.WithDescription("Bytes of the requests that the server holds."))
	m.heldSequences, _ = meter.Int64UpDownCounter("sluice.model.held.sequences", metric.WithUnit("{sequence}"),
		metric.WithDescription("Texts and sentences of the requests that the server holds."))
	return m
}

func (m requestMetrics) bytes(change int) { m.heldBytes.Add(context.Background(), int64(change)) }
func (m requestMetrics) sequences(change int) {
	m.heldSequences.Add(context.Background(), int64(change))
}

// tokenising times the tokenisation of a request's texts. The caller calls finish at the end.
func (m requestMetrics) tokenising(op wire.ModelOp) (finish func()) {
	started := time.Now()
	return func() {
		m.tokenised.Record(context.Background(), time.Since(started).Seconds(), metric.WithAttributes(attribute.String("op", string(op))))
	}
}

// begin continues the trace in header. finish ends the span and counts the request under operation
// did, which may be known only after the request is read.
func (m requestMetrics) begin(ctx context.Context, op wire.ModelOp, lane wire.Lane, header nats.Header) (_ context.Context, finish func(did wire.ModelOp, err error)) {
	started := time.Now()
	if header == nil {
		header = nats.Header{}
	}
	ctx = otel.GetTextMapPropagator().Extract(ctx, propagation.HeaderCarrier(header))
	ofLane := attribute.String("lane", string(lane))
	ctx, span := otel.Tracer(scope).Start(ctx, "model."+string(op), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(ofLane))
	return ctx, func(did wire.ModelOp, err error) {
		doing := attribute.String("op", string(did))
		span.SetAttributes(doing)
		outcome := "ok"
		if err != nil {
			outcome = string(toRemote(err).Code)
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
		m.duration.Record(ctx, time.Since(started).Seconds(), metric.WithAttributes(doing, ofLane, attribute.String("outcome", outcome)))
	}
}
