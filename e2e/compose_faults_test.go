//go:build compose

package e2e

// This file is what `make compose-test` does to the containers.

import (
	"testing"
	"time"
)

// composeFault is something that happens to the project.
type composeFault struct {
	name string
	do   func(t *testing.T, c *composition, l *load)
}

// cutOff is how long containers are without a network.
const cutOff = 30 * time.Second

// faults are those of a quick run, or all of them.
func (c *composition) faults(all bool) []composeFault {
	var list []composeFault
	if all {
		list = append(list, composeFault{"upgraded from the version before", upgradeInTurn})
	}
	list = append(list, []composeFault{
		{"all programs killed", killPrograms},
		{"an ingest-worker and a query-worker cut off", cutWorkersOff},
		{"postgres restarted", restart("postgres")},
		{"nats restarted", restart("nats")},
	}...)
	if !all {
		return list
	}
	for _, service := range []string{"postgres", "nats", "temporal"} {
		list = append(list, composeFault{service + " killed", crash(service)})
	}
	return append(list,
		composeFault{"temporal restarted", restart("temporal")},
		composeFault{"every container of ours replaced in turn", replaceInTurn},
	)
}

// killPrograms crashes each process of ours, and returns when all are healthy again.
func killPrograms(t *testing.T, c *composition, l *load) {
	l.without(func() {
		for program := range several {
			for _, id := range c.containers(t, program) {
				c.kill(t, id)
			}
		}
		c.healthy(t)
	})
}

func crash(service string) func(*testing.T, *composition, *load) {
	return func(t *testing.T, c *composition, _ *load) { c.kill(t, c.containers(t, service)[0]) }
}

func restart(service string) func(*testing.T, *composition, *load) {
	return func(t *testing.T, c *composition, _ *load) { c.compose(t, "restart", service) }
}

// cutWorkersOff takes two workers off the network, and brings them back under other addresses:
// their connections die without a word.
func cutWorkersOff(t *testing.T, c *composition, l *load) {
	network := c.name + "_default"
	workers := []string{c.containers(t, "ingest-worker")[0], c.containers(t, "query-worker")[0]}
	before := make([]string, len(workers))
	for i, id := range workers {
		before[i] = c.inspect(t, id)[0].NetworkSettings.Networks[network].IPAddress
		c.docker(t, "network", "disconnect", network, id)
	}
	l.pause(cutOff)
	// Containers that take the addresses meanwhile, so that they are others.
	for range workers {
		taker := c.docker(t, "run", "-d", "--network", network, "--entrypoint", "sleep", "sluice/sluice:local", "600")
		defer c.docker(t, "rm", "-f", taker)
	}
	for i, id := range workers {
		c.docker(t, "network", "connect", "--alias", c.inspect(t, id)[0].service(), network, id)
		if now := c.inspect(t, id)[0].NetworkSettings.Networks[network].IPAddress; now == before[i] {
			t.Errorf("the worker came back with its address %s", now)
		}
	}
}

// replaceInTurn starts each container of ours anew, one after the other, each when the one before
// is healthy.
func replaceInTurn(t *testing.T, c *composition, l *load) {
	l.without(func() {
		for program := range several {
			for _, id := range c.containers(t, program) {
				c.docker(t, "restart", "--time", "40", id)
				c.healthy(t)
			}
		}
	})
}

// images are those of all programs that the compose file may run.
var images = []string{"sluice", "ingest-worker", "query-worker", "llm-gateway", "gpu-segmenter", "source-worker"}

// buildAll builds the images as they ship, by both builders.
func (c *composition) buildAll(t *testing.T) {
	t.Helper()
	c.script(t, "bases", "all")
	for _, kit := range []string{"1", "0"} {
		began := time.Now()
		c.env = append(c.env, "DOCKER_BUILDKIT="+kit)
		c.script(t, "images", images...)
		t.Logf("built with DOCKER_BUILDKIT=%s in %s", kit, time.Since(began).Round(time.Second)) //house:clock it is told
		// What a builder keeps for the next time is 6 GB of the one and 13 of the other. A client
		// without buildx removes it when it is not told to build with BuildKit.
		c.env = append(c.env, "DOCKER_BUILDKIT=0")
		c.docker(t, "builder", "prune", "-af")
		c.docker(t, "image", "prune", "-f")
	}
}
