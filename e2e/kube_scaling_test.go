//go:build kube

package e2e

// This file is the part of `make kube-test` in which KEDA changes the number of pods by the length
// of a queue.

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/waittest"
)

// operators are the images of KEDA's programs and of metrics-server, which reports CPU use to the
// autoscaler.
var operators = []struct{ image, program string }{
	{"ghcr.io/kedacore/keda:local", "keda"},
	{"ghcr.io/kedacore/keda-metrics-apiserver:local", "keda-adapter"},
	{"ghcr.io/kedacore/keda-admission-webhooks:local", "keda-admission-webhooks"},
	{"metrics-server:local", "metrics-server"},
}

// operators installs them as their manifests say. They become ready while the chart is installed.
func (k *kube) operators(t *testing.T) {
	t.Helper()
	for _, name := range []string{"metrics-server", "keda"} {
		k.must(t, "kubectl", "apply", "--server-side", "-f", filepath.Join(k.programs, name+".yaml"))
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, name := range []string{"keda-operator", "keda-metrics-apiserver", "keda-admission"} {
				out, err := k.command("", "kubectl", "-n", "keda", "logs", "deploy/"+name, "--tail", "20")
				t.Logf("logs of %s: %v\n%s", name, err, out)
			}
		}
	})
}

// backlog is how many parts of the load are started at once to fill the queue.
const backlog = 10

// scaleByBacklog checks that a full queue scales ingest-worker from one pod to its maximum, and an
// empty one back to one.
func scaleByBacklog(t *testing.T, k *kube, _ *load) {
	k.must(t, "kubectl", "-n", "kube-system", "rollout", "status", "deploy/metrics-server", "--timeout", "10m")
	for _, name := range []string{"keda-operator", "keda-metrics-apiserver", "keda-admission"} {
		k.must(t, "kubectl", "-n", "keda", "rollout", "status", "deploy/"+name, "--timeout", "10m")
	}
	if err := k.helm(t, "upgrade", "--set", "image.tag="+next, "-f", "e2e/testdata/kube/autoscaled.yaml"); err != nil {
		t.Fatal(err)
	}
	k.kubectl(t, "wait", "--for=condition=Ready", "scaledobject/sluice-ingest-worker", "--timeout", "10m")
	k.ready(t)
	waittest.Until(t, func() string {
		s := k.scaler(t)
		if n := len(k.pods(t, "ingest-worker")); n != 1 || len(s.Status.CurrentMetrics) < 2 {
			return fmt.Sprintf("there are %d pods of ingest-worker, want one, and the autoscaler knows %+v", n, s.Status.CurrentMetrics)
		}
		return ""
	})

	began := time.Now()
	for range backlog {
		k.more()
	}
	most, seen := 0, ""
	waittest.Until(t, func() string {
		s := k.scaler(t)
		if most = len(k.pods(t, "ingest-worker")); most == s.Spec.MaxReplicas {
			seen = s.waiting()
			return ""
		}
		return fmt.Sprintf("there are %d pods of ingest-worker, want %d; %+v", most, s.Spec.MaxReplicas, s.Status)
	})
	up := time.Since(began) //house:clock it is told, not waited for
	waittest.Until(t, func() string {
		if n := len(k.pods(t, "ingest-worker")); n != 1 {
			return fmt.Sprintf("there are %d pods of ingest-worker, want one; %+v", n, k.scaler(t).Status)
		}
		return ""
	})
	down := time.Since(began) //house:clock it is told, not waited for
	why := k.kubectl(t, "get", "events", "--field-selector", "reason=SuccessfulRescale", "-o", `jsonpath={range .items[*]}{.message}{"\n"}{end}`)
	if !strings.Contains(why, "nats-jetstream") {
		t.Errorf("not what waits in the queue scaled ingest-worker: %s", why)
	}
	t.Logf("a backlog took ingest-worker from 1 pod to %d in %s (messages for each pod then: %s), and its end back to 1 after %s:\n%s",
		most, up.Round(time.Second), seen, down.Round(time.Second), why)
	if err := k.helm(t, "upgrade", "--set", "image.tag="+next); err != nil {
		t.Fatal(err)
	}
	k.ready(t)
}

// scaler is the autoscaler that KEDA created for ingest-worker.
type scaler struct {
	Spec   struct{ MaxReplicas int }
	Status struct {
		CurrentReplicas, DesiredReplicas int
		CurrentMetrics                   []struct {
			Type     string
			External struct {
				Current struct{ AverageValue string }
			}
		}
	}
}

// waiting returns the number of messages for each pod.
func (s scaler) waiting() string {
	for _, m := range s.Status.CurrentMetrics {
		if m.Type == "External" {
			return m.External.Current.AverageValue
		}
	}
	return ""
}

func (k *kube) scaler(t *testing.T) (s scaler) {
	t.Helper()
	if err := json.Unmarshal([]byte(k.kubectl(t, "get", "hpa", "keda-hpa-sluice-ingest-worker", "-o", "json")), &s); err != nil {
		t.Fatal(err)
	}
	return s
}
