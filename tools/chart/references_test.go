package chart

// This file checks that everything that the chart refers to exists: settings, Secrets, metrics,
// streams, pods and ports.

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// readers returns the programs that read each setting, from docs/configuration.md.
func readers(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	var now []string
	for line := range strings.Lines(read(t, "docs/configuration.md")) {
		if rest, is := strings.CutPrefix(line, "Read by: "); is {
			now = strings.Split(strings.TrimSuffix(strings.TrimSpace(rest), "."), ", ")
		}
		if m := regexp.MustCompile("^\\| `--[a-z0-9-]+` \\| `(SLUICE_[A-Z0-9_]+)` ").FindStringSubmatch(line); m != nil {
			out[m[1]] = now
		}
	}
	if len(out) < 80 {
		t.Fatalf("docs/configuration.md has %d settings", len(out))
	}
	return out
}

// TestSettingsAreThoseThatProgramsRead: each program gets only settings that it reads.
func TestSettingsAreThoseThatProgramsRead(t *testing.T) {
	known := readers(t)
	each(t, func(t *testing.T, in installation) {
		for _, p := range in.pods() {
			for _, c := range p.containers() {
				program := programs[p.owner.component()]
				switch args := at[[]any](c, "args"); {
				case c["name"] == "await-schema":
					program = "`sluice await-schema`"
				case p.owner.component() == "migrate":
					if program = "`sluice migrate`"; args[0] != "migrate" {
						t.Errorf("%s runs %v", p.owner.name(), args)
					}
				}
				if program == "" {
					continue
				}
				for name := range environment(c) {
					if strings.HasPrefix(name, "SLUICE_") && !slices.Contains(known[name], program) {
						t.Errorf("%s, container %s: %s is read by %v, not by %s", p.owner.name(), c["name"], name, known[name], program)
					}
				}
			}
		}
	})
}

// TestVariablesInValuesAreThere: if the value of a variable uses $(NAME), NAME is defined before
// it.
func TestVariablesInValuesAreThere(t *testing.T) {
	each(t, func(t *testing.T, in installation) {
		for _, p := range in.pods() {
			for _, c := range p.containers() {
				var before []string
				for _, v := range list(c, "env") {
					value, _ := v["value"].(string)
					for _, m := range regexp.MustCompile(`\$\(([A-Z_]+)\)`).FindAllStringSubmatch(value, -1) {
						if !slices.Contains(before, m[1]) {
							t.Errorf("%s, container %s: %s refers to %s", p.owner.name(), c["name"], v["name"], m[1])
						}
					}
					if slices.Contains(before, v["name"].(string)) {
						t.Errorf("%s, container %s: %s occurs twice", p.owner.name(), c["name"], v["name"])
					}
					before = append(before, v["name"].(string))
				}
			}
		}
	})
}

// given are the Secrets that values name, with their keys. The last one is made by the operator of
// Postgres.
var given = map[string][]string{
	"their-ca": {"ca.crt"}, "their-nats": {"ca.crt", "tls.crt", "tls.key"}, "their-temporal": {"api-key"}, "their-temporal-ca": {"ca.crt"},
	"their-temporal-client": {"tls.crt", "tls.key"}, "their-llm": {"openai"}, "nats-servers": {"ca.crt", "tls.crt", "tls.key"}, "nats-clients": {"ca.crt", "tls.crt", "tls.key"},
	"api": {"tls.crt", "tls.key"}, "their-s3": {"credentials"}, "their-s3-ca": {"ca.crt"}, "sluice-postgres-ca": {"ca.crt"},
}

// madeSecrets runs make-secrets, and returns the Secrets that it makes, by name.
func madeSecrets(t *testing.T, dir string, args ...string) map[string]map[string]any {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(chartDir, "make-secrets"), append([]string{"--print", "--dir", dir}, args...)...)
	command.Env = append(os.Environ(), "SLUICE="+sluice(t), "SLUICE_DATABASE_OWNER_URL=postgres://owner@db/sluice", "SLUICE_DATABASE_URL=postgres://program@db/sluice",
		"SLUICE_DATABASE_VECTOR_URL=postgres://vector@db/sluice", "SLUICE_DATABASE_DIRECT_URL=postgres://direct@db/sluice", "SLUICE_DATABASE_REPLICA_URL=postgres://replica@db/sluice")
	var said strings.Builder
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		t.Fatalf("make-secrets: %v\n%s", err, said.String())
	}
	all := map[string]map[string]any{}
	for part := range strings.SplitSeq("\n"+string(out), "\n---") {
		var o object
		if err := yaml.UnmarshalStrict([]byte(part), &o); err != nil {
			t.Fatal(err)
		}
		if len(o) > 0 {
			all[o.name()] = o
		}
	}
	return all
}

