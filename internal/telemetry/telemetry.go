// Package telemetry sets up OpenTelemetry and logging for a process. The standard OTEL_* variables
// select the exporters of traces and metrics; with none set nothing is exported. Metrics can always
// be scraped from Handler.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
)

// Telemetry holds a process's providers.
type Telemetry struct {
	registry *prometheus.Registry
	traces   *trace.TracerProvider
	metrics  *metric.MeterProvider
}

// Setup installs the global tracer and meter providers and the W3C propagators
// for a service, for example "query-worker".
func Setup(ctx context.Context, service, version string) (*Telemetry, error) {
	res, err := describe(ctx, service, version)
	if err != nil {
		return nil, fmt.Errorf("describe service %s: %w", service, err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	scrape, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("set up metrics: %w", err)
	}
	meterOptions := []metric.Option{metric.WithResource(res), metric.WithReader(scrape)}
	tracerOptions := []trace.TracerProviderOption{trace.WithResource(res)}
	if exporting("METRICS") {
		reader, err := autoexport.NewMetricReader(ctx)
		if err != nil {
			return nil, fmt.Errorf("set up the metrics exporter (OTEL_METRICS_EXPORTER): %w", err)
		}
		meterOptions = append(meterOptions, metric.WithReader(reader))
	}
	if exporting("TRACES") {
		exporter, err := autoexport.NewSpanExporter(ctx)
		if err != nil {
			return nil, fmt.Errorf("set up the trace exporter (OTEL_TRACES_EXPORTER): %w", err)
		}
		tracerOptions = append(tracerOptions, trace.WithBatcher(exporter))
	}
	t := &Telemetry{
		registry: registry,
		traces:   trace.NewTracerProvider(tracerOptions...),
		metrics:  metric.NewMeterProvider(meterOptions...),
	}
	otel.SetTracerProvider(t.traces)
	otel.SetMeterProvider(t.metrics)
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	return t, nil
}

// describe returns the service's resource. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES are read
// last and override the given names.
func describe(ctx context.Context, service, version string) (*resource.Resource, error) {
	return resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(semconv.ServiceName("sluice-"+service), semconv.ServiceVersion(version)),
		resource.WithFromEnv())
}

// exporting reports whether the standard variables ask for an exporter of a
// signal: autoexport's own default would be OTLP to localhost.
func exporting(signal string) bool {
	if kind := os.Getenv("OTEL_" + signal + "_EXPORTER"); kind != "" {
		return kind != "none"
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// Handler serves the metrics in Prometheus' format.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{Registry: t.registry})
}

// Start implements the lifecycle contract. It does nothing: everything runs since Setup.
func (t *Telemetry) Start(context.Context) error { return nil }

// Stop exports what has not been exported yet, and shuts the providers down.
func (t *Telemetry) Stop(ctx context.Context) error {
	return errors.Join(t.traces.Shutdown(ctx), t.metrics.Shutdown(ctx))
}
