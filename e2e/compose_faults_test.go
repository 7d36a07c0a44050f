//go:build compose

package e2e

// This file has the faults of `make compose-test`.

import (
	"testing"
	"time"
)

// composeFault is a fault of the project's containers.
type composeFault struct {
	name string
	do   func(t *testing.T, c *composition, l *load)
}

// cutOff is how long containers are without network.
const cutOff = 30 * time.Second

// faults returns all faults, or those of a quick run.
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

// killPrograms kills each process of Sluice, and returns when all containers are healthy again.
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

// cutWorkersOff disconnects two workers from the network, and reconnects them with other addresses.
// Their old connections are not closed.
func cutWorkersOff(t *testing.T, c *composition, l *load) {
	network := c.name + "_default"
	workers := []string{c.containers(t, "ingest-worker")[0], c.containers(t, "query-worker")[0]}
	before := make([]string, len(workers))
	for i, id := range workers {
		before[i] = c.inspect(t, id)[0].NetworkSettings.Networks[network].IPAddress
		c.docker(t, "network", "disconnect", network, id)
	}
	l.pause(cutOff)
	// Other containers take the addresses in the meantime, so that the workers get new ones.
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

// replaceInTurn restarts each container of Sluice, one after another, when the previous one is
// healthy.
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

// images are the images of all programs that the compose file can run.
var images = []string{"sluice", "ingest-worker", "query-worker", "llm-gateway", "gpu-segmenter", "source-worker"}

// buildAll builds the images as they ship, with both builders.
func (c *composition) buildAll(t *testing.T) {
	t.Helper()
	c.script(t, "bases", "all")
	for _, kit := range []string{"1", "0"} {
		began := time.Now()
		c.env = append(c.env, "DOCKER_BUILDKIT="+kit)
		c.script(t, "images", images...)
		t.Logf("built with DOCKER_BUILDKIT=%s in %s", kit, time.Since(began).Round(time.Second)) //house:clock it is told
		// The caches of the builders take 6 GB and 13 GB. A client without buildx removes them only
		// when it is told not to build with BuildKit.
		c.env = append(c.env, "DOCKER_BUILDKIT=0")
		c.docker(t, "builder", "prune", "-af")
		c.docker(t, "image", "prune", "-f")
	}
}
