//go:build compose

package e2e

// This file is `make compose-test`: it runs docker-compose.yml as it ships, with several containers
// of each worker, under load, while containers are killed, disconnected, restarted and replaced.

import (
	"bytes"
	cryptorand "crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// several is the number of containers of each program.
var several = map[string]int{"ingest-worker": 3, "query-worker": 2, "gpu-segmenter": 2, "serve": 1, "llm-gateway": 1}

// TestCompose is quick without COMPOSE_TEST. With COMPOSE_TEST=faults it starts with the previous
// version and upgrades, kills the servers, replaces every container in turn, and follows a folder.
// With COMPOSE_TEST=whole it does the same with images that both builders build as they ship.
func TestCompose(t *testing.T) {
	asShipped := os.Getenv("COMPOSE_TEST") == "whole"
	all := asShipped || os.Getenv("COMPOSE_TEST") == "faults"
	articles, questions := squadArticles(t)
	if articles == nil {
		t.Fatal("the test of the compose file needs squad-articles")
	}
	questions = questions[:60]
	c := newComposition(t)
	switch {
	case asShipped:
		c.buildAll(t)
	case all:
		c.script(t, "images", append([]string{"--here"}, images...)...)
	default:
		c.script(t, "images", "--here")
	}
	if all {
		c.previous(t)
	}
	c.begin(t)
	ingestAndAsk(t, c.repository, c.server)
	l := newLoad(t, c.server, articles, questions)

	faults := c.faults(all)
	for i, f := range faults {
		l.part(t, i, len(faults))
		began := time.Now()
		f.do(t, c, l)
		back := time.Since(began) //house:clock it is told, not waited for
		l.serves(t)
		t.Logf("%-44s served again %s after it began, %s after it ended", f.name, time.Since(began).Round(time.Second), (time.Since(began) - back).Round(time.Second)) //house:clock it is told
	}
	l.finish(t)
	if all {
		c.follow(t)
	}
	c.memory(t)
	nothingLeft(t, c.databaseURL(t), l)
	sameContent(t, c.server, articles)
	c.nothingRestarts(t)
}

// composition is the compose file's project.
type composition struct {
	repository, name, secrets string
	programs                  programs
	env                       []string
	server                    *server
}

func newComposition(t *testing.T) *composition {
	t.Helper()
	repository, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	c := &composition{repository: repository, name: "sluicetest" + strconv.Itoa(os.Getpid()), secrets: t.TempDir()}
	c.programs = programs{dir: filepath.Join(repository, "bin"), repository: repository}
	host := strings.TrimSpace(c.script(t, "engine", "start"))
	t.Cleanup(func() { c.script(t, "engine", "stop") })
	c.script(t, "bases")
	c.env = append(os.Environ(), "DOCKER_HOST="+host, "COMPOSE_PROJECT_NAME="+c.name, "SLUICE_SECRETS="+c.secrets,
		fmt.Sprint("SLUICE_PORT=", localtest.FreePort(t)), "SLUICE_VERSION=local")
	for _, name := range []string{"POSTGRES", "DATABASE", "TEMPORAL", "PROGRAM", "VECTOR"} {
		c.env = append(c.env, "SLUICE_"+name+"_PASSWORD="+fmt.Sprintf("%s%x", strings.ToLower(name), rand.Uint64()))
	}
	key := make([]byte, 32)
	_, _ = cryptorand.Read(key) // never fails
	c.env = append(c.env, "SLUICE_SOURCES_KEY="+base64.StdEncoding.EncodeToString(key), "SLUICE_SOURCE_ROOTS=/documents")
	return c
}

// setting returns a variable of the compose file.
func (c *composition) setting(name string) string {
	for _, kv := range slices.Backward(c.env) {
		if value, ok := strings.CutPrefix(kv, name+"="); ok {
			return value
		}
	}
	return ""
}

// script runs a script of tools/containers with the project's settings.
func (c *composition) script(t *testing.T, name string, args ...string) string {
	t.Helper()
	return containersScript(t, c.repository, c.env, name, args...)
}

func (c *composition) command(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = c.repository, c.env
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, problems.Bytes())
	}
	return strings.TrimSpace(string(out)), err
}

