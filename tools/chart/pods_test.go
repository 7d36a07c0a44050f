package chart

// This file checks how pods run: without privileges, with limits, and with probes that distinguish
// a busy program from a dead one.

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// pod is the template of pods of an object.
type pod struct {
	owner  object
	labels map[string]any
	spec   map[string]any
	job    bool // a job's pod, which ends
}

// programs are the components that are programs of Sluice, with their names in
// docs/configuration.md.
var programs = map[string]string{
	"serve": "`sluice serve`", "ingest-worker": "ingest-worker", "query-worker": "query-worker", "llm-gateway": "llm-gateway",
	"source-worker": "source-worker", "gpu-segmenter": "gpu-segmenter", "gpu-segmenter-cuda": "gpu-segmenter",
}

func (in installation) pods() (out []pod) {
	for _, o := range in.objects {
		path := []string{"spec", "template"}
		switch o.kind() {
		case "CronJob":
			path = []string{"spec", "jobTemplate", "spec", "template"}
		case "Deployment", "StatefulSet", "Job":
		default:
			continue
		}
		template := at[map[string]any](o, path...)
		out = append(out, pod{o, at[map[string]any](template, "metadata", "labels"), at[map[string]any](template, "spec"), strings.HasSuffix(o.kind(), "Job")})
	}
	return out
}

func (p pod) containers() []map[string]any {
	return slices.Concat(list(p.spec, "initContainers"), list(p.spec, "containers"))
}

// writesToItsImage are the containers that must write to their file system. The chart says why.
var writesToItsImage = []string{"temporal"}

func TestContainersHaveNoRightsAndBounds(t *testing.T) {
	uid := regexp.MustCompile(`--uid (\d+)`).FindStringSubmatch(read(t, "Dockerfile"))[1]
	each(t, func(t *testing.T, in installation) {
		if len(in.pods()) < 7 {
			t.Fatalf("there are %d pods", len(in.pods()))
		}
		for _, p := range in.pods() {
			name := p.owner.kind() + " " + p.owner.name()
			security := at[map[string]any](p.spec, "securityContext")
			user := at[float64](security, "runAsUser")
			if security["runAsNonRoot"] != true || user == 0 || at[string](security, "seccompProfile", "type") != "RuntimeDefault" {
				t.Errorf("%s: securityContext is %v", name, security)
			}
			if programs[p.owner.component()] != "" && strconv.Itoa(int(user)) != uid {
				t.Errorf("%s runs as %v, the image has %s", name, user, uid)
			}
			if p.spec["automountServiceAccountToken"] != false {
				t.Errorf("%s gets a token of the Kubernetes API", name)
			}
			for _, c := range p.containers() {
				name := name + ", container " + c["name"].(string)
				s := at[map[string]any](c, "securityContext")
				if s["allowPrivilegeEscalation"] != false || !slices.Equal(at[[]any](s, "capabilities", "drop"), []any{"ALL"}) || at[[]any](s, "capabilities", "add") != nil || s["privileged"] != nil {
					t.Errorf("%s: securityContext is %v", name, s)
				}
				if s["readOnlyRootFilesystem"] != !slices.Contains(writesToItsImage, c["name"].(string)) {
					t.Errorf("%s: readOnlyRootFilesystem is %v", name, s["readOnlyRootFilesystem"])
				}
				for _, bound := range []string{"requests", "limits"} {
					for _, resource := range []string{"cpu", "memory"} {
						if at[any](c, "resources", bound, resource) == nil {
							t.Errorf("%s has no %s of %s", name, bound, resource)
						}
					}
				}
				if image := c["image"].(string); !regexp.MustCompile(`:[A-Za-z0-9][\w.-]*$`).MatchString(image) || strings.HasSuffix(image, ":latest") {
					t.Errorf("%s: the image %s is not pinned", name, image)
				}
			}
		}
	})
}

// onDisk are the components whose /tmp is on the node's disk. source-worker needs it for whole
// repositories.
var onDisk = []string{"source-worker"}

func TestTmpIsBoundedMemory(t *testing.T) {
	each(t, func(t *testing.T, in installation) {
		for _, p := range in.pods() {
			volumes := map[string]map[string]any{}
			for _, v := range list(p.spec, "volumes") {
				volumes[v["name"].(string)] = v
			}
			for _, claim := range list(p.owner, "spec", "volumeClaimTemplates") {
				volumes[at[string](claim, "metadata", "name")] = claim
			}
			for _, c := range p.containers() {
				mounts := map[string]string{}
				for _, m := range list(c, "volumeMounts") {
					mounts[m["mountPath"].(string)] = m["name"].(string)
					if volumes[m["name"].(string)] == nil {
						t.Errorf("%s: there is no volume %s", p.owner.name(), m["name"])
					}
				}
				tmp := volumes[mounts["/tmp"]]
				medium := "Memory"
				if slices.Contains(onDisk, p.owner.component()) {
					medium = ""
				}
				if at[string](tmp, "emptyDir", "medium") != medium || at[string](tmp, "emptyDir", "sizeLimit") == "" {
					t.Errorf("%s, container %s: /tmp is %v", p.owner.name(), c["name"], tmp)
				}
			}
		}
	})
}

