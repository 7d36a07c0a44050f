package ingestworker

// A worker that is killed during its work.

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/ingest"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// workerVariable has the childSettings of a test binary that is to run as a worker.
const workerVariable = "SLUICE_TEST_WORKER"

type childSettings struct {
	Database, NATS, Temporal, Namespace string
	Settings                            Settings
	Grace                               time.Duration
	// Hang is a word. Encoding a text with it never ends.
	Hang string
	// Deadly is the name of a file: parsing it kills the worker.
	Deadly string
}

// crashingParser kills this process over a file.
type crashingParser struct {
	ingest.Parser
	name string
}

func (p crashingParser) Parse(ctx context.Context, name, mediaType, language string, data []byte) (schema.Parsed, error) {
	if name == p.name {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			panic(err)
		}
		<-ctx.Done() // the signal is about to arrive
	}
	return p.Parser.Parse(ctx, name, mediaType, language, data)
}

// runIfWorkerChild makes this process a worker if a test started it as one.
func runIfWorkerChild() bool {
	encoded := os.Getenv(workerVariable)
	if encoded == "" {
		return false
	}
	if err := runWorkerChild([]byte(encoded)); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	return true
}

func runWorkerChild(encoded []byte) error {
	var c childSettings
	if err := json.Unmarshal(encoded, &c); err != nil {
		return err
	}
	ctx := context.Background()
	db, err := store.Open(ctx, c.Database, store.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	nc, err := bus.Connect(ctx, bus.Options{URL: c.NATS, Name: "child"})
	if err != nil {
		return err
	}
	defer nc.Close()
	tc, err := durable.Dial(ctx, durable.Options{Address: c.Temporal, Namespace: c.Namespace, Name: "child"})
	if err != nil {
		return err
	}
	defer tc.Close()
	parsers, err := parsers(c.Settings)
	if err != nil {
		return err
	}
	models := &scriptedModels{dimension: 256, before: func(ctx context.Context, op wire.ModelOp, texts []string) error {
		if c.Hang != "" && op == wire.OpEncode && strings.Contains(strings.Join(texts, " "), c.Hang) {
			fmt.Println("hangs")
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}}
	o := c.Settings.Options()
	o.Grace = c.Grace
	parts, err := newServices(o, c.Settings, Deps{Store: db, NATS: nc, Temporal: tc}, crashingParser{parsers, c.Deadly}, models, unavailableModels{})
	if err != nil {
		return err
	}
	worker := lifecycle.NewGroup("worker", Grace, append([]lifecycle.Service{parsers}, parts...)...)
	if err := worker.Start(ctx); err != nil {
		return err
	}
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // the test's end closes it
	return worker.Stop(ctx)
}

// child starts a worker process that hangs at a word. It lives until the test ends.
func (w *world) child(hang string) (*exec.Cmd, *bufio.Scanner) {
	w.t.Helper()
	return w.childWith(childSettings{Hang: hang})
}

func (w *world) childWith(c childSettings) (*exec.Cmd, *bufio.Scanner) {
	w.t.Helper()
	c.Database, c.NATS, c.Temporal, c.Namespace = w.url, w.bus.URL(), w.temporal.Address, w.temporal.Namespace
	c.Settings, c.Grace = w.settings, w.options.Grace
	encoded, err := json.Marshal(c)
	w.ok(err)
	program, err := os.Executable()
	w.ok(err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), workerVariable+"="+string(encoded))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	w.ok(err)
	stdout, err := cmd.StdoutPipe()
	w.ok(err)
	w.ok(cmd.Start())
	w.t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait() // killed by the test, or ended by the line above
	})
	return cmd, bufio.NewScanner(stdout)
}

func TestKilledWorkerLosesAndRepeatsNothing(t *testing.T) {
	w := newWorld(t)
	w.uploadAll(someDocuments(40))
	first, stdout := w.child("topic 17")
	if !stdout.Scan() {
		t.Fatal("the worker ended")
	}
	w.await("some that are ready", func() bool { return w.states()[schema.StateReady] > 0 })
	w.ok(first.Process.Signal(syscall.SIGKILL))
	_, _ = first.Process.Wait()
	if n := w.states()[schema.StateProcessing]; n == 0 {
		t.Fatal("nothing was being processed when the worker was killed")
	}
	killed := time.Now()
	w.child("")
	w.awaitStates(map[schema.State]int{schema.StateReady: 40})
	t.Logf("recovered in %s", time.Since(killed).Round(time.Millisecond))
	w.checkStored()
}

func TestWorkerKilledAndEverythingElseWipedLosesNothing(t *testing.T) {
	w := newWorld(t)
	w.uploadAll(someDocuments(40))
	first, stdout := w.child("topic 17")
	if !stdout.Scan() {
		t.Fatal("the worker ended")
	}
	w.ok(first.Process.Signal(syscall.SIGKILL))
	_, _ = first.Process.Wait()
	w.wipeNATS()
	// Another namespace is an empty Temporal.
	w.temporal = localtest.Temporal(t)
	w.child("")
	w.awaitStates(map[schema.State]int{schema.StateReady: 40})
	w.checkStored()
}
