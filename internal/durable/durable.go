// Package durable connects to Temporal, with tracing, metrics and logging as
// the rest of Sluice has them.
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

// Options of a connection.
type Options struct {
	Address   string
	Namespace string // "default" when empty
	Name      string // identity, shown in Temporal's histories
	TLS       TLS
	APIKey    string // sent with every call, encrypted
}

// Dial connects, trying again until ctx ends. Workers made from the client
// continue the traces that its callers began.
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

// Later returns a client that connects when it is first used, for what can do
// without Temporal.
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

// Check reports whether the server that c is connected to serves.
func Check(ctx context.Context, c client.Client) error {
	if _, err := c.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return fmt.Errorf("temporal does not answer: %w", err)
	}
	return nil
}

// quiet keeps the SDK's chatter about its pollers out of the info level.
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
