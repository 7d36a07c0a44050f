//go:build chaos

package e2e

// This file starts the system of a campaign: two processes of each program, and clusters of
// servers. Each program has its own proxies to Postgres, NATS and Temporal.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// chaosBed is a system of many processes.
type chaosBed struct {
	programs
	data, disk, logs string
	postgres         *local.Postgres
	natsPorts        []int
	temporal         []string // addresses
	nc               *nats.Conn
	nodes            map[string]*chaosNode
	urls             []string // of the API servers
	key              string   // the operator's
	model            *chaosModel
	hooks            *chaosHooks

	ctx     context.Context
	stop    context.CancelFunc
	keeping sync.WaitGroup

	mu  sync.Mutex
	log *os.File // the campaign's log
}

// chaosNode is a process that is restarted whenever it ends, unless it is held.
type chaosNode struct {
	name  string
	links map[string][]*link // by the server to which they lead
	clock *wallClock
	begin func(log *os.File) (*process, error)

	mu      sync.Mutex
	process *process
	up      chan struct{} // closed while the process may run
}

func (n *chaosNode) current() *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// hold prevents restarts of the process until the returned function is called.
func (n *chaosNode) hold() (release func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	up := make(chan struct{})
	n.up = up
	return sync.OnceFunc(func() { close(up) })
}

func (n *chaosNode) gate() chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.up
}

// signal sends a signal to the current process.
func (n *chaosNode) signal(s syscall.Signal) *process {
	p := n.current()
	_ = p.cmd.Process.Signal(s) // it may have ended already
	return p
}

