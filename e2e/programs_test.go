package e2e

// This file builds the programs and runs them as processes.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// programs is the folder of the built programs.
type programs struct {
	dir, repository string
	overlay         string // file for `go build -overlay`; none if empty
}

func (p programs) path(name string) string { return filepath.Join(p.dir, name) }

// build builds all programs. Only the model server uses C.
func build(t *testing.T) programs {
	t.Helper()
	repository, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	p := programs{dir: localtest.Dir(t), repository: repository}
	p.build(t)
	return p
}

// build builds the repository's programs into their folder.
func (p programs) build(t *testing.T) {
	t.Helper()
	goBuild := func(cgo string, names ...string) {
		args := []string{"build", "-ldflags=-s -w", "-o", p.dir + "/"} // linking is faster without symbols for debuggers
		if p.overlay != "" {
			args = append(args, "-overlay", p.overlay)
		}
		for _, name := range names {
			args = append(args, "./cmd/"+name)
		}
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = p.repository, append(os.Environ(), "CGO_ENABLED="+cgo)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("CGO_ENABLED=%s go build %s: %v (`make setup` gets what is missing)\n%s", cgo, strings.Join(names, " "), err, out)
		}
	}
	goBuild("0", "sluice", "ingest-worker", "query-worker", "llm-gateway")
	goBuild("1", "gpu-segmenter")
}

// env returns this process's environment without the settings of the user, and with the settings
// that every program needs.
func (p programs) env(more ...string) []string {
	env := []string{"SLUICE_MODEL_PACK=" + filepath.Join(p.repository, "models", "default")}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case name == "SLUICE_HOME" || name == "SLUICE_ONNXRUNTIME_LIB": // where setup installed things
		case strings.HasPrefix(name, "SLUICE_"), strings.HasPrefix(name, "OTEL_"):
			continue
		}
		env = append(env, kv)
	}
	return append(env, more...)
}

// process is a program that runs until it is stopped.
type process struct {
	name string
	cmd  *exec.Cmd
	out  *output // standard output
	log  *output // standard error
	done chan struct{}
	err  error // valid after done
}

// start starts a program. The end of the test kills it if it still runs.
func (p programs) start(t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	r, err := p.begin(env, nil, name, args...)
	if err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			t.Logf("the last words of %s:\n%s", name, r.log.tail())
		}
	})
	return r
}

// begin starts a program that the caller has to end. log receives its standard error, and may be
// nil.
func (p programs) begin(env []string, log io.Writer, name string, args ...string) (*process, error) {
	cmd := exec.Command(p.path(name), args...)
	cmd.Dir, cmd.Env = p.dir, p.env(env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithTests(cmd.SysProcAttr)
	r := &process{name: name, cmd: cmd, out: newOutput(), log: newOutput(), done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = r.out, r.log
	if log != nil {
		cmd.Stderr = log
	}
	started := make(chan error, 1)
	go func() {
		defer close(r.done)
		// The kernel ends the child when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			r.err = cmd.Wait()
		}
	}()
	return r, <-started
}

// line returns the first line that the program prints.
func (r *process) line(t *testing.T) []byte {
	t.Helper()
	select {
	case <-r.out.line:
	case <-r.done:
		t.Fatalf("%s ended at its start: %v (`make setup` gets what is missing)\n%s", r.name, r.err, r.log.tail())
	case <-waittest.Context(t).Done():
		t.Fatalf("%s is not ready\n%s", r.name, r.log.tail())
	}
	return r.out.first()
}

// stop sends a signal to the program, and checks that it ends without an error.
func (r *process) stop(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("signalling %s: %v", r.name, err)
	}
	waittest.Receive(t, r.done, fmt.Sprintf("the end of %s after %v", r.name, signal))
	if r.err != nil {
		t.Errorf("%s ended with %v after %v, not with 0\n%s", r.name, r.err, signal, r.log.tail())
	}
}

// kill kills the program, as a crash would, and waits for its end.
func (r *process) kill() {
	_ = r.cmd.Process.Kill() // it may have ended already
	<-r.done
}

// output is what a program has printed.
type output struct {
	line chan struct{} // closed after the first line

	mu   sync.Mutex
	text []byte
}

func newOutput() *output { return &output{line: make(chan struct{})} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := bytes.IndexByte(o.text, '\n') >= 0
	o.text = append(o.text, p...)
	if !before && bytes.IndexByte(p, '\n') >= 0 {
		close(o.line)
	}
	return len(p), nil
}

func (o *output) first() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	line, _, _ := bytes.Cut(o.text, []byte("\n"))
	return bytes.Clone(line)
}

func (o *output) tail() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text[max(0, len(o.text)-6000):])
}

// server is a running API with its address, a key and the data directory.
type server struct {
	programs
	*process
	url, key, data string
}

// up runs `sluice up` until it is ready.
func (p programs) up(t *testing.T, data string, settings ...string) *server {
	t.Helper()
	r := p.start(t, settings, "sluice", "up", "--data", data, "--listen", "127.0.0.1:0", "--json")
	line := r.line(t)
	var ready map[string]string
	if err := json.Unmarshal(line, &ready); err != nil {
		t.Fatalf("sluice up --json printed %q: %v", line, err)
	}
	if len(ready) != 3 || ready["url"] == "" || ready["api_key"] == "" || ready["data"] != data {
		t.Fatalf("sluice up --json printed %s; want url, api_key and the data directory %s", line, data)
	}
	return &server{programs: p, process: r, url: ready["url"], key: ready["api_key"], data: data}
}

func (s *server) stop(t *testing.T) {
	t.Helper()
	s.process.stop(t, syscall.SIGINT)
}

// withKey returns the same server with another API key.
func (s *server) withKey(key string) *server {
	other := *s
	other.key = key
	return &other
}

// result is the result of a command.
type result struct {
	command  string
	out, err string
	code     int
}

// sluice runs a command of the program sluice against the server.
func (s *server) sluice(t *testing.T, args ...string) result {
	t.Helper()
	var env []string
	if s.url != "" {
		env = append(env, "SLUICE_URL="+s.url)
	}
	if s.key != "" {
		env = append(env, "SLUICE_API_KEY="+s.key)
	}
	return s.run(t, env, "sluice", args...)
}

// run runs a program until it ends.
func (p programs) run(t *testing.T, env []string, name string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.path(name), args...)
	cmd.Dir, cmd.Env = p.dir, p.env(env...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("running %s: %v", name, err)
	}
	return result{command: name + " " + strings.Join(args, " "), out: out.String(), err: problems.String(), code: cmd.ProcessState.ExitCode()}
}

func (r result) String() string {
	return fmt.Sprintf("%s: exit code %d\nstdout: %s\nstderr: %s", r.command, r.code, r.out, r.err)
}

func (r result) ok(t *testing.T) result {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("%v", r)
	}
	return r
}

// fails checks that the exit code is 1 and that standard error contains every word.
func (r result) fails(t *testing.T, words ...string) result {
	t.Helper()
	if r.code != 1 {
		t.Errorf("exit code %d, want 1: %v", r.code, r)
	}
	for _, word := range words {
		if !strings.Contains(r.err, word) {
			t.Errorf("standard error does not name %q: %v", word, r)
		}
	}
	return r
}

func (r result) has(t *testing.T, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(r.out, word) {
			t.Errorf("the output does not name %q: %v", word, r)
		}
	}
}

// into decodes the JSON output of a command.
func into[T any](t *testing.T, r result) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		t.Fatalf("the output is not the JSON expected: %v: %v", err, r)
	}
	return v
}

// write creates a folder with files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		put(t, dir, name, text)
	}
	return dir
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}
