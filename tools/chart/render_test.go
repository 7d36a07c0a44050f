// Package chart tests deploy/chart: it renders the chart with Helm's own library, and checks every
// object against the schemas of Kubernetes and of the operators, and against rules that no schema
// has.
package chart

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

const (
	repository = "../.."
	chartDir   = repository + "/deploy/chart"
	namespace  = "rag"
)

// object is a Kubernetes object.
type object map[string]any

func (o object) kind() string { return o["kind"].(string) }
func (o object) name() string { return at[string](o, "metadata", "name") }

// component returns the component of the installation to which an object belongs.
func (o object) component() string {
	return at[string](o, "metadata", "labels", "app.kubernetes.io/component")
}

// at returns the value in o at a path, or the zero value if there is none.
func at[T any](o any, path ...string) (out T) {
	for _, key := range path {
		switch m := o.(type) {
		case object:
			o = m[key]
		case map[string]any:
			o = m[key]
		default:
			return out
		}
	}
	out, _ = o.(T)
	return out
}

// list returns the maps of a list in o.
func list(o any, path ...string) (out []map[string]any) {
	for _, item := range at[[]any](o, path...) {
		out = append(out, item.(map[string]any))
	}
	return out
}

// installation is the chart rendered with some values.
type installation struct {
	objects []object
	notes   string
	zones   bool // pods are spread over zones, too
}

// of returns the objects of a kind.
func (in installation) of(kind string) (out []object) {
	for _, o := range in.objects {
		if o.kind() == kind {
			out = append(out, o)
		}
	}
	return out
}

func (in installation) find(kind, name string) object {
	for _, o := range in.of(kind) {
		if o.name() == name {
			return o
		}
	}
	return nil
}

// values merges YAML texts; later ones take precedence.
func values(t *testing.T, texts ...string) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, text := range texts {
		var over map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &over); err != nil {
			t.Fatal(err)
		}
		out = chartutil.CoalesceTables(over, out)
	}
	return out
}

func render(t *testing.T, v map[string]any, upgrade bool) (in installation, err error) {
	t.Helper()
	c, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	given, err := chartutil.ToRenderValues(c, v, chartutil.ReleaseOptions{Name: "sluice", Namespace: namespace, Revision: 1, IsInstall: !upgrade, IsUpgrade: upgrade}, nil)
	if err != nil {
		return in, err
	}
	in.zones = given["Values"].(chartutil.Values)["spreadZones"].(bool)
	files, err := engine.Render(c, given)
	if err != nil {
		return in, err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		if strings.Contains(text, "<no value>") {
			t.Errorf("%s: a value is missing", name)
		}
		if strings.HasSuffix(name, "NOTES.txt") {
			in.notes = text
			continue
		}
		for part := range strings.SplitSeq("\n"+text, "\n---") {
			var o object
			if err := yaml.UnmarshalStrict([]byte(part), &o); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, part)
			}
			if len(o) > 0 {
				in.objects = append(in.objects, o)
			}
		}
	}
	return in, nil
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const everythingExternal = `
postgres: {mode: external, readReplica: true, external: {host: db.example, caSecret: their-ca, pooled: true}}
blobs: {keepIn: s3, endpoint: "https://s3.example", bucket: documents, prefix: sluice/, region: eu, secret: their-s3, caSecret: their-s3-ca}
nats: {mode: external, external: {url: "tls://nats.example:4222", monitor: "nats.example:8222"}, tls: {clientSecret: their-nats}}
temporal: {mode: external, external: {address: "temporal.example:7233", apiKeySecret: their-temporal, tls: {caSecret: their-temporal-ca, clientSecret: their-temporal-client, serverName: temporal}}}
llmGateway: {secret: their-llm, secretKeys: {SLUICE_LLM_API_KEY: openai}, env: {SLUICE_LLM_MODEL: gpt-4o}}
image: {registry: "registry.example", pullSecrets: [pull]}
sourceWorker: {enabled: true, replicas: 2}
`

const everythingBundled = `
nats: {replicas: 3, tls: {serverSecret: nats-servers, clientSecret: nats-clients}}
ingress: {enabled: true, host: sluice.example, className: nginx, tlsSecret: sluice-example}
serve: {tlsSecret: api}
sourceWorker: {enabled: true, autoscaling: {enabled: true}}
telemetry: {otlpEndpoint: "http://otel-collector.monitoring:4317"}
networkPolicy: {apiFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress-nginx}}}]}
`

const withGPU = `
gpuSegmenterCuda: {enabled: true, replicas: 2, nodeSelector: {gpu: h100}, autoscaling: {enabled: true}, packVolume: {persistentVolumeClaim: {claimName: packs}}}
postgres:
  cloudnativePG:
    walStorage: 20Gi
    backup: {retentionPolicy: 30d, barmanObjectStore: {destinationPath: "s3://backups/", s3Credentials: {accessKeyId: {name: backups, key: id}, secretAccessKey: {name: backups, key: key}}}}
    scheduledBackup: {schedule: "0 0 3 * * *"}
`

const scaledByProcessor = `
serve: {autoscaling: {enabled: true}}
queryWorker: {autoscaling: {enabled: true, max: 4}}
ingestWorker: {autoscaling: {enabled: true}}
`

// cases returns the installations that are tested, by name.
func cases(t *testing.T) map[string]map[string]any {
	t.Helper()
	production := read(t, "deploy/chart/values-production.yaml")
	return map[string]map[string]any{
		"defaults":            values(t),
		"everything external": values(t, everythingExternal),
		"everything bundled":  values(t, everythingBundled),
		"production":          values(t, production),
		"production with GPU": values(t, production, withGPU),
		"HPA":                 values(t, scaledByProcessor),
		"external on auto-setup": values(t, everythingExternal, `
temporal: {mode: auto-setup}
nats: {mode: cluster, replicas: 5, tls: {clientSecret: ""}}`),
		"bare": values(t, `
networkPolicy: {enabled: false}
llmGateway: {enabled: false}
serve: {replicas: 1}`),
	}
}

// each runs a check for every case, as an installation and as an upgrade.
func each(t *testing.T, check func(t *testing.T, in installation)) {
	t.Helper()
	for name, v := range cases(t) {
		for _, upgrade := range []bool{false, true} {
			kind := map[bool]string{false: "installed", true: "upgraded"}[upgrade]
			t.Run(name+", "+kind, func(t *testing.T) {
				in, err := render(t, v, upgrade)
				if err != nil {
					t.Fatal(err)
				}
				check(t, in)
			})
		}
	}
}
