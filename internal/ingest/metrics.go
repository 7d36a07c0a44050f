package ingest

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics are ingestion's instruments. The stage histogram records the seconds of a whole batch and
// of its parts: within "parse" and "index", the attribute part separates the time of the model, the
// store and others, so that the share of each can be read off. Parts of several tenants may overlap
// in time.
type metrics struct {
	relayed, requeued, versions, bytes, rebuilt, reparsed metric.Int64Counter
	open                                                  metric.Int64UpDownCounter
	backlog, outbox                                       metric.Int64Gauge
	lag, outboxAge                                        metric.Float64Gauge
	stage, wait, rebuild                                  metric.Float64Histogram
}

var seconds = metric.WithExplicitBucketBoundaries(.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300)

var meters = newMetrics()

func newMetrics() metrics {
	meter := otel.Meter(scope)
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		must(err)
		return c
	}
	histogram := func(name, what string) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), seconds)
		must(err)
		return h
	}
	m := metrics{
		relayed:  counter("sluice.outbox.relayed", "{message}", "Outbox rows, by outcome: published, full or failed."),
		requeued: counter("sluice.ingest.requeued", "{version}", "Versions queued again by the reconciler, by cause."),
		versions: counter("sluice.ingest.versions", "{version}", "Versions that left a batch, by outcome."),
		bytes:    counter("sluice.ingest.bytes", "By", "Bytes that were parsed."),
		stage:    histogram("sluice.ingest.stage.duration", "Time of a stage of a batch, by stage and part."),
		rebuilt:  counter("sluice.rebuild.versions", "{version}", "Versions written to a generation that is being built."),
		reparsed: counter("sluice.reparse.documents", "{document}", "Documents that were parsed again, by outcome."),
		rebuild:  histogram("sluice.rebuild.step.duration", "Time of a step of a rebuild, by step."),
		wait:     histogram("sluice.ingest.batch.duration", "Time from the first message of a batch to its end."),
	}
	var err error
	m.open, err = meter.Int64UpDownCounter("sluice.ingest.batches.open", metric.WithUnit("{batch}"),
		metric.WithDescription("Batches that this worker holds open."))
	must(err)
	m.backlog, err = meter.Int64Gauge("sluice.ingest.queue.messages", metric.WithUnit("{message}"),
		metric.WithDescription("Messages that wait in JetStream for an ingest worker."))
	must(err)
	m.lag, err = meter.Float64Gauge("sluice.ingest.queue.age", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest unfinished version."))
	must(err)
	m.outbox, err = meter.Int64Gauge("sluice.outbox.messages", metric.WithUnit("{message}"),
		metric.WithDescription("Messages in the outbox, counted up to 100,000."))
	must(err)
	m.outboxAge, err = meter.Float64Gauge("sluice.outbox.age", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest message in the outbox."))
	must(err)
	return m
}

// must panics on an invalid instrument, which is a programming error.
func must(err error) {
	if err != nil {
		panic("ingest: " + err.Error())
	}
}

// timed returns a function that records the time since the call of timed as a part of a stage.
func timed(ctx context.Context, stage, part string) func() {
	begin := time.Now()
	return func() {
		meters.stage.Record(ctx, time.Since(begin).Seconds(),
			metric.WithAttributes(attribute.String("stage", stage), attribute.String("part", part)))
	}
}

func (m metrics) outcome(ctx context.Context, outcome string, n int) {
	if n > 0 {
		m.versions.Add(ctx, int64(n), metric.WithAttributes(attribute.String("outcome", outcome)))
	}
}
