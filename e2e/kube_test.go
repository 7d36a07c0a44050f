//go:build kube

package e2e

// This file is `make kube-test`: the chart with servers of its own, in a real Kubernetes of one node, under load, while
// pods are killed, evicted, replaced by another version, and scaled.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// components are the pods of the chart by what they are, those of others last.
var components = []string{"serve", "ingest-worker", "query-worker", "llm-gateway", "gpu-segmenter", "postgres", "nats", "temporal"}

func TestKube(t *testing.T) {
	articles, questions := squadArticles(t)
	if articles == nil {
		t.Fatal("the test of the chart needs squad-articles")
	}
	k := newKube(t)
	k.images(t)
	k.start(t)
	k.install(t)
	k.documented(t)
	l := newLoad(t, k.server, articles, questions[:60])

	for i, f := range kubeFaults {
		l.part(t, i, len(kubeFaults))
		began := time.Now()
		f.do(t, k, l)
		back := time.Since(began) //house:clock it is told, not waited for
		l.serves(t)
		t.Logf("%-52s took %s, served again %s after it", f.name, back.Round(time.Second), (time.Since(began) - back).Round(time.Second)) //house:clock it is told
	}
	l.finish(t)
	nothingLeft(t, k.databaseURL(t), l)
	sameContent(t, k.server, articles)
	k.ready(t)
	t.Logf("pods at the end:\n%s", k.kubectl(t, "get", "pods", "-o", "wide"))
}

// kube is a cluster with the chart in it.
type kube struct {
	repository, programs, dir string
	env                       []string
	secrets                   string // the folder of make-secrets
	server                    *server
}

func newKube(t *testing.T) *kube {
	t.Helper()
	repository, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	home, err := local.Home()
	if err != nil {
		t.Fatal(err)
	}
	k := &kube{repository: repository, programs: filepath.Join(home, "tools", "kube"), dir: filepath.Join(home, "kube"), secrets: t.TempDir()}
	k.env = append(os.Environ(), "PATH="+k.programs+":"+os.Getenv("PATH"), "SLUICE="+filepath.Join(repository, "bin", "sluice"),
		"KUBECONFIG="+filepath.Join(k.dir, "admin.kubeconfig"), "HELM_CACHE_HOME="+t.TempDir(), "HELM_CONFIG_HOME="+t.TempDir(), "HELM_DATA_HOME="+t.TempDir())
	host := strings.TrimSpace(containersScript(t, repository, nil, "engine", "start"))
	t.Cleanup(func() { containersScript(t, repository, nil, "engine", "stop") })
	k.env = append(k.env, "DOCKER_HOST="+host)
	return k
}

// command runs a program in the repository, with stdin, and returns what it prints.
func (k *kube) command(stdin, name string, args ...string) (string, error) {
	path := name
	if !strings.Contains(name, "/") {
		if _, err := os.Stat(filepath.Join(k.programs, name)); err == nil {
			path = filepath.Join(k.programs, name)
		}
	}
	cmd := exec.Command(path, args...) // also when the test has ended
	cmd.Dir, cmd.Env, cmd.Stdin = k.repository, k.env, strings.NewReader(stdin)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, problems.Bytes())
	}
	return strings.TrimSpace(string(out)), err
}

func (k *kube) must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := k.command("", name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// kubectl works in the chart's namespace.
func (k *kube) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return k.must(t, "kubectl", append([]string{"-n", "rag"}, args...)...)
}

// stand-ins for images of others, which the chart names.
func (k *kube) others(t *testing.T) (images []string) {
	t.Helper()
	rendered := k.must(t, "helm", "template", "sluice", "deploy/chart", "--validate") // for the version of the cluster
	for line := range strings.Lines(rendered) {
		image, ok := strings.CutPrefix(strings.TrimSpace(line), "image: ")
		if ok && !strings.HasPrefix(image, "sluice/") && !slices.Contains(images, image) {
			images = append(images, image)
		}
	}
	return images
}

// Versions that the images are given. These of next are the same images; faulty doesn't migrate, and broken's programs
// end when they start.
const (
	here   = "local"
	next   = "next"
	faulty = "faulty"
	broken = "broken"
)

// images are made here; none is fetched.
func (k *kube) images(t *testing.T) {
	t.Helper()
	containersScript(t, k.repository, nil, "bases")
	containersScript(t, k.repository, nil, "images", "--here")
	k.build(t, "sluice/pause:local", "FROM scratch\nCOPY pause /pause\nENTRYPOINT [\"/pause\"]\n", filepath.Join(k.programs, "pause"))
	for _, program := range []string{"sluice", "ingest-worker", "query-worker", "llm-gateway", "gpu-segmenter"} {
		for _, version := range []string{next, faulty, broken} {
			k.must(t, "docker", "tag", "sluice/"+program+":"+here, "sluice/"+program+":"+version)
		}
	}
	k.build(t, "sluice/sluice:"+faulty, "FROM sluice/sluice:"+here+"\n"+
		`ENTRYPOINT ["sh", "-c", "if [ \"$1\" = migrate ]; then echo this migration fails; exit 1; fi; exec sluice \"$@\"", "sluice"]`+"\n")
	k.build(t, "sluice/sluice:"+broken, "FROM sluice/sluice:"+here+"\n"+
		`ENTRYPOINT ["sh", "-c", "if [ \"$1\" = serve ]; then echo this program ends; exit 1; fi; exec sluice \"$@\"", "sluice"]`+"\n")
}

