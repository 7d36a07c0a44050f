package chart

// This file validates every object against the schema that the Kubernetes API publishes
// (api/openapi-spec of k8s.io/kubernetes), and objects of operators against their
// CustomResourceDefinitions. The schemas are in the projects' Go modules. Unknown fields are
// errors, because the API would drop them. Published schemas have no enumerations, so they are
// below. Rules in CEL are not evaluated.

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

// modules are the modules with schemas. go.mod does not require them, because its graph would
// become many times as large, and only files are read from them. Their checksums are here instead.
var modules = map[string]string{
	"k8s.io/kubernetes@v1.34.1":                                  "h1:F3p8dtpv+i8zQoebZeK5zBqM1g9x1aIdnA5vthvcuUk=",
	"github.com/kedacore/keda/v2@v2.18.1":                        "h1:h6bRt/IOxxtZpJlHSqhdH/lcInH7Z9obxg/JvWOmGAw=",
	"github.com/cloudnative-pg/cloudnative-pg@v1.27.1":           "h1:w+bbtXyEPoaa7sZGXxbb8qJ+/bUGWQ3M48kbNUEpKlk=",
	"github.com/prometheus-operator/prometheus-operator@v0.85.0": "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
}

// where returns the folder of a module in Go's module cache.
func where(t *testing.T, module string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	command.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
	out, err := command.Output()
	var got struct{ Dir, Sum, Error string }
	if json.Unmarshal(out, &got) != nil || err != nil || got.Error != "" {
		t.Fatalf("get module %s: %v %s", module, err, got.Error)
	}
	if got.Sum != modules[module] {
		t.Fatalf("module %s has the sum %s, want %s", module, got.Sum, modules[module])
	}
	return got.Dir
}

// files are the files of the schemas, by module and kind.
var files = map[string]map[string]string{
	"k8s.io/kubernetes@v1.34.1": {
		"v1": "api__v1", "apps/v1": "apis__apps__v1", "batch/v1": "apis__batch__v1", "policy/v1": "apis__policy__v1",
		"networking.k8s.io/v1": "apis__networking.k8s.io__v1", "autoscaling/v2": "apis__autoscaling__v2",
	},
	"github.com/kedacore/keda/v2@v2.18.1": {"ScaledObject": "config/crd/bases/keda.sh_scaledobjects.yaml"},
	"github.com/cloudnative-pg/cloudnative-pg@v1.27.1": {
		"Cluster": "config/crd/bases/postgresql.cnpg.io_clusters.yaml", "Pooler": "config/crd/bases/postgresql.cnpg.io_poolers.yaml",
		"ScheduledBackup": "config/crd/bases/postgresql.cnpg.io_scheduledbackups.yaml",
	},
	"github.com/prometheus-operator/prometheus-operator@v0.85.0": {
		"ServiceMonitor": "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		"PrometheusRule": "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
	},
}

// schemas has the schemas by apiVersion and kind. They refuse unknown fields.
var (
	schemas   = map[string]*spec.Schema{}
	schemaErr error
	once      sync.Once
)

func loadSchemas(t *testing.T) {
	t.Helper()
	for module, kinds := range files {
		dir := where(t, module)
		for of, file := range kinds {
			if strings.HasPrefix(module, "k8s.io/") {
				data, err := os.ReadFile(filepath.Join(dir, "api/openapi-spec/v3", file+"_openapi.json"))
				if err != nil {
					t.Fatal(err)
				}
				var document struct {
					Components struct{ Schemas map[string]map[string]any }
				}
				if err := json.Unmarshal(data, &document); err != nil {
					t.Fatal(err)
				}
				for _, s := range document.Components.Schemas {
					for _, kind := range list(s, "x-kubernetes-group-version-kind") {
						version := kind["version"].(string)
						if group := kind["group"].(string); group != "" {
							version = group + "/" + version
						}
						if version == of && at[map[string]any](s, "properties", "metadata") != nil && !strings.HasSuffix(kind["kind"].(string), "List") {
							add(t, of+" "+kind["kind"].(string), closed(s, document.Components.Schemas))
						}
					}
				}
				continue
			}
			data, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			var definition object
			if err := yaml.Unmarshal(data, &definition); err != nil {
				t.Fatal(err)
			}
			for _, v := range list(definition, "spec", "versions") {
				name := at[string](definition, "spec", "group") + "/" + v["name"].(string) + " " + of
				add(t, name, closed(at[map[string]any](v, "schema", "openAPIV3Schema"), nil))
			}
		}
	}
}

