package parse

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// poolMeters are the metrics of a pool: how busy it is and why children ended.
type poolMeters struct {
	busy, waiting metric.Int64UpDownCounter
	killed        metric.Int64Counter
}

// newPoolMeters creates the instruments. It ignores their errors, since only an invalid name causes
// one.
func newPoolMeters() (m poolMeters) {
	meter := otel.Meter("github.com/sluice-rag/sluice/internal/parse")
	m.busy, _ = meter.Int64UpDownCounter("sluice.parse.busy", metric.WithUnit("{file}"),
		metric.WithDescription("Files that are being parsed."))
	m.waiting, _ = meter.Int64UpDownCounter("sluice.parse.waiting", metric.WithUnit("{file}"),
		metric.WithDescription("Files that wait for a parser."))
	m.killed, _ = meter.Int64Counter("sluice.parse.killed", metric.WithUnit("{process}"),
		metric.WithDescription("Parsers that were killed or crashed on a file, by cause: memory, time, cancelled or crash."))
	return m
}

func (m poolMeters) kill(ctx context.Context, cause string) {
	m.killed.Add(ctx, 1, metric.WithAttributes(attribute.String("cause", cause)))
}