// TestProbesTellBusyFromDead: the probe that restarts a program does not depend on other programs,
// and waits longer than the probe that takes the program out of service.
func TestProbesTellBusyFromDead(t *testing.T) {
	each(t, func(t *testing.T, in installation) {
		for _, p := range in.pods() {
			if p.job {
				continue
			}
			for _, c := range list(p.spec, "containers") {
				name := p.owner.name() + ", container " + c["name"].(string)
				probes := map[string]map[string]any{}
				for _, probe := range []string{"startupProbe", "readinessProbe", "livenessProbe"} {
					if probes[probe] = at[map[string]any](c, probe); probes[probe] == nil {
						t.Errorf("%s has no %s", name, probe)
					}
				}
				patience := func(probe string) float64 {
					return at[float64](probes[probe], "periodSeconds") * max(3, at[float64](probes[probe], "failureThreshold"))
				}
				if patience("livenessProbe") <= patience("readinessProbe") || patience("startupProbe") < 300 {
					t.Errorf("%s: it has %v s to start, is dead after %v s, and not ready after %v s", name,
						patience("startupProbe"), patience("livenessProbe"), patience("readinessProbe"))
				}
				if programs[p.owner.component()] == "" {
					continue
				}
				for probe, want := range map[string]string{"startupProbe": "/readyz", "readinessProbe": "/readyz", "livenessProbe": "/healthz"} {
					if got := at[string](probes[probe], "httpGet", "path"); got != want {
						t.Errorf("%s: %s asks %s", name, probe, got)
					}
					// The program's own check of its parts takes up to five seconds.
					if at[float64](probes[probe], "timeoutSeconds") <= 5 {
						t.Errorf("%s: %s waits %v seconds", name, probe, probes[probe]["timeoutSeconds"])
					}
				}
			}
		}
	})
}

// An upgrade of Sluice replaces only its programs. A changed label would also restart the servers.
func TestUpgradesRestartNoServer(t *testing.T) {
	pods := func(tag string) map[string]any {
		in, err := render(t, values(t, "image: {tag: "+tag+"}"), true)
		if err != nil {
			t.Fatal(err)
		}
		templates := map[string]any{}
		for _, o := range append(in.of("Deployment"), in.of("StatefulSet")...) {
			templates[o.component()] = at[any](o, "spec", "template")
		}
		return templates
	}
	before, after := pods("1.0.0"), pods("1.1.0")
	for _, server := range []string{"postgres", "nats", "temporal"} {
		if before[server] == nil || !reflect.DeepEqual(before[server], after[server]) {
			t.Errorf("%s: the pods of another version of Sluice are %v, and were %v", server, after[server], before[server])
		}
	}
	if reflect.DeepEqual(before["serve"], after["serve"]) {
		t.Error("serve: the pods are the same in another version")
	}
}

// TestPodsStopInTheirTime: a program has 25 seconds to stop. The preStop pause counts, too.
func TestPodsStopInTheirTime(t *testing.T) {
	each(t, func(t *testing.T, in installation) {
		for _, p := range in.pods() {
			if programs[p.owner.component()] == "" {
				continue
			}
			pause := 0
			for _, c := range list(p.spec, "containers") {
				if command := at[[]any](c, "lifecycle", "preStop", "exec", "command"); command != nil {
					pause, _ = strconv.Atoi(command[len(command)-1].(string))
				}
			}
			if grace := at[float64](p.spec, "terminationGracePeriodSeconds"); grace < float64(pause+25+10) {
				t.Errorf("%s has %v seconds to end, of which it pauses %d", p.owner.name(), grace, pause)
			}
			if p.owner.component() == "serve" {
				if pause < 5 {
					t.Errorf("serve pauses %d seconds before it stops", pause)
				}
				if update := at[map[string]any](p.owner, "spec", "strategy", "rollingUpdate"); update["maxUnavailable"] != 0.0 {
					t.Errorf("serve is updated with %v", update)
				}
			}
		}
	})
}

