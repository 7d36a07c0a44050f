package queryworker

// Metrics of the lexical index's cache.

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/lifecycle"
)

const scope = "github.com/sluice-rag/sluice/cmd/internal/queryworker"

// lexicalMeters exports the metrics of an index's cache while it runs.
func lexicalMeters(x *search.Index) lifecycle.Service {
	var shown metric.Registration
	return lifecycle.NewResource("lexical index metrics", func(context.Context) (err error) {
		if shown, err = registerLexical(otel.Meter(scope), x); err != nil {
			return fmt.Errorf("make metrics of the lexical index: %w", err)
		}
		return nil
	}, func(context.Context) error { return shown.Unregister() })
}

func registerLexical(meter metric.Meter, x *search.Index) (metric.Registration, error) {
	hits, err := meter.Int64ObservableCounter("sluice.lexical.cache.hits", metric.WithUnit("{part}"),
		metric.WithDescription("Parts of lexical indexes (pages, directories and collection-wide data) that searches found in the cache."))
	if err != nil {
		return nil, err
	}
	misses, err := meter.Int64ObservableCounter("sluice.lexical.cache.misses", metric.WithUnit("{part}"),
		metric.WithDescription("Parts of lexical indexes that searches did not find in the cache."))
	if err != nil {
		return nil, err
	}
	evictions, err := meter.Int64ObservableCounter("sluice.lexical.cache.evictions", metric.WithUnit("{part}"),
		metric.WithDescription("Parts of lexical indexes evicted from the cache to make room for others."))
	if err != nil {
		return nil, err
	}
	bytes, err := meter.Int64ObservableUpDownCounter("sluice.lexical.cache.bytes", metric.WithUnit("By"),
		metric.WithDescription("Bytes in the cache of lexical indexes."))
	if err != nil {
		return nil, err
	}
	limit, err := meter.Int64ObservableUpDownCounter("sluice.lexical.cache.limit", metric.WithUnit("By"),
		metric.WithDescription("Maximum number of bytes in the cache of lexical indexes."))
	if err != nil {
		return nil, err
	}
	filterHits, err := meter.Int64ObservableCounter("sluice.lexical.filter.hits", metric.WithUnit("{condition}"),
		metric.WithDescription("Filter conditions whose entries searches found in the cache."))
	if err != nil {
		return nil, err
	}
	filterMisses, err := meter.Int64ObservableCounter("sluice.lexical.filter.misses", metric.WithUnit("{condition}"),
		metric.WithDescription("Filter conditions that searches asked Postgres about, for all entries or only for newer ones."))
	if err != nil {
		return nil, err
	}
	filterBytes, err := meter.Int64ObservableUpDownCounter("sluice.lexical.filter.bytes", metric.WithUnit("By"),
		metric.WithDescription("Bytes that filter conditions take in the cache of lexical indexes."))
	if err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := x.Stats()
		o.ObserveInt64(hits, s.Hits)
		o.ObserveInt64(misses, s.Misses)
		o.ObserveInt64(evictions, s.Evictions)
		o.ObserveInt64(bytes, s.Bytes)
		o.ObserveInt64(limit, s.Limit)
		o.ObserveInt64(filterHits, s.Filters.Hits)
		o.ObserveInt64(filterMisses, s.Filters.Misses)
		o.ObserveInt64(filterBytes, s.Filters.Bytes)
		return nil
	}, hits, misses, evictions, bytes, limit, filterHits, filterMisses, filterBytes)
}
