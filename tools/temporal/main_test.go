package main

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// serve runs the server on a database file until the returned function is called, which returns
// run's error.
func serve(t *testing.T, file string) (address string, stop func() error) {
	t.Helper()
	ports, err := freePorts("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	address = hostPort("127.0.0.1", ports[0])
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	stdin, parent := io.Pipe()
	result := make(chan error, 1)
	go func() {
		result <- run(t.Context(), []string{"--db-filename", file, "--port", port, "--exit-with-stdin"}, stdin)
	}()
	return address, func() error {
		_ = parent.Close()
		return <-result
	}
}

func dial(t *testing.T, address string) client.Client {
	t.Helper()
	for {
		c, err := client.DialContext(t.Context(), client.Options{HostPort: address})
		if err == nil {
			return c
		}
		if end, limited := t.Deadline(); limited && time.Until(end) < 10*time.Second {
			t.Fatal(err)
		}
	}
}

func TestServerRunsWorkflowsAndEndsWithItsParent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "temporal.db")
	address, stop := serve(t, file)
	c := dial(t, address)
	w := worker.New(c, "queue", worker.Options{})
	w.RegisterWorkflowWithOptions(func(_ workflow.Context, n int) (int, error) { return 2 * n, nil }, workflow.RegisterOptions{Name: "double"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "first", TaskQueue: "queue"}, "double", 21)
	if err != nil {
		t.Fatal(err)
	}
	var got int
	if err := run.Get(t.Context(), &got); err != nil || got != 42 {
		t.Errorf("workflow: got %d, %v, want 42", got, err)
	}
	if _, err := c.DescribeWorkflowExecution(t.Context(), "none", ""); !isNotFound(err) {
		t.Errorf("unknown workflow: got %v, want not found", err)
	}
	w.Stop()
	c.Close()
	if err := stop(); err != nil {
		t.Errorf("run: %v", err)
	}
}

func isNotFound(err error) bool {
	_, ok := err.(*serviceerror.NotFound)
	return ok
}

func TestWrongFlagsAreNamed(t *testing.T) {
	for name, args := range map[string][]string{
		"--db-filename":    {},
		"--postgres":       {"--postgres", "postgres://127.0.0.1"},
		"one is needed":    {"--postgres", "postgres://127.0.0.1/x", "--db-filename", "x"},
		"--history-shards": {"--db-filename", "x", "--history-shards", "8"},
		"--port":           {"--db-filename", "x", "--port", "70000"},
		"--log-level":      {"--db-filename", "x", "--log-level", "loud"},
		"--tls-key":        {"--db-filename", "x", "--tls-cert", "y"},
		`"start"`:          {"--db-filename", "x", "start"},
	} {
		if err := run(t.Context(), args, strings.NewReader("")); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v: got %v, want an error that names %s", args, err, name)
		}
	}
}
