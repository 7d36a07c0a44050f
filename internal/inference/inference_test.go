package inference

// This file has what the tests share: the shipped pack, the library, and a server for each test.

import (
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sluice-rag/sluice/internal/inference/inferencetest"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// pack is the model pack of the repository.
const pack = "../../models/default"

var (
	spans   = tracetest.NewSpanRecorder()
	metrics = metric.NewManualReader()
)

func TestMain(m *testing.M) {
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(metrics)))
	otel.SetTextMapPropagator(propagation.TraceContext{})
	localtest.Main(m, localtest.Need{})
}

func libraryPath(t testing.TB) string {
	t.Helper()
	path, err := local.FindONNXRuntime()
	if err != nil {
		t.Fatalf("%v (run `make setup`)", err)
	}
	return path
}

func packDir(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("SLUICE_MODEL_PACK"); dir != "" {
		return dir
	}
	return pack
}

func open(t testing.TB) *Model {
	t.Helper()
	return openPack(t, packDir(t))
}

func connect(t testing.TB, url string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// serving starts a server of the model on a NATS server of its own, and returns a client's
// connection.
func serving(t testing.TB, model *Model, o ServerOptions) (*nats.Conn, *Server) {
	t.Helper()
	url := localtest.NATS(t).URL()
	server := NewServer(connect(t, url), model, o)
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(waittest.Context(t)); err != nil {
			t.Error(err)
		}
	})
	return connect(t, url), server
}

// openFull opens a pack with all seven graphs.
func openFull(t testing.TB, change ...func(manifest string) string) *Model {
	t.Helper()
	m, err := Open(Options{Pack: inferencetest.Pack(t, change...), Library: libraryPath(t), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}