// sluice builds the program once.
func sluice(t *testing.T) string {
	t.Helper()
	file := filepath.Join(built, "sluice")
	if _, err := os.Stat(file); err == nil {
		return file
	}
	command := exec.CommandContext(t.Context(), "go", "build", "-o", file, "./cmd/sluice")
	command.Dir = repository
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build sluice: %v\n%s", err, out)
	}
	return file
}

var built string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "chart")
	if err != nil {
		panic(err)
	}
	built = dir
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// TestSecretsAreThoseThatAreMade: every Secret that pods read, with its keys, is made by
// make-secrets or an operator, or a value names it. The ConfigMaps are in the chart.
func TestSecretsAreThoseThatAreMade(t *testing.T) {
	keysOf := func(all map[string]map[string]any) map[string][]string {
		out := maps.Clone(given)
		for name, o := range all {
			out[name] = slices.Collect(maps.Keys(at[map[string]any](o, "data")))
		}
		return out
	}
	own, external := keysOf(madeSecrets(t, t.TempDir())), keysOf(madeSecrets(t, t.TempDir(), "--external"))
	each(t, func(t *testing.T, in installation) {
		there := own
		if in.find("StatefulSet", "sluice-postgres") == nil && in.find("Cluster", "sluice-postgres") == nil {
			there = external
		}
		check := func(owner, secret string, keys ...any) {
			for _, key := range keys {
				if !slices.Contains(there[secret], key.(string)) {
					t.Errorf("%s: nobody makes key %s of Secret %s, which has %v", owner, key, secret, there[secret])
				}
			}
		}
		for _, p := range in.pods() {
			for _, c := range p.containers() {
				for _, v := range list(c, "env") {
					if r := at[map[string]any](v, "valueFrom", "secretKeyRef"); r != nil {
						check(p.owner.name(), r["name"].(string), r["key"])
					}
				}
				if c["envFrom"] != nil {
					t.Errorf("%s takes all keys of %v", p.owner.name(), c["envFrom"])
				}
			}
			for _, v := range list(p.spec, "volumes") {
				if s := at[map[string]any](v, "secret"); s != nil {
					items := list(s, "items")
					if len(items) == 0 {
						t.Errorf("%s mounts all of Secret %s", p.owner.name(), s["secretName"])
					}
					for _, item := range items {
						check(p.owner.name(), s["secretName"].(string), item["key"])
					}
				}
				if m := at[string](v, "configMap", "name"); m != "" && in.find("ConfigMap", m) == nil {
					t.Errorf("%s: there is no ConfigMap %s", p.owner.name(), m)
				}
			}
		}
		for _, cluster := range in.of("Cluster") {
			for _, role := range append(list(cluster, "spec", "managed", "roles"), map[string]any{"passwordSecret": at[any](cluster, "spec", "bootstrap", "initdb", "secret")}) {
				check("the Cluster", at[string](role, "passwordSecret", "name"), "username", "password")
			}
		}
	})
}