func add(t *testing.T, name string, schema any) {
	t.Helper()
	data, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var s spec.Schema
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	schemas[name] = &s
}

// closed returns a schema with its references resolved, which refuses properties that it does not
// name.
func closed(schema any, all map[string]map[string]any) any {
	switch s := schema.(type) {
	case []any:
		out := make([]any, len(s))
		for i, item := range s {
			out[i] = closed(item, all)
		}
		return out
	case map[string]any:
		if reference, is := s["$ref"].(string); is {
			return closed(all[strings.TrimPrefix(reference, "#/components/schemas/")], all)
		}
		if inner, is := s["allOf"].([]any); is && len(inner) == 1 && s["properties"] == nil {
			if _, reference := inner[0].(map[string]any)["$ref"]; reference {
				return closed(inner[0], all)
			}
		}
		out := map[string]any{}
		for key, value := range s {
			switch key {
			case "default", "description", "example":
			case "format": // int-or-string allows two types, so it is not checked
				if value != "int-or-string" {
					out[key] = value
				}
			case "properties":
				properties := map[string]any{}
				for name, property := range value.(map[string]any) {
					properties[name] = closed(property, all)
				}
				out[key] = properties
			default:
				out[key] = closed(value, all)
			}
		}
		// Objects inside of anyOf and similar only narrow the outer object, so they may have other
		// properties.
		if s["type"] == "object" && s["properties"] != nil && s["additionalProperties"] == nil && s["x-kubernetes-preserve-unknown-fields"] != true {
			out["additionalProperties"] = false
		}
		return out
	}
	return schema
}

// enumerations are the values of Kubernetes' own fields, by the field's name.
var enumerations = map[string][]string{
	"imagePullPolicy": {"Always", "IfNotPresent", "Never"}, "restartPolicy": {"Always", "OnFailure", "Never"}, "whenUnsatisfiable": {"DoNotSchedule", "ScheduleAnyway"},
	"fsGroupChangePolicy": {"OnRootMismatch", "Always"}, "protocol": {"TCP", "UDP", "SCTP"}, "scheme": {"HTTP", "HTTPS"}, "pathType": {"Prefix", "Exact", "ImplementationSpecific"},
	"podManagementPolicy": {"Parallel", "OrderedReady"}, "concurrencyPolicy": {"Forbid", "Allow", "Replace"}, "effect": {"NoSchedule", "PreferNoSchedule", "NoExecute"},
	"policyTypes": {"Ingress", "Egress"}, "accessModes": {"ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod"}, "medium": {"", "Memory"},
}

func checkEnumerations(t *testing.T, path string, value any) {
	t.Helper()
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			for _, one := range append([]any{}, alone(inner)...) {
				text, is := one.(string)
				if allowed := enumerations[key]; is && allowed != nil && !slices.Contains(allowed, text) {
					t.Errorf("%s.%s: %q is none of %q", path, key, text, allowed)
				}
			}
			checkEnumerations(t, path+"."+key, inner)
		}
	case []any:
		for i, inner := range v {
			checkEnumerations(t, fmt.Sprintf("%s[%d]", path, i), inner)
		}
	}
}

func alone(v any) []any {
	if all, is := v.([]any); is {
		return all
	}
	return []any{v}
}

func TestObjectsAreAsTheirSchemasSay(t *testing.T) {
	once.Do(func() { loadSchemas(t) })
	if len(schemas) < 20 || schemaErr != nil {
		t.Fatalf("there are %d schemas: %v", len(schemas), schemaErr)
	}
	each(t, func(t *testing.T, in installation) {
		seen := map[string]bool{}
		for _, o := range in.objects {
			name := o.kind() + " " + o.name()
			if seen[name] {
				t.Errorf("%s occurs twice", name)
			}
			seen[name] = true
			s := schemas[o["apiVersion"].(string)+" "+o.kind()]
			if s == nil {
				t.Errorf("%s: there is no schema of %s %s", name, o["apiVersion"], o.kind())
				continue
			}
			result := validate.NewSchemaValidator(s, nil, name, strfmt.Default).Validate(map[string]any(o))
			for _, err := range result.Errors {
				t.Error(err)
			}
			if strings.Contains(o["apiVersion"].(string), ".io/") && !strings.HasSuffix(o["apiVersion"].(string), "k8s.io/v1") {
				continue // operators' schemas have enumerations
			}
			checkEnumerations(t, name, map[string]any(o))
		}
	})
}
