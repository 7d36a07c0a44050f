package bus_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/lifecycle/lifecycletest"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T) *nats.Conn {
	t.Helper()
	nc, err := bus.Connect(t.Context(), bus.Options{URL: serverOf(t).ClientURL(), Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func serverOf(t *testing.T) *server.Server {
	t.Helper()
	return started(t, &server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true})
}

// started returns a server that accepts connections until the test ends.
func started(t *testing.T, o *server.Options) *server.Server {
	t.Helper()
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(waittest.Left(t)) {
		t.Fatal("nats-server did not start")
	}
	return s
}

func service(t *testing.T, nc *nats.Conn, concurrency int, handle func(context.Context, wire.EncodeRequest) wire.EncodeReply) *bus.Service {
	t.Helper()
	s := bus.Serve(nc, bus.ServeOptions{Subject: wire.ModelSubject(wire.OpEncode), Group: wire.ModelGroup, Concurrency: concurrency},
		handle, func(e *schema.RemoteError) wire.EncodeReply {
			return wire.EncodeReply{Envelope: wire.Header(), Error: e}
		})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

func request(ctx context.Context, nc *nats.Conn, r wire.EncodeRequest) (wire.EncodeReply, error) {
	return bus.Request[wire.EncodeReply](ctx, nc, wire.ModelSubject(wire.OpEncode), r)
}

func TestRequestWithoutServiceIsUnavailable(t *testing.T) {
	_, err := request(t.Context(), connect(t), wire.EncodeRequest{Envelope: wire.Header()})
	if !errors.Is(err, schema.ErrUnavailable) {
		t.Fatalf("got %v, want ErrUnavailable", err)
	}
}

// TestConnectDoesNotTellTheToken: a token is the user part of the address.
func TestConnectDoesNotTellTheToken(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, user := range []string{"hidden-token", "name:hidden-token"} {
		_, err := bus.Connect(ctx, bus.Options{URL: "nats://" + user + "@127.0.0.1:1", Name: t.Name()})
		if err == nil || strings.Contains(err.Error(), "hidden-token") || !strings.Contains(err.Error(), "127.0.0.1:1") {
			t.Errorf("got %v", err)
		}
	}
}

func TestServeKeepsTheLifecycleContract(t *testing.T) {
	nc := connect(t)
	lifecycletest.Stress(t, func(*testing.T) lifecycle.Service {
		return bus.Serve(nc, bus.ServeOptions{Subject: wire.ModelSubject(wire.OpEncode), Group: wire.ModelGroup},
			func(context.Context, wire.EncodeRequest) wire.EncodeReply { return wire.EncodeReply{} },
			func(e *schema.RemoteError) wire.EncodeReply { return wire.EncodeReply{Error: e} })
	})
}

func TestServeAnswersAndRefusesWhatItCannotRead(t *testing.T) {
	nc := connect(t)
	service(t, nc, 2, func(_ context.Context, r wire.EncodeRequest) wire.EncodeReply {
		if r.Texts[0] == "panic" {
			panic("on request")
		}
		return wire.EncodeReply{Envelope: wire.Header(), Space: r.Texts[0]}
	})
	reply, err := request(t.Context(), nc, wire.EncodeRequest{Envelope: wire.Header(), Texts: []string{"hello"}})
	if err != nil || reply.Error != nil || reply.Space != "hello" {
		t.Fatalf("got %+v, %v", reply, err)
	}
	reply, err = request(t.Context(), nc, wire.EncodeRequest{Envelope: wire.Envelope{V: 99}})
	if err != nil || reply.Error == nil {
		t.Fatalf("an unknown version was taken: %+v, %v", reply, err)
	}
	reply, err = request(t.Context(), nc, wire.EncodeRequest{Envelope: wire.Header(), Texts: []string{"panic"}})
	if err != nil || reply.Error == nil || reply.Error.Code != schema.CodeInternal {
		t.Fatalf("a panic gave %+v, %v", reply, err)
	}
}

func TestServeIsBoundedAndFinishesWhatItHolds(t *testing.T) {
	nc := connect(t)
	release, running := make(chan struct{}), make(chan struct{}, 8)
	s := service(t, nc, 1, func(context.Context, wire.EncodeRequest) wire.EncodeReply {
		running <- struct{}{}
		<-release
		return wire.EncodeReply{Envelope: wire.Header(), Space: "done"}
	})
	type result struct {
		reply wire.EncodeReply
		err   error
	}
	results := make(chan result, 8)
	var senders sync.WaitGroup
	send := func() {
		senders.Go(func() {
			reply, err := request(t.Context(), nc, wire.EncodeRequest{Envelope: wire.Header(), Texts: []string{"x"}})
			results <- result{reply, err}
		})
	}
	send()
	<-running // one runs
	for range 3 {
		send() // one waits, two are refused
	}
	for range 2 {
		if r := <-results; r.err != nil || r.reply.Error == nil || !errors.Is(r.reply.Error, schema.ErrOverloaded) ||
			errors.Is(r.reply.Error, schema.ErrTenantOverloaded) {
			t.Fatalf("got %+v, want overloaded, of no tenant", r)
		}
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	close(release)
	for range 2 {
		if r := <-results; r.err != nil || r.reply.Space != "done" {
			t.Fatalf("a held request was lost: %+v", r)
		}
	}
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	senders.Wait()
	if err := s.Stop(context.Background()); err != nil {
		t.Fatalf("a second stop: %v", err)
	}
}

// TestAServiceMeasuresItself: it counts answered, running and refused requests.
func TestAServiceMeasuresItself(t *testing.T) {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	defer provider.Shutdown(context.Background()) //nolint:errcheck // a test's
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(provider)
	defer otel.SetMeterProvider(before)
	nc := connect(t)
	started, open := make(chan struct{}), make(chan struct{})
	s := service(t, nc, 1, func(context.Context, wire.EncodeRequest) wire.EncodeReply {
		started <- struct{}{}
		<-open
		return wire.EncodeReply{Envelope: wire.Header()}
	})
	ask := func() chan error {
		done := make(chan error, 1)
		go func() {
			reply, err := request(t.Context(), nc, wire.EncodeRequest{Envelope: wire.Header(), Lane: wire.LaneBulk, Texts: []string{"x"}})
			if err == nil && reply.Error != nil {
				err = reply.Error
			}
			done <- err
		}()
		return done
	}
	all := []chan error{ask()}
	<-started
	all = append(all, ask(), ask()) // one waits, one is refused
	var refused error
	select {
	case refused = <-all[1]:
		all = []chan error{all[0], all[2]}
	case refused = <-all[2]:
		all = all[:2]
	}
	if !errors.Is(refused, schema.ErrOverloaded) {
		t.Fatalf("got %v", refused)
	}
	check := func(want map[string]float64) {
		t.Helper()
		var data metricdata.ResourceMetrics
		if err := reader.Collect(context.Background(), &data); err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, scope := range data.ScopeMetrics {
			for _, m := range scope.Metrics {
				switch d := m.Data.(type) {
				case metricdata.Sum[int64]:
					got[m.Name] = float64(d.DataPoints[0].Value)
				case metricdata.Histogram[float64]:
					got[m.Name] = float64(d.DataPoints[0].Count)
				}
			}
		}
		for name, value := range want {
			if got[name] != value {
				t.Errorf("%s is %v, want %v", name, got[name], value)
			}
		}
	}
	check(map[string]float64{"sluice.service.in_flight": 1, "sluice.service.waiting": 1, "sluice.service.overloaded": 1})
	close(open)
	<-started
	for _, done := range all {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(map[string]float64{"sluice.service.in_flight": 0, "sluice.service.waiting": 0, "sluice.service.overloaded": 1, "sluice.service.duration": 2, "sluice.service.wait": 2})
}

func TestTraceTravelsInHeaders(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	t.Cleanup(func() { otel.SetTracerProvider(before) })
	nc := connect(t)
	service(t, nc, 1, func(context.Context, wire.EncodeRequest) wire.EncodeReply {
		return wire.EncodeReply{Envelope: wire.Header()}
	})
	ctx, span := provider.Tracer("test").Start(t.Context(), "root")
	if _, err := request(ctx, nc, wire.EncodeRequest{Envelope: wire.Header()}); err != nil {
		t.Fatal(err)
	}
	span.End()
	if err := provider.ForceFlush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := bus.WithTraceparent(context.Background(), bus.Traceparent(ctx)); bus.Traceparent(got) != bus.Traceparent(ctx) {
		t.Error("a traceparent does not survive as text")
	}
	for _, s := range spans.Ended() {
		if s.SpanContext().TraceID() != span.SpanContext().TraceID() {
			t.Errorf("span %q is in another trace", s.Name())
		}
	}
}

func TestStreamsBoundATenantAndSwallowRepeats(t *testing.T) {
	nc := connect(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // it may be repeated
		if err := bus.EnsureStreams(t.Context(), js, bus.StreamLimits{PerTenant: 2}); err != nil {
			t.Fatal(err)
		}
	}
	flood, other := uuid.New(), uuid.New()
	publish := func(tenant uuid.UUID, id string) (*jetstream.PubAck, error) {
		return js.Publish(t.Context(), wire.IngestSubject(tenant), []byte("{}"), jetstream.WithMsgID(id))
	}
	for _, id := range []string{"a", "b"} {
		if _, err := publish(flood, id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := publish(flood, "c"); err == nil {
		t.Error("a tenant's third message was taken though its limit is 2")
	}
	if _, err := publish(other, "d"); err != nil {
		t.Errorf("another tenant was refused: %v", err)
	}
	if ack, err := publish(other, "d"); err != nil || !ack.Duplicate {
		t.Errorf("a repeated id gave %+v, %v", ack, err)
	}
}
