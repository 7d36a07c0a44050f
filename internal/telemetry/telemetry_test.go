package telemetry

import (
	"testing"

	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
)

func TestStandardVariablesNameTheService(t *testing.T) {
	for _, c := range []struct{ name, attributes, want string }{
		{"", "", "sluice-query-worker"},
		{"", "deployment.environment=test", "sluice-query-worker"},
		{"", "service.name=mine", "mine"},
		{"yours", "service.name=mine", "yours"},
	} {
		t.Setenv("OTEL_SERVICE_NAME", c.name)
		t.Setenv("OTEL_RESOURCE_ATTRIBUTES", c.attributes)
		r, err := describe(t.Context(), "query-worker", "1.2.3")
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := r.Set().Value(semconv.ServiceNameKey); got.AsString() != c.want {
			t.Errorf("OTEL_SERVICE_NAME=%q OTEL_RESOURCE_ATTRIBUTES=%q: the service is %q, want %q", c.name, c.attributes, got.AsString(), c.want)
		}
		if got, _ := r.Set().Value(semconv.ServiceVersionKey); got.AsString() != "1.2.3" {
			t.Errorf("the version is %q", got.AsString())
		}
	}
}
