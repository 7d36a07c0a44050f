//go:build kube

package e2e

// This file is the part of `make kube-test` that checks that the chart's network policies allow the
// necessary connections and no others.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/waittest"
)

// Ports of the chart, with the names of their Services.
const (
	toPostgres = "sluice-postgres:5432"
	toNATS     = "sluice-nats:4222"
	toMonitor  = "sluice-nats-headless:8222"
	toTemporal = "sluice-temporal:7233"
	toAPI      = "sluice-serve:80"
	toMetrics  = "sluice-serve:9464"
)

var ports = []string{toPostgres, toNATS, toMonitor, toTemporal, toAPI, toMetrics}

// stranger is a pod that does not belong to the chart.
const stranger = "stranger"

// mayReach has the ports to which each pod may connect, apart from its own, as in the table of
// docs/kubernetes.md.
var mayReach = map[string][]string{
	"serve":         {toPostgres, toNATS, toTemporal},
	"ingest-worker": {toPostgres, toNATS, toTemporal},
	"query-worker":  {toPostgres, toNATS, toTemporal},
	"llm-gateway":   {toPostgres, toNATS},
	"gpu-segmenter": {toNATS},
	"temporal":      {toPostgres},
	"postgres":      {},
	stranger:        {toAPI},
}

// policies checks that pods reach what they may and nothing else. Then it removes the policies,
// after which a stranger reaches everything, and restores them.
func policies(t *testing.T, k *kube, _ *load) {
	k.kubectl(t, "run", stranger, "--image=sluice/sluice:"+here, "--image-pull-policy=Never", "--restart=Never", "--command", "--", "sleep", "infinity")
	k.kubectl(t, "wait", "--for=condition=Ready", "pod/"+stranger, "--timeout=5m")
	for _, from := range slices.Sorted(maps.Keys(mayReach)) {
		k.reaches(t, from, mayReach[from], false)
	}
	if err := k.helm(t, "upgrade", "--set", "image.tag="+next, "--set", "networkPolicy.enabled=false"); err != nil {
		t.Fatal(err)
	}
	k.reaches(t, stranger, ports, false)
	if err := k.helm(t, "upgrade", "--set", "image.tag="+next); err != nil {
		t.Fatal(err)
	}
	k.reaches(t, stranger, mayReach[stranger], true)
	k.kubectl(t, "delete", "pod", stranger, "--wait", "--grace-period=1")
	k.ready(t)
}

// reaches checks that a pod can connect to these ports and to no others. With soon, it waits until
// new policies take effect.
func (k *kube) reaches(t *testing.T, from string, want []string, soon bool) {
	t.Helper()
	name := from
	if from != stranger {
		name = k.pods(t, from)[0].Metadata.Name
	}
	waittest.Until(t, func() string {
		got := k.connections(t, name)
		for _, port := range ports {
			if strings.HasPrefix(port, "sluice-"+from+":") {
				continue // policies do not stop a pod from connecting to itself through its Service
			}
			if slices.Contains(got, port) && !slices.Contains(want, port) && !soon {
				t.Fatalf("%s reaches %s", from, port)
			}
			if slices.Contains(got, port) != slices.Contains(want, port) {
				return fmt.Sprintf("%s reaches %v, want %v", from, got, want)
			}
		}
		t.Logf("%s reaches %v", from, got)
		return ""
	})
}

// connections returns the names of the ports to which a pod can connect.
func (k *kube) connections(t *testing.T, name string) []string {
	t.Helper()
	script := `for port; do (timeout 5 bash -c "exec 3<>/dev/tcp/${port%:*}/${port#*:}" 2>/dev/null && echo "$port") & done; wait`
	return strings.Fields(k.kubectl(t, append([]string{"exec", name, "--", "bash", "-c", script, "bash"}, ports...)...))
}
