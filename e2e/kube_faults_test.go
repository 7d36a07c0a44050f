//go:build kube

package e2e

// This file has the faults of `make kube-test`.

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-rag/sluice/internal/waittest"
)

// kubeFault is a fault of the installation.
type kubeFault struct {
	name string
	do   func(t *testing.T, k *kube, l *load)
}

var kubeFaults = []kubeFault{
	{"a pod of each kind killed from outside, in turn", killEach},
	{"a pod of each kind deleted, in turn", deleteEach},
	{"pods evicted, as far as the budgets let", evict},
	{"upgraded to another tag of the same images", upgradeChart},
	{"an upgrade whose migration fails", failingMigration},
	{"an upgrade whose programs end, rolled back", rollBack},
	{"scaled up and down", scale},
	{"without network policies, and with them again", policies},
	{"a backlog, with KEDA", scaleByBacklog},
	{"each node drained, in turn", drain},
}

// killEach kills the containers of one pod of each component. The kubelet restarts them.
func killEach(t *testing.T, k *kube, l *load) {
	l.without(func() {
		for _, component := range components {
			victim := k.pods(t, component)[0]
			killProcesses(t, victim)
			waittest.Until(t, func() string {
				for _, p := range k.pods(t, component) {
					if p.Metadata.UID == victim.Metadata.UID && p.restarts() > victim.restarts() && p.ready() {
						return ""
					}
				}
				return victim.Metadata.Name + " is not back"
			})
		}
	})
}

// killProcesses kills the processes of a pod, except the one that holds its namespaces.
func killProcesses(t *testing.T, p pod) {
	t.Helper()
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, file := range groups {
		group, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(group), "/pod"+p.Metadata.UID+"/") {
			continue // of another pod, or ended
		}
		name, err := os.ReadFile(filepath.Join(filepath.Dir(file), "comm"))
		if err != nil || strings.TrimSpace(string(name)) == "pause" {
			continue
		}
		number, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(number, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatalf("killing a process of %s: %v", p.Metadata.Name, err)
		}
		killed++
	}
	if killed == 0 {
		t.Fatalf("%s has no processes", p.Metadata.Name)
	}
}

// deleteEach deletes one pod of each component, as an operator may do.
func deleteEach(t *testing.T, k *kube, _ *load) {
	for _, component := range components {
		k.kubectl(t, "delete", "pod", k.pods(t, component)[0].Metadata.Name, "--wait")
		k.ready(t)
	}
}

// evict evicts both pods of each program, as draining a node does. The second one must not go
// before the first is replaced.
func evict(t *testing.T, k *kube, _ *load) {
	for _, component := range []string{"serve", "query-worker"} {
		pods := k.pods(t, component)
		if len(pods) != 2 {
			t.Fatalf("there are %d pods of %s, want 2", len(pods), component)
		}
		if err := k.evict(pods[0]); err != nil {
			t.Fatal(err)
		}
		if err := k.evict(pods[1]); err == nil || !strings.Contains(err.Error(), "disruption budget") {
			t.Fatalf("the eviction of the only pod that is left of %s: %v; want that the budget is named", component, err)
		}
		waittest.Until(t, func() string {
			if err := k.evict(pods[1]); err != nil {
				return err.Error()
			}
			return ""
		})
		k.ready(t)
	}
}

func (k *kube) evict(p pod) error {
	body := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":"rag"}}`, p.Metadata.Name)
	_, err := k.command(body, "kubectl", "create", "--raw", "/api/v1/namespaces/rag/pods/"+p.Metadata.Name+"/eviction", "-f", "-")
	return err
}

// of checks that every pod of the programs runs the image of a version.
func (k *kube) of(t *testing.T, version string) {
	t.Helper()
	for _, component := range components[:5] {
		for _, p := range k.pods(t, component) {
			if image := p.Spec.Containers[0].Image; !strings.HasSuffix(image, ":"+version) {
				t.Errorf("%s has the image %s, want %s", p.Metadata.Name, image, version)
			}
		}
	}
}

// names returns the names of all pods of the programs.
func (k *kube) names(t *testing.T) (names []string) {
	t.Helper()
	for _, component := range components[:5] {
		for _, p := range k.pods(t, component) {
			names = append(names, p.Metadata.Name)
		}
	}
	slices.Sort(names)
	return names
}

