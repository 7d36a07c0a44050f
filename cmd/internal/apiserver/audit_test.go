package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/sluice-rag/sluice/cmd/internal/apiserver"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestAuditOfReadsAsksTheDatabaseNothingMore counts the statements of searches, with the audit of
// reads and without.
func TestAuditOfReadsAsksTheDatabaseNothingMore(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	otel.SetTracerProvider(provider)
	t.Cleanup(func() { // tracers that exist already keep it, and record nothing once it is shut down
		if err := provider.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		otel.SetTracerProvider(noop.NewTracerProvider())
		spans.Reset()
	})
	const searches = 20
	found := uuid.UUID{7}
	counts := map[string]int{}
	for _, setting := range []string{"off", "on"} {
		w := newWorldServed(t, localtest.Database(t), store.Options{}, config.HTTP{AuditReads: setting}, apiserver.Deps{})
		w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
		serve(w, bus.Serve(w.nats, bus.ServeOptions{Subject: wire.SearchSubject, Group: "test", Concurrency: 1}, func(context.Context, wire.SearchRequest) wire.SearchReply {
			return wire.SearchReply{Envelope: wire.Header(), SearchResult: schema.SearchResult{Plan: "naive", Candidates: []schema.Candidate{{Document: found, Text: "text"}}}}
		}, func(e *schema.RemoteError) wire.SearchReply { return wire.SearchReply{Error: e} }))
		search := func(n int) {
			w.post("/v1/search", api.Query{Collection: "c", Query: fmt.Sprintf("What is in document %d?", n)}, "").want(http.StatusOK, nil)
		}
		spans.Reset()
		for n := range searches { // the first one looks up the key, and the collection by its name
			search(n)
		}
		requests := map[trace.TraceID]bool{}
		for _, s := range spans.Ended() {
			if s.SpanKind() == trace.SpanKindServer {
				requests[s.SpanContext().TraceID()] = true
			}
		}
		if len(requests) < searches {
			t.Fatalf("%d requests of %d were seen", len(requests), searches)
		}
		for _, s := range spans.Ended() {
			if requests[s.SpanContext().TraceID()] && s.InstrumentationScope().Name == "github.com/exaring/otelpgx" {
				counts[setting]++
			}
		}
		want := map[string]int{"off": 0, "on": searches}[setting]
		waittest.Until(t, func() string {
			reads, _, err := w.store.Reads(t.Context(), w.admin.Tenant, schema.AuditQuery{Action: "search"})
			if err != nil || len(reads) != want {
				return fmt.Sprintf("%d searches of %d are in the audit log: %v", len(reads), want, err)
			}
			return ""
		})
		if err := w.stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// Lookups may be repeated after 3 seconds, which is less often than once per search.
	if counts["off"] == 0 || counts["on"] >= counts["off"]+searches {
		t.Errorf("%d searches make %d statements with the audit of reads, %d without", searches, counts["on"], counts["off"])
	}
}
