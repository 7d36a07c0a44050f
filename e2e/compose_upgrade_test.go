//go:build compose

package e2e

// This file upgrades the compose project from images of the previous version to those of this
// version.

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// upgraded are the services in the order of an upgrade: a service that answers requests comes
// before those that send them.
var upgraded = []string{"gpu-segmenter", "llm-gateway", "query-worker", "ingest-worker", "serve"}

// previous builds images of the previous version, with which the project starts.
func (c *composition) previous(t *testing.T) {
	t.Helper()
	c.programs = buildPrevious(t)
	c.version("previous")
	c.script(t, "images", "--here", "--of", c.programs.repository)
}

// version sets the version of the images that are used from now on.
func (c *composition) version(name string) {
	c.env = append(c.env, "SLUICE_VERSION="+name)
}

// upgradeInTurn follows docs/operating.md: first the database and the rights in NATS, then one
// program after another.
func upgradeInTurn(t *testing.T, c *composition, l *load) {
	c.version("local")
	c.programs = programs{dir: filepath.Join(c.repository, "bin"), repository: c.repository}
	c.natsConfig(t)
	for _, id := range c.containers(t, "nats") {
		c.docker(t, "kill", "--signal", "HUP", id)
	}
	c.compose(t, "run", "--rm", "migrate")
	l.without(func() {
		for _, service := range upgraded {
			c.compose(t, "up", "-d", "--no-build", "--no-deps", "--scale", service+"="+strconv.Itoa(several[service]), service)
			c.healthy(t)
		}
		c.up(t) // starts what else the newer file changes
		c.healthy(t)
	})
	c.server.programs = c.programs
	for _, s := range c.inspect(t, c.containers(t, "")...) {
		if strings.HasPrefix(s.Config.Image, "sluice/") && !strings.HasSuffix(s.Config.Image, ":local") && s.service() != "migrate" {
			t.Errorf("%s runs %s after the upgrade", s.Name, s.Config.Image)
		}
	}
}

// natsConfig writes the files that NATS and the programs need for their connections, where they are
// missing.
func (c *composition) natsConfig(t *testing.T) {
	t.Helper()
	c.docker(t, "run", "--rm", "--user", strconv.Itoa(os.Getuid()), "-v", c.secrets+":/secrets",
		"sluice/sluice:"+c.setting("SLUICE_VERSION"), "nats-config", "/secrets")
}
