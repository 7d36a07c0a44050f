package store

// This file exports metrics of the replica.

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-rag/sluice/internal/lifecycle"
)

var replicaMeter = otel.Meter("github.com/sluice-rag/sluice/internal/store")

// meters returns the service that exports how far the replica lags behind.
func (r *Replica) meters() lifecycle.Service {
	var shown metric.Registration
	return lifecycle.NewResource("metrics of the replica", func(context.Context) (err error) {
		if shown, err = r.show(); err != nil {
			return fmt.Errorf("make metrics of the replica: %w", err)
		}
		return nil
	}, func(context.Context) error { return shown.Unregister() })
}

func (r *Replica) show() (metric.Registration, error) {
	lag, err := replicaMeter.Float64ObservableGauge("sluice.database.replica.lag", metric.WithUnit("s"),
		metric.WithDescription("How far the replica is behind the database, as far as it is known."))
	if err != nil {
		return nil, err
	}
	used, err := replicaMeter.Int64ObservableGauge("sluice.database.replica.used", metric.WithUnit("1"),
		metric.WithDescription("1 while searches read from the replica."))
	if err != nil {
		return nil, err
	}
	return replicaMeter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		is := int64(0)
		if r.term != nil {
			is = 1
		}
		o.ObserveInt64(used, is)
		if r.lag >= 0 {
			o.ObserveFloat64(lag, r.lag.Seconds())
		}
		return nil
	}, lag, used)
}

func (r *Replica) count(ctx context.Context, by string) {
	r.reads.Add(ctx, 1, metric.WithAttributes(attribute.String("by", by)))
}
