package question

// Metrics of the queue of asynchronous questions, as the reconciler sees it.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-rag/sluice/schema/wire"
)

// queueMeters are the metrics of the questions that wait in JetStream.
type queueMeters struct {
	messages metric.Int64Gauge
	age      metric.Float64Gauge
}

func newQueueMeters() (m queueMeters, err error) {
	meter := otel.Meter(scope)
	m.messages, err = meter.Int64Gauge("sluice.questions.queue.messages", metric.WithUnit("{message}"),
		metric.WithDescription("Asynchronous questions that wait in JetStream, or that no worker has confirmed yet."))
	if err != nil {
		return m, fmt.Errorf("make question metrics: %w", err)
	}
	m.age, err = meter.Float64Gauge("sluice.questions.queue.age", metric.WithUnit("s"),
		metric.WithDescription("Age of the oldest asynchronous question that waits in JetStream or is not confirmed yet."))
	if err != nil {
		return m, fmt.Errorf("make question metrics: %w", err)
	}
	return m, nil
}

// record measures the queue. A stream that does not exist counts as empty.
func (m queueMeters) record(ctx context.Context, js jetstream.JetStream) error {
	stream, err := js.Stream(ctx, wire.StreamQuestions)
	if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("look into stream %s: %w", wire.StreamQuestions, err)
	}
	waiting, age := uint64(0), 0.0
	if err == nil {
		state := stream.CachedInfo().State
		if waiting = state.Msgs; waiting > 0 {
			age = max(time.Since(state.FirstTime).Seconds(), 0)
		}
	}
	m.messages.Record(ctx, int64(waiting))
	m.age.Record(ctx, age)
	return nil
}
