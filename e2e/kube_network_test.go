//go:build kube

package e2e

// This file is what `make kube-test` does to see that the chart's network policies hold, and let
// through what they have to.

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/waittest"
)

// Ports of the chart, by the names of their Services.
const (
	toPostgres = "sluice-postgres:5432"
	toNATS     = "sluice-nats:4222"
	toMonitor  = "sluice-nats-headless:8222"
	toTemporal = "sluice-temporal:7233"
	toAPI      = "sluice-serve:80"
	toMetrics  = "sluice-serve:9464"
)

var ports = []string{toPostgres, toNATS, toMonitor, toTemporal, toAPI, toMetrics}

// stranger is a pod that is not of the chart.
const stranger = "stranger"

// mayReach is what each pod may connect to, but for itself, as the table in docs/kubernetes.md has
// it.
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

// policies demands that pods reach what they may and nothing else, takes the policies away, upon
// which a stranger reaches everything, and has them back.
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

// reaches demands that a pod connects to these ports, and to no others, at once, or, where policies
// are only coming, soon.
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
				continue // no policy keeps a pod from itself, where the Service may lead
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

// connections are the ports that a pod can connect to, by their names.
func (k *kube) connections(t *testing.T, name string) []string {
	t.Helper()
	script := `for port; do (timeout 5 bash -c "exec 3<>/dev/tcp/${port%:*}/${port#*:}" 2>/dev/null && echo "$port") & done; wait`
	return strings.Fields(k.kubectl(t, append([]string{"exec", name, "--", "bash", "-c", script, "bash"}, ports...)...))
}