// TestEachProgramHasItsOwnSecretsAlone: no program gets credentials of another one, or a database
// login that it does not need.
func TestEachProgramHasItsOwnSecretsAlone(t *testing.T) {
	own := map[string][]string{
		"serve": {"sluice-serve", "sluice-database-program"}, "ingest-worker": {"sluice-ingest-worker", "sluice-database-program", "sluice-database-vector"},
		"query-worker": {"sluice-query-worker", "sluice-database-program"}, "llm-gateway": {"sluice-llm-gateway", "sluice-database-program"},
		"source-worker": {"sluice-source-worker", "sluice-database-program"},
		"gpu-segmenter": {"sluice-gpu-segmenter"}, "gpu-segmenter-cuda": {"sluice-gpu-segmenter"}, "nats": {"sluice-nats-server"},
		"migrate":  {"sluice-database-owner", "sluice-database-program", "sluice-database-vector"},
		"temporal": {"sluice-database-temporal"}, "postgres": {"sluice-database-owner", "sluice-database-superuser", "sluice-database-temporal"},
	}
	each(t, func(t *testing.T, in installation) {
		for _, p := range in.pods() {
			got := map[string]bool{}
			for _, c := range p.containers() {
				for _, v := range list(c, "env") {
					got[at[string](v, "valueFrom", "secretKeyRef", "name")] = true
				}
			}
			for _, v := range list(p.spec, "volumes") {
				got[at[string](v, "secret", "secretName")] = true
			}
			for name := range got {
				if strings.HasPrefix(name, "sluice-") && given[name] == nil && !slices.Contains(own[p.owner.component()], name) {
					t.Errorf("%s gets Secret %s", p.owner.name(), name)
				}
			}
			for _, name := range own[p.owner.component()] {
				if !got[name] {
					t.Errorf("%s does not get Secret %s", p.owner.name(), name)
				}
			}
		}
	})
}

// TestSecretsStayWhenTheyAreMadeAgain: make-secrets changes no existing secret, whatever the number
// of servers. Only the configuration of NATS changes.
func TestSecretsStayWhenTheyAreMadeAgain(t *testing.T) {
	dir := t.TempDir()
	one, three, again := madeSecrets(t, dir), madeSecrets(t, dir, "--nats-replicas", "3", "--tls"), madeSecrets(t, dir)
	if len(one) < 10 || len(three) != len(one) {
		t.Fatalf("%d Secrets, then %d", len(one), len(three))
	}
	for name, o := range one {
		for key, value := range at[map[string]any](o, "data") {
			if value == "" {
				t.Errorf("%s: %s is empty", name, key)
			}
			same := at[string](three[name], "data", key) == value
			if config := name == "sluice-nats-server"; same == config {
				t.Errorf("%s: %s stayed with three servers: %v", name, key, same)
			}
			if at[string](again[name], "data", key) != value {
				t.Errorf("%s: %s is another", name, key)
			}
		}
	}
}

// TestMetricsAreThoseThatThereAre: docs/operating.md lists every metric that the chart names.
func TestMetricsAreThoseThatThereAre(t *testing.T) {
	known := map[string]bool{}
	for line := range strings.Lines(read(t, "docs/operating.md")) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.Contains(cells[1], "`sluice.") {
			continue
		}
		for _, m := range regexp.MustCompile("`(sluice\\.[a-z_.]+)`").FindAllStringSubmatch(cells[1], -1) {
			name := strings.ReplaceAll(m[1], ".", "_")
			if regexp.MustCompile(`_(age|duration|wait|lag)$`).MatchString(name) {
				name += "_seconds"
			}
			switch kind, _, _ := strings.Cut(strings.TrimSpace(cells[2]), ","); kind {
			case "counter":
				known[name+"_total"] = true
			case "histogram":
				known[name+"_bucket"], known[name+"_count"], known[name+"_sum"] = true, true, true
			case "gauge":
				known[name] = true
			default:
				t.Errorf("%s is of the kind %q", name, kind)
			}
		}
	}
	if len(known) < 40 {
		t.Fatalf("docs/operating.md has %d metrics", len(known))
	}
	expressions := 0
	check := func(t *testing.T, where, text string) {
		expressions++
		for _, name := range regexp.MustCompile(`\bsluice_[a-z_]+`).FindAllString(text, -1) {
			if !known[name] {
				t.Errorf("%s: there is no metric %s", where, name)
			}
		}
		for _, pair := range []string{"()", "{}", "[]"} {
			if strings.Count(text, pair[:1]) != strings.Count(text, pair[1:]) {
				t.Errorf("%s: %s is open in %s", where, pair, text)
			}
		}
	}
	each(t, func(t *testing.T, in installation) {
		for _, rule := range in.of("PrometheusRule") {
			var all strings.Builder
			for _, group := range list(rule, "spec", "groups") {
				for _, r := range list(group, "rules") {
					check(t, r["alert"].(string), r["expr"].(string))
					all.WriteString(r["expr"].(string))
				}
			}
			for _, must := range []string{"sluice_outbox_age_seconds", "sluice_ingest_queue_age_seconds", "sluice_questions_queue_age_seconds", "sluice_model_queue_depth",
				"sluice_service_overloaded_total", "sluice_ingest_versions_total", "sluice_llm_breaker", "cnpg_pg_replication_lag"} {
				if !strings.Contains(all.String(), must) && (must != "cnpg_pg_replication_lag" || in.of("Cluster") != nil) {
					t.Errorf("no alert looks at %s", must)
				}
			}
		}
		for _, o := range in.of("ScaledObject") {
			for _, trigger := range list(o, "spec", "triggers") {
				if trigger["type"] == "prometheus" {
					check(t, o.name(), at[string](trigger, "metadata", "query"))
				}
			}
		}
		for _, m := range in.of("ConfigMap") {
			if text := at[string](m, "data", "sluice.json"); text != "" {
				var dashboard map[string]any
				if err := yaml.Unmarshal([]byte(text), &dashboard); err != nil {
					t.Fatal(err)
				}
				for _, panel := range list(dashboard, "panels") {
					for _, target := range list(panel, "targets") {
						check(t, "dashboard, "+panel["title"].(string), target["expr"].(string))
					}
				}
			}
		}
	})
	if expressions < 60 {
		t.Errorf("%d expressions were looked at", expressions)
	}
}