// build makes an image of a Dockerfile and files beside it.
func (k *kube) build(t *testing.T, image, dockerfile string, beside ...string) {
	t.Helper()
	dir := t.TempDir()
	for _, file := range beside {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(dockerfile), 0o644); err != nil {
		t.Fatal(err)
	}
	k.must(t, "docker", "build", "-q", "-t", image, dir)
}

// start starts the cluster, which ends with the test, and gives it the images.
func (k *kube) start(t *testing.T) {
	t.Helper()
	began := time.Now()
	cmd := exec.Command(filepath.Join(k.programs, "cluster"), k.programs, k.dir)
	cmd.Stderr = os.Stderr
	held, err := cmd.StdinPipe() // closed when this process ends, however it ends
	if err != nil {
		t.Fatal(err)
	}
	says, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		line, _ := bufio.NewReader(says).ReadString('\n')
		first <- line
		ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = held.Close()
		if err := waittest.Receive(t, ended, "the end of the cluster"); err != nil {
			t.Errorf("the cluster ended with %v", err)
		}
	})
	if waittest.Receive(t, first, "a node that is ready") == "" {
		t.Fatalf("the cluster did not start; its logs are in %s", filepath.Join(k.dir, "log"))
	}
	t.Logf("the node is ready after %s: %s", time.Since(began).Round(time.Second), k.must(t, "kubectl", "version")) //house:clock it is told

	began = time.Now()
	images := []string{"sluice/pause:local"}
	for _, program := range []string{"sluice", "ingest-worker", "query-worker", "llm-gateway", "gpu-segmenter"} {
		for _, version := range []string{here, next, faulty, broken} {
			images = append(images, "sluice/"+program+":"+version)
		}
	}
	for _, image := range k.others(t) {
		t.Logf("%s is a stand-in: %s", image, k.must(t, "docker", "image", "inspect", "--format", `{{index .Config.Labels "sluice.stand-in"}}`, image))
		images = append(images, image)
	}
	archive := filepath.Join(t.TempDir(), "images.tar")
	k.must(t, "docker", append([]string{"save", "-o", archive}, images...)...)
	k.must(t, "ctr", "--address", filepath.Join(k.dir, "containerd.sock"), "--namespace", "k8s.io", "images", "import", archive)
	if err := os.Remove(archive); err != nil {
		t.Fatal(err)
	}
	t.Logf("the node has %d images after %s", len(images), time.Since(began).Round(time.Second)) //house:clock it is told
}

// helm installs or upgrades, with the test's values and settings of its own.
func (k *kube) helm(t *testing.T, verb string, args ...string) error {
	t.Helper()
	_, err := k.command("", "helm", append([]string{verb, "sluice", "deploy/chart", "-n", "rag", "-f", "e2e/testdata/kube/values.yaml"}, args...)...)
	return err
}

// install does what docs/kubernetes.md says.
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

// documented ingests the examples and asks, as docs/kubernetes.md does, through the Service.
func (k *kube) documented(t *testing.T) {
	t.Helper()
	began := time.Now()
	k.server.sluice(t, "ingest", filepath.Join(k.repository, "examples", "documents"), "--collection", "docs", "--wait").ok(t)
	answer := k.server.sluice(t, "ask", "How long is the notice period?", "--collection", "docs").ok(t)
	t.Logf("the examples were ingested and a question answered in %s:\n%s", time.Since(began).Round(time.Second), answer.out) //house:clock it is told
}

// tell shows what an operator would look at first.
func (k *kube) tell(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"get", "all,pvc,pdb", "-o", "wide"}, {"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "-l", "app.kubernetes.io/name=sluice", "--all-containers", "--prefix", "--tail", "15", "--max-log-requests", "30"}} {
		out, err := k.command("", "kubectl", append([]string{"-n", "rag"}, args...)...)
		t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// pod is what the API server says about one.
type pod struct {
	Metadata struct {
		Name, UID         string
		Labels            map[string]string
		DeletionTimestamp string
	}
	Spec struct {
		Containers []struct{ Image string }
	}
	Status struct {
		Phase, PodIP string
		Conditions   []struct{ Type, Status string }
		// Of containers that run, without those that come before.
		ContainerStatuses []struct {
			RestartCount int
			Ready        bool
		}
	}
}

func (p pod) ready() bool {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

func (p pod) restarts() (n int) {
	for _, c := range p.Status.ContainerStatuses {
		n += c.RestartCount
	}
	return n
}

// pods of a component that are not about to end.
func (k *kube) pods(t *testing.T, component string) []pod {
	t.Helper()
	var list struct{ Items []pod }
	if err := json.Unmarshal([]byte(k.kubectl(t, "get", "pods", "-l", "app.kubernetes.io/component="+component, "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(p pod) bool { return p.Metadata.DeletionTimestamp != "" })
}

// ready waits until every Deployment and StatefulSet has all the pods that it wants, and all are ready.
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

func (k *kube) databaseURL(t *testing.T) string {
	t.Helper()
	password, err := os.ReadFile(filepath.Join(k.secrets, "password-of-superuser"))
	if err != nil {
		t.Fatal(err)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", string(password)),
		Host: net.JoinHostPort(k.pods(t, "postgres")[0].Status.PodIP, "5432"), Path: "/sluice", RawQuery: "sslmode=disable"}
	return u.String()
}
