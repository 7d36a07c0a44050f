package bus

// Metrics of services: how many requests there are, how long they take, and how many run at once.

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// meters are the instruments of one service. All services share their names; the attribute subject
// distinguishes them.
type meters struct {
	duration, waited  metric.Float64Histogram
	refused           metric.Int64Counter
	inFlight, waiting metric.Int64UpDownCounter
	of                metric.MeasurementOption // the subject
}

// newMeters returns the instruments for a subject. It ignores errors, which only invalid names
// would cause.
func newMeters(subject string) meters {
	meter := otel.Meter("github.com/sluice-rag/sluice/internal/bus")
	m := meters{of: metric.WithAttributeSet(attribute.NewSet(attribute.String("subject", subject)))}
	m.duration, _ = meter.Float64Histogram("sluice.service.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the start of a request, when it got a slot, to its reply."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60))
	m.waited, _ = meter.Float64Histogram("sluice.service.wait", metric.WithUnit("s"),
		metric.WithDescription("Time that a request waited for a slot."),
		metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60))
	m.refused, _ = meter.Int64Counter("sluice.service.overloaded", metric.WithUnit("{request}"),
		metric.WithDescription("Requests refused because too many of their tenant were running and waiting."))
	m.inFlight, _ = meter.Int64UpDownCounter("sluice.service.in_flight", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that are running."))
	m.waiting, _ = meter.Int64UpDownCounter("sluice.service.waiting", metric.WithUnit("{request}"),
		metric.WithDescription("Requests that wait for a slot."))
	return m
}

// begin counts a request that left the queue and runs until the function that
// it returns is called.
func (m meters) begin(ctx context.Context) (end func()) {
	start := time.Now()
	m.waiting.Add(ctx, -1, m.of)
	m.inFlight.Add(ctx, 1, m.of)
	return func() {
		m.inFlight.Add(ctx, -1, m.of)
		m.duration.Record(ctx, time.Since(start).Seconds(), m.of)
	}
}
