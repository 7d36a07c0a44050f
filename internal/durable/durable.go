// Package durable connects to Temporal, with the tracing, metrics and logging of the rest of
// Sluice.
package durable

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
	tlog "go.temporal.io/sdk/log"

	"github.com/sluice-rag/sluice/internal/lifecycle"
)

const scope = "github.com/sluice-rag/sluice/internal/durable"

// Options are the settings of a connection.
type Options struct {
	Address   string
	Namespace string // "default" when empty
	Name      string // identity, shown in Temporal's histories
	TLS       TLS
	APIKey    string // sent with every call, encrypted
}

// Dial connects, and tries again until ctx ends. Workers made from the client continue the traces
// of their callers.
func Dial(ctx context.Context, o Options) (client.Client, error) {
	options, err := o.client()
	if err != nil {
		return nil, err
	}
	c, err := lifecycle.Connect(ctx, "temporal", func(ctx context.Context) (client.Client, error) {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return client.DialContext(attempt, options)
	})
	if err != nil {
		return nil, fmt.Errorf("connect to temporal at %s (SLUICE_TEMPORAL_ADDRESS): %w", o.Address, err)
	}
	return c, nil
}

// Later returns a client that connects when it is first used, for programs that also work without
// Temporal.
func Later(o Options) (client.Client, error) {
	options, err := o.client()
	if err != nil {
		return nil, err
	}
	c, err := client.NewLazyClient(options)
	if err != nil {
		return nil, fmt.Errorf("use temporal at %s (SLUICE_TEMPORAL_ADDRESS): %w", o.Address, err)
	}
	return c, nil
}

func (o Options) client() (client.Options, error) {
	tracing, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{Tracer: otel.Tracer(scope)})
	if err != nil {
		return client.Options{}, fmt.Errorf("trace temporal: %w", err)
	}
	encryption, err := o.encryption()
	if err != nil {
		return client.Options{}, err
	}
	var key client.Credentials
	if o.APIKey != "" {
		key = client.NewAPIKeyStaticCredentials(o.APIKey)
	}
	return client.Options{
		ConnectionOptions: client.ConnectionOptions{TLS: encryption, TLSDisabled: encryption == nil},
		Credentials:       key,

		HostPort:       o.Address,
		Namespace:      o.Namespace,
		Identity:       o.Name,
		Logger:         tlog.NewStructuredLogger(slog.New(quiet{slog.Default().Handler()})),
		MetricsHandler: opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{Meter: otel.Meter(scope)}),
		Interceptors:   []interceptor.ClientInterceptor{tracing},
	}, nil
}

// Check returns an error if the server that c is connected to is not healthy.
func Check(ctx context.Context, c client.Client) error {
	if _, err := c.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return fmt.Errorf("temporal does not answer: %w", err)
	}
	return nil
}

// quiet lowers the SDK's messages below warnings, mostly about its pollers, to the debug level.
type quiet struct{ slog.Handler }

func (h quiet) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn {
		r.Level = slog.LevelDebug
		if !h.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{h.Handler.WithAttrs(attrs)} }
func (h quiet) WithGroup(name string) slog.Handler       { return quiet{h.Handler.WithGroup(name)} }
