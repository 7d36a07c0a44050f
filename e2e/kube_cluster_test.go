//go:build kube

package e2e

// This file has the cluster of `make kube-test`, its images and its pods.

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// kube is a cluster with the chart installed.
type kube struct {
	repository, programs, dir string
	env                       []string
	secrets                   string // folder of the secrets that make-secrets wrote
	server                    *server
	more                      func() // starts the next part of the load
}

// nodes are the cluster's nodes; the first runs the API server.
var nodes = []string{"sluice-node-a", "sluice-node-b"}

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
	// Each node stores the images twice: packed and unpacked.
	var disk syscall.Statfs_t
	if err := syscall.Statfs(home, &disk); err != nil {
		t.Fatal(err)
	}
	if free := disk.Bavail * uint64(disk.Bsize) >> 30; free < 8 {
		t.Fatalf("%s has %d GB free, and the test needs 8", home, free)
	}
	host := strings.TrimSpace(containersScript(t, repository, nil, "engine", "start"))
	t.Cleanup(func() { containersScript(t, repository, nil, "engine", "stop") })
	k.env = append(k.env, "DOCKER_HOST="+host)
	return k
}

// command runs a program in the repository with stdin, and returns its output.
func (k *kube) command(stdin, name string, args ...string) (string, error) {
	path := name
	if !strings.Contains(name, "/") {
		if _, err := os.Stat(filepath.Join(k.programs, name)); err == nil {
			path = filepath.Join(k.programs, name)
		}
	}
	cmd := exec.Command(path, args...) // without the test's context, because cleanups run it too
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

// kubectl runs kubectl in the chart's namespace, and returns its output.
func (k *kube) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return k.must(t, "kubectl", append([]string{"-n", "rag"}, args...)...)
}

// others returns the images of other projects that the chart names. They get stand-ins.
func (k *kube) others(t *testing.T) (images []string) {
	t.Helper()
	rendered := k.must(t, "helm", "template", "sluice", "deploy/chart", "--validate") // uses the Kubernetes version of the cluster
	for line := range strings.Lines(rendered) {
		image, ok := strings.CutPrefix(strings.TrimSpace(line), "image: ")
		if ok && !strings.HasPrefix(image, "sluice/") && !slices.Contains(images, image) {
			images = append(images, image)
		}
	}
	return images
}

// Tags of the images. next has the same images as local. With faulty, the migration fails; with
// broken, the programs end when they start.
const (
	here   = "local"
	next   = "next"
	faulty = "faulty"
	broken = "broken"
)

// images builds all images; it pulls none.
func (k *kube) images(t *testing.T) {
	t.Helper()
	containersScript(t, k.repository, nil, "bases")
	containersScript(t, k.repository, nil, "images", "--here")
	k.build(t, "sluice/pause:local", "FROM scratch\nCOPY pause /pause\nENTRYPOINT [\"/pause\"]\n", filepath.Join(k.programs, "pause"))
	for _, o := range operators {
		k.build(t, o.image, fmt.Sprintf("FROM scratch\nCOPY %s /%[1]s\nUSER 1000\nENTRYPOINT [\"/%[1]s\"]\n", o.program), filepath.Join(k.programs, o.program))
	}
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

// build builds an image from a Dockerfile and the files beside it.
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

// start starts the cluster, which ends with the test, and loads the images into its nodes.
func (k *kube) start(t *testing.T) {
	t.Helper()
	began := time.Now()
	cmd := exec.Command(filepath.Join(k.programs, "cluster"), k.programs, k.dir)
	cmd.Stderr = os.Stderr
	held, err := cmd.StdinPipe() // closed when this process ends, in whatever way
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
	if waittest.Receive(t, first, "nodes that are ready") == "" {
		t.Fatalf("the cluster did not start; its logs are in %s", k.dir)
	}
	t.Logf("the nodes are ready after %s: %s", time.Since(began).Round(time.Second), k.must(t, "kubectl", "version")) //house:clock it is told

	began = time.Now()
	images := []string{"sluice/pause:local"}
	for _, o := range operators {
		images = append(images, o.image)
	}
	for _, program := range []string{"sluice", "ingest-worker", "query-worker", "llm-gateway", "gpu-segmenter"} {
		for _, version := range []string{here, next, faulty, broken} {
			images = append(images, "sluice/"+program+":"+version)
		}
	}
	for _, image := range k.others(t) {
		t.Logf("%s is a stand-in: %s", image, k.must(t, "docker", "image", "inspect", "--format", `{{index .Config.Labels "sluice.stand-in"}}`, image))
		images = append(images, image)
	}
	var imports sync.WaitGroup
	for _, node := range nodes {
		imports.Go(func() {
			importing := `set -o pipefail; docker save "${@:2}" | ctr --address "$1" --namespace k8s.io images import -`
			if _, err := k.command("", "bash", append([]string{"-c", importing, "bash", filepath.Join(k.dir, node, "containerd.sock")}, images...)...); err != nil {
				t.Error(err)
			}
		})
	}
	imports.Wait()
	t.Logf("each node has %d images after %s", len(images), time.Since(began).Round(time.Second)) //house:clock it is told
}

// pod is a pod as the API server describes it.
type pod struct {
	Metadata struct {
		Name, UID         string
		Labels            map[string]string
		DeletionTimestamp string
	}
	Spec struct {
		NodeName   string
		Containers []struct{ Image string }
	}
	Status struct {
		Phase, PodIP string
		Conditions   []struct{ Type, Status string }
		// Init containers are not included.
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

// pods returns the pods of a component, without those that are being deleted.
func (k *kube) pods(t *testing.T, component string) []pod {
	t.Helper()
	var list struct{ Items []pod }
	if err := json.Unmarshal([]byte(k.kubectl(t, "get", "pods", "-l", "app.kubernetes.io/component="+component, "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(p pod) bool { return p.Metadata.DeletionTimestamp != "" })
}