// run keeps a process running until the bed is closed.
func (b *chaosBed) run(t *testing.T, p programs, name string, env []string, program string, args ...string) *chaosNode {
	t.Helper()
	up := make(chan struct{})
	close(up)
	n := &chaosNode{name: name, links: map[string][]*link{}, up: up}
	n.begin = func(log *os.File) (*process, error) { return p.begin(env, log, program, args...) }
	log, err := os.OpenFile(filepath.Join(b.logs, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if n.process, err = n.begin(log); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	b.nodes[name] = n
	b.keeping.Go(func() {
		defer func() { _ = log.Close() }()
		b.keep(n, log)
	})
	return n
}

func (b *chaosBed) keep(n *chaosNode, log *os.File) {
	for {
		p := n.current()
		select {
		case <-p.done:
		case <-b.ctx.Done():
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
			p.kill()
			return
		}
		b.say("%s has ended: %v", n.name, p.err)
		b.pause(200 * time.Millisecond)
		select {
		case <-n.gate():
		case <-b.ctx.Done():
			return
		}
		if b.ctx.Err() != nil {
			return
		}
		p, err := n.begin(log)
		if err != nil {
			b.say("%s cannot be started: %v", n.name, err)
			continue
		}
		n.mu.Lock()
		n.process = p
		n.mu.Unlock()
	}
}

// say writes a line to the campaign's log.
func (b *chaosBed) say(format string, v ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(b.log, "%s %s\n", time.Now().UTC().Format("15:04:05.000"), fmt.Sprintf(format, v...))
}

// pause waits for a duration or until the campaign ends.
func (b *chaosBed) pause(d time.Duration) { pause(b.ctx, d) }

// newChaosBed starts the whole system. If the test fails, the logs are kept with the repository's
// other results.
func newChaosBed(t *testing.T, logs string) *chaosBed {
	t.Helper()
	b := &chaosBed{logs: logs, data: localtest.Dir(t), nodes: map[string]*chaosNode{}}
	b.ctx, b.stop = context.WithCancel(t.Context())
	var err error
	if b.log, err = os.OpenFile(filepath.Join(logs, "campaign.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		t.Fatal(err)
	}
	repository, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	b.programs = programs{dir: os.Getenv("CHAOS_PROGRAMS"), repository: repository}
	if b.dir == "" {
		b.dir, b.overlay = localtest.Dir(t), clockOverlay(t)
		b.build(t)
		b.buildTemporal(t)
	}

	dir := localtest.Dir(t)
	if os.Geteuid() == 0 {
		b.disk = localtest.Disk(t, 1<<30)
		dir = b.disk
	}
	b.postgres, err = local.StartPostgres(t.Context(), local.PostgresOptions{Dir: filepath.Join(dir, "postgres"),
		Settings: map[string]string{"max_connections": "500", "max_wal_size": "256MB"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.postgres.Stop(context.Background()) }) // after a kill, its processes could write for a moment longer
	t.Cleanup(func() {
		b.stop()
		b.keeping.Wait()
		_ = b.log.Close()
	})
	b.model, b.hooks = newChaosModel(t), newChaosHooks(t)
	b.startNATS(t)
	b.startTemporal(t)

	migrated := b.programs.run(t, b.env(nil), "sluice", "migrate", "--bootstrap", "default", "--json").ok(t)
	var made struct {
		APIKey string `json:"api_key"`
	}
	if err := json.Unmarshal([]byte(migrated.out), &made); err != nil || made.APIKey == "" {
		t.Fatalf("no key: %v", migrated)
	}
	b.key = made.APIKey
	for range 2 {
		b.urls = append(b.urls, "http://"+localtest.FreeAddress(t))
	}
	for _, name := range programNames() {
		b.startProgram(t, name)
	}
	for _, url := range b.urls {
		waittest.Until(t, func() string {
			r, err := http.Get(url + "/readyz")
			if err != nil {
				return err.Error()
			}
			_ = r.Body.Close()
			if r.StatusCode != http.StatusOK {
				return fmt.Sprintf("%s is not ready: %d", url, r.StatusCode)
			}
			return ""
		})
	}
	return b
}

// startProgram starts a program with its own links and its own clock.
func (b *chaosBed) startProgram(t *testing.T, name string) {
	t.Helper()
	at := strings.LastIndexByte(name, '-')
	program, second := name[:at], name[at:] == "-2"
	var args []string
	links := map[string][]*link{"postgres": {newLink(t, hostOf(t, b.postgres.URL()))}}
	for _, port := range b.natsPorts {
		links["nats"] = append(links["nats"], newLink(t, fmt.Sprintf("127.0.0.1:%d", port)))
	}
	temporal := newLink(t, b.temporal[0])
	temporal.others = b.temporal[1:]
	if second {
		temporal.target, temporal.others = b.temporal[1], b.temporal[:1]
	}
	links["temporal"] = []*link{temporal}
	clock := newWallClock(t, b.data, name)
	env := append(b.env(links), clock.env(), "SLUICE_HEALTH_LISTEN=off", "SLUICE_LOG_FORMAT=json", "SLUICE_LOG_LEVEL=info")
	switch program {
	case "serve":
		url := b.urls[0]
		if second {
			url = b.urls[1]
		}
		program, args = "sluice", []string{"serve"}
		env = append(env, "SLUICE_LISTEN="+strings.TrimPrefix(url, "http://"))
	case "llm-gateway":
		env = append(env, "SLUICE_LLM_PROVIDER=openai", "SLUICE_LLM_BASE_URL="+b.model.URL+"/v1/", "SLUICE_LLM_MODEL=scripted")
	case "gpu-segmenter":
		env = append(env, "SLUICE_MODEL_THREADS=1")
	case "query-worker":
		env = append(env, "SLUICE_WEBHOOK_ALLOW_PRIVATE=127.0.0.0/8")
	}
	n := b.run(t, b.programs, name, env, program, args...)
	n.links, n.clock = links, clock
}

// env returns the settings of a program, with the addresses of its links if it has any.
func (b *chaosBed) env(links map[string][]*link) []string {
	database := func(url string) string {
		for _, l := range links["postgres"] {
			url = l.through(url)
		}
		return url
	}
	natsURL, temporal := b.natsURL(), b.temporal[0]
	if links != nil {
		var all []string
		for _, l := range links["nats"] {
			all = append(all, "nats://"+l.address())
		}
		natsURL, temporal = strings.Join(all, ","), links["temporal"][0].address()
	}
	return append([]string{
		"SLUICE_DATABASE_URL=" + database(b.postgres.URL()), "SLUICE_DATABASE_OWNER_URL=" + database(b.postgres.OwnerURL(local.Database)),
		"SLUICE_DATABASE_VECTOR_URL=" + database(b.postgres.VectorURL(local.Database)), "SLUICE_NATS_URL=" + natsURL,
		"SLUICE_TEMPORAL_ADDRESS=" + temporal, "SLUICE_TEMPORAL_NAMESPACE=" + local.Namespace, fmt.Sprint("SLUICE_STREAM_REPLICAS=", natsMembers),
	}, impatient...)
}
