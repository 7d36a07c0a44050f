package sourceworker

// A worker that is killed during its work.

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/store"
)

// workerVariable has the childSettings of a test binary that is to run as a worker.
const workerVariable = "SLUICE_TEST_WORKER"

type childSettings struct {
	Database, NATS, Temporal, Namespace string
	Settings                            Settings
	BlockFile                           string // a file whose fetching never ends
}

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
	worker, err := New(c.Settings, Deps{Store: db, NATS: nc, Temporal: tc}, []source.Driver{blockingDriver(c.BlockFile)})
	if err != nil {
		return err
	}
	if err := worker.Start(ctx); err != nil {
		return err
	}
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // the worker ends with the test
	return worker.Stop(ctx)
}

// child starts a worker process that stops at a file.
func (w *world) child(blockFile string) (*exec.Cmd, *bufio.Scanner) {
	w.t.Helper()
	encoded, err := json.Marshal(childSettings{Database: w.url, NATS: w.bus.URL(), Temporal: w.temporal.Address, Namespace: w.temporal.Namespace, Settings: w.settings, BlockFile: blockFile})
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
		_ = cmd.Wait() // killed by the test, or ended because stdin is closed
	})
	return cmd, bufio.NewScanner(stdout)
}

// TestAKilledWorkerLosesAndRepeatsNothing: the worker is killed while it fetches, and Temporal
// loses its state. The next worker ends the run with the same counts as a run without faults.
func TestAKilledWorkerLosesAndRepeatsNothing(t *testing.T) {
	w := newWorld(t)
	for i := range 200 {
		w.write(fmt.Sprintf("docs/%03d.md", i), fmt.Sprintf("# Number %d\n", i))
	}
	stop := w.start() // registers the driver
	stop()
	w.add("docs", "held", map[string]string{"path": w.root + "/docs"})
	cmd, said := w.child("100.md")
	if !said.Scan() {
		t.Fatal("the worker ended")
	}
	w.until(func() string {
		if n := w.documents(); n < 64 {
			return fmt.Sprintf("%d documents", n)
		}
		return ""
	})
	w.ok(cmd.Process.Kill())
	w.client.Close()
	w.temporal = localtest.Temporal(t)
	w.dial()
	w.start()
	w.wantCounts(w.ended("docs", 1), "done: seen 200 added 200 changed 0 unchanged 0 moved 0 deleted 0 skipped 0 fetched 200")
	if d, v := w.documents(), w.versions(); d != 200 || v != 200 {
		t.Errorf("%d documents with %d versions, want 200", d, v)
	}
}
