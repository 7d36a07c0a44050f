package batch

// This file records metrics of the queue, and gives each batch a span that links to its callers'
// traces.

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

const scope = "github.com/sluice-rag/sluice/internal/inference"

type metrics struct {
	graph    attribute.KeyValue
	byGraph  metric.MeasurementOption
	byLane   [len(lanes)]metric.MeasurementOption
	real     metric.MeasurementOption
	padded   metric.MeasurementOption
	waits    metric.Float64Histogram
	depths   metric.Int64UpDownCounter
	items    metric.Int64Histogram
	padding  metric.Float64Histogram
	tokens   metric.Int64Counter
	duration metric.Float64Histogram
}

func newMetrics(graph string) metrics {
	meter := otel.Meter(scope)
	m := metrics{graph: attribute.String("graph", graph)}
	m.byGraph = metric.WithAttributeSet(attribute.NewSet(m.graph))
	for i, lane := range lanes {
		m.byLane[i] = metric.WithAttributeSet(attribute.NewSet(m.graph, attribute.String("lane", string(lane))))
	}
	m.real = metric.WithAttributeSet(attribute.NewSet(m.graph, attribute.String("kind", "text")))
	m.padded = metric.WithAttributeSet(attribute.NewSet(m.graph, attribute.String("kind", "padding")))
	// An instrument that can't be created is a no-op. Names and units here are constants, so that
	// can't happen.
	m.waits, _ = meter.Float64Histogram("sluice.model.queue.wait", metric.WithUnit("s"),
		metric.WithDescription("Time that an item waits for its batch."),
		metric.WithExplicitBucketBoundaries(0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30))
	m.depths, _ = meter.Int64UpDownCounter("sluice.model.queue.depth", metric.WithUnit("{item}"),
		metric.WithDescription("Items that wait for a batch."))
	m.items, _ = meter.Int64Histogram("sluice.model.batch.size", metric.WithUnit("{item}"),
		metric.WithDescription("Items in a batch."),
		metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128, 256, 512))
	m.padding, _ = meter.Float64Histogram("sluice.model.batch.padding", metric.WithUnit("1"),
		metric.WithDescription("Share of a batch's tokens that is padding."),
		metric.WithExplicitBucketBoundaries(0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5))
	m.tokens, _ = meter.Int64Counter("sluice.model.tokens", metric.WithUnit("{token}"),
		metric.WithDescription("Tokens that graphs processed, of text and of padding."))
	m.duration, _ = meter.Float64Histogram("sluice.model.run.duration", metric.WithUnit("s"),
		metric.WithDescription("Time that a graph runs on a batch."),
		metric.WithExplicitBucketBoundaries(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5))
	return m
}

func (m *metrics) depth(lane, change int) {
	m.depths.Add(context.Background(), int64(change), m.byLane[lane])
}

func (m *metrics) waited(lane int, d time.Duration) {
	m.waits.Record(context.Background(), d.Seconds(), m.byLane[lane])
}

// begin starts a batch's span. finish ends it and records the batch.
func (m *metrics) begin(ctx context.Context, links []trace.Link, count, sum, longest int) (_ context.Context, finish func(error)) {
	cells := count * longest
	share := 0.0
	if cells > 0 {
		share = float64(cells-sum) / float64(cells)
	}
	ctx, span := otel.Tracer(scope).Start(ctx, "model.batch", trace.WithNewRoot(), trace.WithLinks(links...),
		trace.WithAttributes(m.graph, attribute.Int("items", count), attribute.Int("tokens", sum), attribute.Float64("padding", share)))
	started := time.Now()
	return ctx, func(err error) {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
		m.duration.Record(ctx, time.Since(started).Seconds(), m.byGraph)
		m.items.Record(ctx, int64(count), m.byGraph)
		m.padding.Record(ctx, share, m.byGraph)
		m.tokens.Add(ctx, int64(sum), m.real)
		m.tokens.Add(ctx, int64(cells-sum), m.padded)
	}
}