// TestQueuesAreThoseOfTheBus: KEDA uses the names of existing streams and consumers.
func TestQueuesAreThoseOfTheBus(t *testing.T) {
	named := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\s+((?:Stream|Consumer)\w+)\s+= "([^"]+)"`).FindAllStringSubmatch(read(t, "schema/wire/subjects.go"), -1) {
		named[m[1]] = m[2]
	}
	want := map[string][2]string{
		"ingest-worker": {named["StreamIngest"], named["ConsumerIngest"]}, "query-worker": {named["StreamQuestions"], named["ConsumerQuestions"]},
	}
	each(t, func(t *testing.T, in installation) {
		for _, o := range in.of("ScaledObject") {
			var got [2]string
			// KEDA refuses a fallback if CPU use is the only trigger.
			measured := slices.ContainsFunc(list(o, "spec", "triggers"), func(trigger map[string]any) bool { return trigger["type"] != "cpu" })
			if fallback := at[map[string]any](o, "spec", "fallback"); (fallback != nil) != measured {
				t.Errorf("%s has the fallback %v", o.name(), fallback)
			}
			for _, trigger := range list(o, "spec", "triggers") {
				if trigger["type"] == "nats-jetstream" {
					m := at[map[string]any](trigger, "metadata")
					got = [2]string{m["stream"].(string), m["consumer"].(string)}
				}
			}
			if got != want[o.component()] {
				t.Errorf("%s is scaled by %v, want %v", o.name(), got, want[o.component()])
			}
			if in.find("Deployment", at[string](o, "spec", "scaleTargetRef", "name")) == nil {
				t.Errorf("%s scales nothing", o.name())
			}
		}
	})
	if want["query-worker"][0] == "" || want["ingest-worker"][1] == "" {
		t.Errorf("schema/wire/subjects.go has %v", named)
	}
}

// TestImagesAreThoseOfCompose: the chart uses the images that are tested with the compose file.
func TestImagesAreThoseOfCompose(t *testing.T) {
	compose := read(t, "docker-compose.yml")
	each(t, func(t *testing.T, in installation) {
		for _, p := range in.pods() {
			for _, c := range p.containers() {
				image := c["image"].(string)
				if i := strings.Index(image, "sluice/"); i >= 0 {
					image = strings.ReplaceAll(image[i:], ":local", ":${SLUICE_VERSION:-local}")
				}
				if !strings.Contains(compose, "image: "+image+"\n") && !strings.Contains(compose, "image: "+image+" #") {
					t.Errorf("%s: docker-compose.yml has no image %s", p.owner.name(), image)
				}
			}
		}
	})
	if read(t, "deploy/chart/files/postgres-init.sh") != read(t, "deploy/postgres-init.sh") {
		t.Error("deploy/chart/files/postgres-init.sh is another than deploy/postgres-init.sh: copy it")
	}
}
