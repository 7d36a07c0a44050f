//go:build cgo

package queryworker

import (
	"context"
	"testing"

	"github.com/google/uuid"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/schema"
)

func TestLexicalCacheIsMeasured(t *testing.T) {
	w := newWorld(t)
	x := search.NewIndex(w.store, 1<<20)
	reader := sdk.NewManualReader()
	shown, err := registerLexical(sdk.NewMeterProvider(sdk.WithReader(reader)).Meter(scope), x)
	w.ok(err)
	for range 2 {
		_, err := x.SearchText(w.context(), w.principal.Tenant, w.collection, "anything", lexical.TermQuery{Unit: schema.UnitPassage, K: 1, Settings: lexical.Defaults,
			Filter: schema.Filter{{Key: "year", Op: schema.OpEq, Values: []string{"2024"}}}})
		w.ok(err)
	}
	if _, err := x.Search(w.context(), w.principal.Tenant, uuid.New(), lexical.TermQuery{}); err == nil {
		t.Error("a search of no collection succeeded")
	}
	read := func() map[string]int64 {
		var data metricdata.ResourceMetrics
		w.ok(reader.Collect(context.Background(), &data))
		out := map[string]int64{}
		for _, s := range data.ScopeMetrics {
			for _, m := range s.Metrics {
				out[m.Name] = m.Data.(metricdata.Sum[int64]).DataPoints[0].Value
			}
		}
		return out
	}
	got := read()
	s := x.Stats()
	for name, want := range map[string]int64{
		"sluice.lexical.cache.hits": s.Hits, "sluice.lexical.cache.misses": s.Misses, "sluice.lexical.cache.evictions": s.Evictions,
		"sluice.lexical.cache.bytes": s.Bytes, "sluice.lexical.cache.limit": 1 << 20,
		"sluice.lexical.filter.hits": s.Filters.Hits, "sluice.lexical.filter.misses": s.Filters.Misses, "sluice.lexical.filter.bytes": s.Filters.Bytes,
	} {
		if got[name] != want {
			t.Errorf("%s is %d, want %d", name, got[name], want)
		}
	}
	if s.Hits == 0 || s.Misses == 0 || s.Bytes == 0 || s.Filters.Hits == 0 || s.Filters.Misses != 1 || s.Filters.Bytes == 0 {
		t.Errorf("%+v", s)
	}
	w.ok(shown.Unregister())
	if got := read(); len(got) != 0 {
		t.Errorf("after the end: %v", got)
	}
}
