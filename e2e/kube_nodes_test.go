//go:build kube

package e2e

// This file is the part of `make kube-test` that drains nodes, as an operator does before updating
// a node.

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// drain drains the second node and then the first, to which all pods have moved. Volumes are
// reachable from both nodes. Of two pods of a program on one node, the second stays until the first
// is replaced.
func drain(t *testing.T, k *kube, l *load) {
	for _, node := range slices.Backward(nodes) {
		before := k.on(t, node)
		if len(before) == 0 {
			t.Fatalf("no pod is on %s", node)
		}
		began := time.Now()
		said := k.must(t, "sh", "-c", "exec kubectl drain "+node+" --ignore-daemonsets --delete-emptydir-data 2>&1")
		took := time.Since(began) //house:clock it is told, not waited for
		k.ready(t)
		l.serves(t)
		all := time.Since(began) //house:clock it is told, not waited for
		if left := k.on(t, node); len(left) > 0 {
			t.Errorf("%v are on %s, which was drained", left, node)
		}
		held := strings.Count(said, "would violate the pod's disruption budget")
		if node == nodes[0] && held == 0 {
			t.Errorf("no budget kept both pods of a program from going at once:\n%s", said)
		}
		t.Logf("%s was drained of %v in %s; all pods were ready and all was served after %s; budgets held pods back %d times",
			node, before, took.Round(time.Second), all.Round(time.Second), held)
		k.must(t, "kubectl", "uncordon", node)
	}
}

// spread checks that two pods of a program are not on one node.
func (k *kube) spread(t *testing.T) {
	t.Helper()
	for _, component := range components {
		if pods := k.pods(t, component); len(pods) == 2 && pods[0].Spec.NodeName == pods[1].Spec.NodeName {
			t.Errorf("both pods of %s are on %s", component, pods[0].Spec.NodeName)
		}
	}
}

// on returns the components on a node, each with the number of its pods.
func (k *kube) on(t *testing.T, node string) (on []string) {
	t.Helper()
	for _, component := range components {
		n := 0
		for _, p := range k.pods(t, component) {
			if p.Spec.NodeName == node {
				n++
			}
		}
		if n > 0 {
			on = append(on, fmt.Sprintf("%d %s", n, component))
		}
	}
	return on
}