// TestSeveralPodsAreSpreadAndKept: of several pods, at most one may be unavailable at a time.
func TestSeveralPodsAreSpreadAndKept(t *testing.T) {
	each(t, func(t *testing.T, in installation) {
		for _, p := range in.pods() {
			if p.job {
				continue
			}
			name := p.owner.name()
			replicas, given := at[any](p.owner, "spec", "replicas").(float64)
			for _, kind := range []string{"ScaledObject", "HorizontalPodAutoscaler"} {
				if o := in.find(kind, name); o != nil {
					if given {
						t.Errorf("%s has %v replicas, and is scaled", name, replicas)
					}
					replicas = max(at[float64](o, "spec", "minReplicaCount"), at[float64](o, "spec", "minReplicas"))
					given = true
				}
			}
			if budget := in.find("PodDisruptionBudget", name); given && (budget != nil) != (replicas > 1) {
				t.Errorf("%s has %v replicas and the budget %v", name, replicas, budget["spec"])
			}
			if replicas > 1 {
				keys := map[any]bool{}
				for _, c := range list(p.spec, "topologySpreadConstraints") {
					keys[c["topologyKey"]] = true
					if !matches(at[map[string]any](c, "labelSelector"), p.labels) {
						t.Errorf("%s is spread with others' pods", name)
					}
				}
				// If nodes have no zones, a constraint about zones would cancel the one about
				// nodes.
				if !keys["kubernetes.io/hostname"] || keys["topology.kubernetes.io/zone"] != in.zones {
					t.Errorf("%s is spread over %v", name, slices.Collect(maps.Keys(keys)))
				}
			}
		}
	})
}

// matches reports whether a label selector, or plain labels, match a pod's labels.
func matches(selector, labels map[string]any) bool {
	if selector["matchLabels"] == nil && selector["matchExpressions"] == nil {
		selector = map[string]any{"matchLabels": selector}
	}
	for key, value := range at[map[string]any](selector, "matchLabels") {
		if labels[key] != value {
			return false
		}
	}
	for _, e := range list(selector, "matchExpressions") {
		if e["operator"] != "In" || !slices.Contains(at[[]any](e, "values"), labels[e["key"].(string)]) {
			return false
		}
	}
	return true
}

// TestWhoNeedsTheSchemaWaitsForIt: without the schema a program would end and be restarted again
// and again.
func TestWhoNeedsTheSchemaWaitsForIt(t *testing.T) {
	each(t, func(t *testing.T, in installation) {
		external := in.find("StatefulSet", "sluice-postgres") == nil && in.find("Cluster", "sluice-postgres") == nil
		for _, p := range in.pods() {
			has := environment(list(p.spec, "containers")[0])
			waits := slices.ContainsFunc(list(p.spec, "initContainers"), func(c map[string]any) bool {
				return slices.Equal(at[[]any](c, "args"), []any{"await-schema"}) && environment(c)["SLUICE_DATABASE_URL"] != nil
			})
			if _, needs := has["SLUICE_DATABASE_URL"]; !p.job && needs != waits {
				t.Errorf("%s has a database: %v, waits for its schema: %v", p.owner.name(), needs, waits)
			}
			if p.owner.kind() != "Job" {
				continue
			}
			// A hook before the installation would wait forever for the chart's own Postgres.
			hook := at[string](p.owner, "metadata", "annotations", "helm.sh/hook")
			want := ""
			if external || strings.Contains(in.notes, "being upgraded") {
				want = "pre-install,pre-upgrade"
			}
			if hook != want || at[float64](p.owner, "spec", "backoffLimit") < 5 {
				t.Errorf("the Job %s has the hook %q, want %q", p.owner.name(), hook, want)
			}
			if account := p.spec["serviceAccountName"]; account != nil {
				t.Errorf("the Job %s runs as %s, which is not there before the installation", p.owner.name(), account)
			}
		}
	})
}

// environment returns a container's variables by name.
func environment(c map[string]any) map[string]map[string]any {
	out := map[string]map[string]any{}
	for _, v := range list(c, "env") {
		out[v["name"].(string)] = v
	}
	return out
}

// TestParsersFitTheirMemory: each parser takes at most 1 GB, in addition to the worker itself and
// its /tmp.
func TestParsersFitTheirMemory(t *testing.T) {
	c, err := render(t, values(t), false)
	if err != nil {
		t.Fatal(err)
	}
	worker := list(c.find("Deployment", "sluice-ingest-worker"), "spec", "template", "spec", "containers")[0]
	parsers, err := strconv.Atoi(environment(worker)["SLUICE_PARSE_WORKERS"]["value"].(string))
	if err != nil {
		t.Fatal(err)
	}
	limit, err := strconv.Atoi(strings.TrimSuffix(at[string](worker, "resources", "limits", "memory"), "Gi"))
	if err != nil || limit < parsers+2 {
		t.Errorf("%d parsers in %d GB: %v", parsers, limit, err)
	}
}
