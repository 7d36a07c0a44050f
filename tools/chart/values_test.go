package chart

// This file checks that invalid values are refused with an error that names the value.

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestWrongValuesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"replicas: 3":                                                     "replicas",
		"serve: {replica: 3}":                                             "replica",
		"serve: {replicas: many}":                                         "replicas",
		"serve: {replicas: -1}":                                           "replicas",
		"serve: {resources: {limits: {memory: lots}}}":                    "memory",
		"serve: {env: {lower_case: x}}":                                   "lower_case",
		"serve: {parsers: 2}":                                             "parsers",
		"logLevel: loud":                                                  "logLevel",
		"image: {tag: 'a b'}":                                             "tag",
		"postgres: {mode: mysql}":                                         "mode",
		"postgres: {external: {url: x}}":                                  "url",
		"postgres: {cloudnativePG: {pooler: {enabled: maybe}}}":           "enabled",
		"nats: {replicas: 2}":                                             "replicas",
		"nats: {mode: external}":                                          "nats.external.url",
		"nats: {mode: external, external: {url: 'http://x'}}":             "url",
		"temporal: {mode: external}":                                      "temporal.external.address",
		"temporal: {autoSetup: {historyShards: 0}}":                       "historyShards",
		"postgres: {mode: external}":                                      "postgres.external.host",
		"ingress: {enabled: true}":                                        "ingress.host",
		"llmGateway: {secretKeys: {SLUICE_LLM_API_KEY: a}}":               "llmGateway.secret",
		"llmGateway: {secretKeys: {SLUICE_LLM_MODEL: a}}":                 "SLUICE_LLM_MODEL",
		"queryWorker: {autoscaling: {enabled: true, min: 20}}":            "queryWorker.autoscaling.max",
		"autoscaling: {behavior: {scaleDown: {cooldown: 3}}}":             "cooldown",
		"gpuSegmenterCuda: {enabled: true, autoscaling: {enabled: true}}": "gpuSegmenterCuda.autoscaling.enabled",
		"{keda: {enabled: true}, gpuSegmenterCuda: {enabled: true, autoscaling: {enabled: true}}}":                                        "keda.prometheusAddress",
		"{keda: {enabled: true}, ingestWorker: {autoscaling: {enabled: true}}, nats: {mode: external, external: {url: 'nats://x:4222'}}}": "nats.external.monitor",
		"blobs: {keepIn: s3}":                                                   "endpoint",
		"blobs: {endpoint: 'https://s3.example'}":                               "blobs.bucket",
		"blobs: {endpoint: 'https://s3.example', bucket: b}":                    "blobs.secret",
		"postgres: {readReplica: true}":                                         "postgres.readReplica",
		"{nats: {tls: {serverSecret: a}}}":                                      "nats.tls",
		"spread: Sometimes":                                                     "spread",
		"networkPolicy: {external: {llm: {cidrs: [everywhere], ports: [443]}}}": "cidrs",
	} {
		_, err := render(t, values(t, text), false)
		if err == nil {
			t.Errorf("%s was taken", text)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error does not name %s: %v", text, want, err)
		}
	}
}

// TestTheSchemaKnowsEveryValue: the schema refuses unknown values, and values.yaml has a default
// for every value of the schema.
func TestTheSchemaKnowsEveryValue(t *testing.T) {
	var defaults, schema map[string]any
	if err := yaml.UnmarshalStrict([]byte(read(t, "deploy/chart/values.yaml")), &defaults); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "deploy/chart/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v, s map[string]any)
	walk = func(path string, v, s map[string]any) {
		properties := at[map[string]any](s, "properties")
		if properties == nil {
			return
		}
		if s["additionalProperties"] != false {
			t.Errorf("%s: unknown values are taken", path)
		}
		for name, property := range properties {
			value, there := v[name]
			if !there && name != "global" {
				t.Errorf("values.yaml lacks %s.%s", path, name)
			}
			if inner, is := value.(map[string]any); is {
				walk(path+"."+name, inner, property.(map[string]any))
			}
		}
	}
	walk("values", defaults, schema)
}