// upgradeChart checks that an upgrade replaces the programs' pods and leaves the servers' pods
// alone.
func upgradeChart(t *testing.T, k *kube, _ *load) {
	k.must(t, "deploy/chart/make-secrets", "--namespace", "rag", "--dir", k.secrets)
	k.kubectl(t, "rollout", "restart", "statefulset/sluice-nats")
	k.kubectl(t, "rollout", "status", "statefulset/sluice-nats", "--timeout", "10m")
	servers := k.servers(t)
	if err := k.helm(t, "upgrade", "--set", "image.tag="+next); err != nil {
		t.Fatal(err)
	}
	k.ready(t)
	k.of(t, next)
	if now := k.servers(t); !slices.Equal(servers, now) {
		t.Errorf("the pods of servers are %v, and were %v", now, servers)
	}
}

// servers returns the UIDs of the servers' pods: Postgres, NATS and Temporal.
func (k *kube) servers(t *testing.T) (uids []string) {
	t.Helper()
	for _, component := range components[5:] {
		for _, p := range k.pods(t, component) {
			uids = append(uids, p.Metadata.UID)
		}
	}
	return uids
}

// failingMigration checks that no pod is replaced by a version whose migration fails.
func failingMigration(t *testing.T, k *kube, _ *load) {
	before := k.names(t)
	if err := k.helm(t, "upgrade", "--set", "image.tag="+faulty, "--set", "migrate.backoffLimit=1", "--timeout", "10m"); err == nil || !strings.Contains(err.Error(), "pre-upgrade hooks failed") {
		t.Fatalf("an upgrade whose migration fails: %v", err)
	}
	if after := k.names(t); !slices.Equal(before, after) {
		t.Errorf("the pods are %v, and were %v", after, before)
	}
	k.of(t, next)
}

// rollBack upgrades to a version whose API server ends when it starts, and rolls back. No serving
// pod may go before another one is ready.
func rollBack(t *testing.T, k *kube, _ *load) {
	served := k.pods(t, "serve")
	if err := k.helm(t, "upgrade", "--set", "image.tag="+broken); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, func() string {
		for _, p := range k.pods(t, "serve") {
			if strings.HasSuffix(p.Spec.Containers[0].Image, ":"+broken) && p.restarts() > 0 {
				return ""
			}
		}
		return "no pod of the version that ends was started again"
	})
	for _, before := range served {
		if !slices.ContainsFunc(k.pods(t, "serve"), func(p pod) bool { return p.Metadata.UID == before.Metadata.UID && p.ready() }) {
			t.Errorf("%s does not serve any more", before.Metadata.Name)
		}
	}
	k.must(t, "helm", "rollback", "sluice", k.lastGood(t), "-n", "rag")
	k.ready(t)
	k.of(t, next)
}

// lastGood returns the last revision before this one that did not fail. Without a revision, helm
// would roll back to the failed upgrade.
func (k *kube) lastGood(t *testing.T) string {
	t.Helper()
	var history []struct {
		Revision int
		Status   string
	}
	if err := json.Unmarshal([]byte(k.must(t, "helm", "history", "sluice", "-n", "rag", "-o", "json")), &history); err != nil {
		t.Fatal(err)
	}
	for _, r := range slices.Backward(history) {
		if r.Status == "superseded" {
			return strconv.Itoa(r.Revision)
		}
	}
	t.Fatalf("no revision is to go back to: %v", history)
	return ""
}

// scale changes the number of pods by hand.
func scale(t *testing.T, k *kube, _ *load) {
	for _, n := range []string{"4", "1"} {
		if err := k.helm(t, "upgrade", "--set", "image.tag="+next, "--set", "ingestWorker.replicas="+n, "--set", "queryWorker.replicas="+n,
			"--set", "gpuSegmenter.replicas="+n); err != nil {
			t.Fatal(err)
		}
		k.ready(t)
		if got := strconv.Itoa(len(k.pods(t, "ingest-worker"))); got != n {
			t.Errorf("there are %s pods of ingest-worker, want %s", got, n)
		}
	}
}
