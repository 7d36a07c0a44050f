//go:build kube

package e2e

// This file is `make kube-test`: it installs the chart with its own servers in a real Kubernetes
// cluster of two nodes that enforces network policies. Under load, pods are killed, evicted,
// replaced by another version and scaled, and nodes are drained.

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/waittest"
)

// components are the components of the chart; the servers of other projects come last.
var components = []string{"serve", "ingest-worker", "query-worker", "llm-gateway", "gpu-segmenter", "postgres", "nats", "temporal"}

func TestKube(t *testing.T) {
	articles, questions := squadArticles(t)
	if articles == nil {
		t.Fatal("the test of the chart needs squad-articles")
	}
	k := newKube(t)
	k.images(t)
	k.start(t)
	k.operators(t)
	k.install(t)
	near := *k.server
	near.url = "http://" + k.forward(t, "svc/sluice-serve", "80")
	ingestAndAsk(t, k.repository, &near)
	l := newLoad(t, k.server, articles, questions[:60])

	part := 0
	k.more = func() {
		l.part(t, part, len(kubeFaults)+backlog)
		part++
	}
	for _, f := range kubeFaults {
		k.more()
		began := time.Now()
		f.do(t, k, l)
		back := time.Since(began) //house:clock it is told, not waited for
		l.serves(t)
		for _, wrong := range l.takeWrong() {
			t.Errorf("%s: %s", f.name, wrong)
		}
		t.Logf("%-52s took %s, served again %s after it", f.name, back.Round(time.Second), (time.Since(began) - back).Round(time.Second)) //house:clock it is told
	}
	l.finish(t)
	database := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", k.secret(t, "password-of-superuser")),
		Host: k.forward(t, "pod/sluice-postgres-0", "5432"), Path: "/sluice", RawQuery: "sslmode=disable"}
	nothingLeft(t, database.String(), l)
	sameContent(t, k.server, articles)
	k.ready(t)
	t.Logf("pods at the end:\n%s", k.kubectl(t, "get", "pods", "-o", "wide"))
	k.uninstall(t)
}

// helm installs or upgrades the chart with the test's values and further settings.
func (k *kube) helm(t *testing.T, verb string, args ...string) error {
	t.Helper()
	_, err := k.command("", "helm", append([]string{verb, "sluice", "deploy/chart", "-n", "rag", "-f", "e2e/testdata/kube/values.yaml"}, args...)...)
	return err
}

// install follows docs/kubernetes.md.
func (k *kube) install(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			k.tell(t)
		}
	})
	began := time.Now()
	k.must(t, "kubectl", "create", "namespace", "rag")
	k.must(t, "deploy/chart/make-secrets", "--namespace", "rag", "--dir", k.secrets)
	if err := k.helm(t, "install"); err != nil {
		t.Fatal(err)
	}
	k.kubectl(t, "rollout", "status", "deploy/sluice-serve", "--timeout", "10m")
	k.ready(t)
	k.spread(t)
	t.Logf("all pods are ready %s after make-secrets", time.Since(began).Round(time.Second)) //house:clock it is told

	k.kubectl(t, "create", "job", "sluice-bootstrap", "--from=cronjob/sluice-bootstrap")
	k.kubectl(t, "wait", "--for=condition=complete", "job/sluice-bootstrap", "--timeout", "5m")
	key := ""
	for word := range strings.FieldsSeq(k.kubectl(t, "logs", "job/sluice-bootstrap")) {
		if strings.HasPrefix(word, "slu_") {
			key = word
		}
	}
	if key == "" {
		t.Fatal("the log of sluice-bootstrap has no key")
	}
	address := k.kubectl(t, "get", "service", "sluice-serve", "-o", "jsonpath={.spec.clusterIP}")
	k.server = &server{programs: programs{dir: filepath.Join(k.repository, "bin"), repository: k.repository}, url: "http://" + address, key: key}
}

// uninstall follows docs/kubernetes.md, and checks that nothing is left.
func (k *kube) uninstall(t *testing.T) {
	t.Helper()
	k.must(t, "helm", "uninstall", "sluice", "-n", "rag")
	k.kubectl(t, "delete", "job,pvc", "-l", "app.kubernetes.io/instance=sluice")
	k.kubectl(t, "delete", "secret", "-l", "!helm.sh/chart")
	waittest.Until(t, func() string {
		return k.kubectl(t, "get", "all,ingresses,networkpolicies,poddisruptionbudgets,pvc,secrets,scaledobjects", "-o", "name")
	})
}

// forward returns an address of this machine that forwards to a port of a pod until the test ends.
func (k *kube) forward(t *testing.T, to, port string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(k.programs, "kubectl"), "-n", "rag", "port-forward", to, ":"+port)
	cmd.Env = k.env
	says, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewReader(says)
		first, _ := lines.ReadString('\n')
		line <- first
		_, _ = io.Copy(io.Discard, lines)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		waittest.Receive(t, ended, "the end of kubectl port-forward")
	})
	// The line is "Forwarding from 127.0.0.1:40123 -> 5432".
	words := strings.Fields(waittest.Receive(t, line, "kubectl port-forward"))
	if len(words) != 5 || words[0] != "Forwarding" {
		t.Fatalf("kubectl port-forward %s %s says %q", to, port, words)
	}
	return words[2]
}

// tell logs what an operator would look at first.
func (k *kube) tell(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"get", "all,pvc,pdb", "-o", "wide"}, {"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "-l", "app.kubernetes.io/name=sluice", "--all-containers", "--prefix", "--tail", "15", "--max-log-requests", "30"}} {
		out, err := k.command("", "kubectl", append([]string{"-n", "rag"}, args...)...)
		t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// ready waits until every Deployment and StatefulSet has all its pods, and all are ready.
func (k *kube) ready(t *testing.T) {
	t.Helper()
	waittest.Until(t, func() string {
		var list struct {
			Items []struct {
				Metadata struct {
					Name       string
					Generation int
				}
				Spec   struct{ Replicas int }
				Status struct{ ObservedGeneration, Replicas, ReadyReplicas, UpdatedReplicas int }
			}
		}
		if err := json.Unmarshal([]byte(k.kubectl(t, "get", "deployments,statefulsets", "-o", "json")), &list); err != nil {
			t.Fatal(err)
		}
		for _, d := range list.Items {
			s := d.Status
			if s.ObservedGeneration != d.Metadata.Generation || s.Replicas != d.Spec.Replicas || s.ReadyReplicas != s.Replicas || s.UpdatedReplicas != s.Replicas {
				return fmt.Sprintf("%s has %d pods of this version, %d of %d are ready, and wants %d", d.Metadata.Name, s.UpdatedReplicas, s.ReadyReplicas, s.Replicas, d.Spec.Replicas)
			}
		}
		return ""
	})
}

// secret returns a secret that make-secrets stored in a file.
func (k *kube) secret(t *testing.T, file string) string {
	t.Helper()
	secret, err := os.ReadFile(filepath.Join(k.secrets, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(secret)
}