func (c *composition) docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.command(t, "docker", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (c *composition) compose(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.command(t, "docker-compose", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// up starts the containers that do not run, with several of each worker.
func (c *composition) up(t *testing.T) {
	t.Helper()
	args := []string{"up", "-d", "--no-build"}
	for _, program := range slices.Sorted(maps.Keys(several)) {
		if n := several[program]; n > 1 {
			args = append(args, "--scale", program+"="+strconv.Itoa(n))
		}
	}
	c.compose(t, args...)
}

// begin installs the project as an operator does.
func (c *composition) begin(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			out, err := c.command(t, "docker-compose", "logs", "--no-color", "--tail=40")
			t.Logf("the last words of all: %v\n%s", err, out)
		}
		if _, err := c.command(t, "docker-compose", "down", "-v", "--remove-orphans"); err != nil {
			t.Error(err)
		}
	})
	c.natsConfig(t)
	began := time.Now()
	c.up(t)
	made := c.compose(t, "run", "--rm", "migrate", "migrate", "--bootstrap", "acme")
	key := ""
	for word := range strings.FieldsSeq(made) {
		if strings.HasPrefix(word, "slu_") {
			key = word
		}
	}
	if key == "" {
		t.Fatalf("migrate --bootstrap printed no key: %s", made)
	}
	c.server = &server{programs: c.programs, url: "http://127.0.0.1:" + c.setting("SLUICE_PORT"), key: key}
	c.healthy(t)
	t.Logf("all containers are healthy %s after `docker-compose up`", time.Since(began).Round(time.Second)) //house:clock it is told
}

// containers returns the containers of a service in order, or all containers if service is empty.
func (c *composition) containers(t *testing.T, service string) []string {
	t.Helper()
	args := []string{"ps", "-q"}
	if service != "" {
		args = append(args, service)
	}
	return strings.Fields(c.compose(t, args...))
}

// state is the state of a container, as the engine reports it.
type state struct {
	Name  string
	State struct {
		Status string
		Pid    int
		Health *struct{ Status string }
	}
	RestartCount    int
	NetworkSettings struct {
		Networks map[string]struct{ IPAddress string }
	}
	Config struct {
		Labels map[string]string
		Image  string
	}
}

func (c *composition) inspect(t *testing.T, ids ...string) []state {
	t.Helper()
	var out []state
	if err := json.Unmarshal([]byte(c.docker(t, append([]string{"inspect"}, ids...)...)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (s state) service() string { return s.Config.Labels["com.docker.compose.service"] }

// healthy waits until every container runs, and is healthy if it has a health check. Only migrate
// ends.
func (c *composition) healthy(t *testing.T) {
	t.Helper()
	waittest.Until(t, func() string {
		for _, s := range c.inspect(t, c.containers(t, "")...) {
			switch {
			case s.service() == "migrate":
			case s.State.Status != "running":
				return s.Name + " is " + s.State.Status
			case s.State.Health != nil && s.State.Health.Status != "healthy":
				return s.Name + " is " + s.State.Health.Status
			}
		}
		return ""
	})
}

func (c *composition) address(t *testing.T, service string) string {
	t.Helper()
	for _, network := range c.inspect(t, c.containers(t, service)[0])[0].NetworkSettings.Networks {
		return network.IPAddress
	}
	t.Fatalf("%s has no address", service)
	return ""
}

func (c *composition) databaseURL(t *testing.T) string {
	t.Helper()
	u := url.URL{Scheme: "postgres", User: url.UserPassword("postgres", c.setting("SLUICE_POSTGRES_PASSWORD")),
		Host: net.JoinHostPort(c.address(t, "postgres"), "5432"), Path: "/sluice", RawQuery: "sslmode=disable"}
	return u.String()
}

// kill kills the first process of a container from outside, like a crash. The engine restarts the
// container.
func (c *composition) kill(t *testing.T, id string) {
	t.Helper()
	s := c.inspect(t, id)[0]
	if err := syscall.Kill(s.State.Pid, syscall.SIGKILL); err != nil {
		t.Fatalf("killing %s: %v", s.Name, err)
	}
}

// memory logs the memory of the containers.
func (c *composition) memory(t *testing.T) {
	t.Helper()
	t.Logf("memory:\n%s", c.docker(t, append([]string{"stats", "--no-stream", "--format", "{{.Name}} {{.MemUsage}}"}, c.containers(t, "")...)...))
}

// nothingRestarts checks that no container crashes again and again.
func (c *composition) nothingRestarts(t *testing.T) {
	t.Helper()
	c.healthy(t)
	for _, s := range c.inspect(t, c.containers(t, "")...) {
		if s.RestartCount > 10 && s.service() != "migrate" {
			t.Errorf("%s was started again %d times", s.Name, s.RestartCount)
		}
	}
}
