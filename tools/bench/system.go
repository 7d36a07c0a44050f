package main

// This file starts and stops the system that is measured: `sluice up` from bin/, on its own data
// directory, with NATS in a separate process, so that its CPU time is counted separately.

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/local"
)

// Timeouts of starting and stopping.
const (
	startTime = 3 * time.Minute
	stopTime  = time.Minute
)

// natsCommand runs the NATS server that `sluice up` embeds as a process of its own. It ends with
// its standard input.
type natsCommand struct {
	Dir string `arg:"" help:"Where its streams are kept."`
}

func (c natsCommand) Run(ctx context.Context) error {
	server, err := local.StartNATS(ctx, local.NATSOptions{Dir: c.Dir, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	fmt.Println(server.URL())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return server.Stop(context.WithoutCancel(ctx))
}

// installation is a running Sluice in a directory that is removed with it.
type installation struct {
	program string // path of sluice
	dir     string
	nats    *server
	sluice  *server
	access  apiclient.Credentials
	metrics string // address of /metrics
}

// server is a child process that prints a line on standard output when it is ready.
type server struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	output  *bufio.Reader
	printed chan struct{} // closed when the line has been read or cannot come any more
	line    string        // the line
	failed  error         // why there is no line
	log     string
}

// newInstallation starts everything. If it fails, nothing is left running.
func newInstallation(ctx context.Context, program string, more ...string) (*installation, error) {
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w; `make build` makes it", err)
	}
	dir, err := newDir()
	if err != nil {
		return nil, err
	}
	return newInstallationIn(ctx, dir, program, more...)
}

// newInstallationIn starts everything in a directory, which is removed at the end. Its subfolder
// data is that of `sluice up`.
func newInstallationIn(ctx context.Context, dir, program string, more ...string) (_ *installation, err error) {
	b := &installation{program: program, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	var line string
	if b.nats, line, err = start(ctx, b.dir, "nats", nil, self, "nats", filepath.Join(dir, "nats")); err != nil {
		return nil, err
	}
	metrics, err := freeAddress()
	if err != nil {
		return nil, err
	}
	b.metrics = "http://" + metrics
	env := []string{"SLUICE_NATS_URL=" + line, "SLUICE_METRICS_LISTEN=" + metrics}
	if b.sluice, line, err = start(ctx, b.dir, "sluice", env, program,
		append([]string{"up", "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--json"}, more...)...); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(line), &b.access); err != nil {
		return nil, fmt.Errorf("sluice up said %q: %w", line, err)
	}
	return b, nil
}

// foreign are the settings that would make `sluice up` use servers whose CPU time cannot be
// counted.
var foreign = []string{"SLUICE_DATABASE_URL", "SLUICE_DATABASE_OWNER_URL", "SLUICE_DATABASE_VECTOR_URL", "SLUICE_NATS_URL", "SLUICE_TEMPORAL_ADDRESS", "SLUICE_URL", "SLUICE_API_KEY", "SLUICE_DATA"}

// environment returns this process's environment without the settings that the measurement sets.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains(foreign, name)
	})
}

// start runs a child until it has printed a line, which it returns.
func start(ctx context.Context, dir, name string, env []string, program string, args ...string) (*server, string, error) {
	s, err := launch(dir, name, env, program, args...)
	if err != nil {
		return nil, "", err
	}
	limit := time.NewTimer(startTime)
	defer limit.Stop()
	select {
	case <-s.printed:
		if s.failed == nil {
			return s, strings.TrimSpace(s.line), nil
		}
		err = errors.New("it ended before it was ready")
	case <-limit.C:
		err = fmt.Errorf("it is not ready after %s", startTime)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	_ = s.stop() // its output is also in the log
	return nil, "", fmt.Errorf("start %s: %w\n%s", name, err, s.logTail())
}

// launch runs a child and returns at once.
func launch(dir, name string, env []string, program string, args ...string) (*server, error) {
	s := &server{cmd: exec.Command(program, args...), printed: make(chan struct{}), log: filepath.Join(dir, name+".log")}
	s.cmd.Dir = dir // the user's sluice.yaml would change the measurement
	s.cmd.Env = append(environment(), env...)
	// Ctrl-C in a terminal must only reach this process, which stops the children in order.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = log.Close() }()
	s.cmd.Stderr = log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	s.output = bufio.NewReader(out)
	go func() {
		defer close(s.printed)
		s.line, s.failed = s.output.ReadString('\n')
	}()
	return s, nil
}

// stop interrupts a child as Ctrl-C does, and kills it if it takes too long.
func (s *server) stop() error {
	_ = s.cmd.Process.Signal(os.Interrupt)
	_ = s.stdin.Close()
	kill := time.AfterFunc(stopTime, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	<-s.printed
	_, _ = io.Copy(io.Discard, s.output)
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("stop %s: %w\n%s", filepath.Base(s.cmd.Path), err, s.logTail())
	}
	return nil
}

// logTail returns the end of a child's log.
func (s *server) logTail() string {
	const most = 4000
	text, err := os.ReadFile(s.log)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text[max(0, len(text)-most):]))
}

// close stops everything and removes its directory.
func (b *installation) close() error {
	var errs []error
	for _, s := range []*server{b.sluice, b.nats} {
		if s != nil {
			errs = append(errs, s.stop())
		}
	}
	if err := os.RemoveAll(b.dir); err != nil {
		errs = append(errs, fmt.Errorf("remove what was measured: %w", err))
	}
	return errors.Join(errs...)
}

// keepAlive returns a transport that keeps as many connections as callers use at a time, because
// connecting is not measured.
func keepAlive(connections int) *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, connections
	return transport
}

// client returns a client of the running Sluice's API.
func (b *installation) client() (*apiclient.Client, error) {
	return apiclient.New(b.access.URL, b.access.APIKey)
}

// run runs a command of `sluice` and returns its output, also if it fails, and its CPU seconds.
func (b *installation) run(ctx context.Context, args ...string) (output []byte, seconds float64, err error) {
	cmd := exec.CommandContext(ctx, b.program, args...)
	cmd.Dir = b.dir
	cmd.Env = append(environment(), "SLUICE_URL="+b.access.URL, "SLUICE_API_KEY="+b.access.APIKey)
	var words strings.Builder
	cmd.Stderr = &words
	output, err = cmd.Output()
	if err != nil {
		err = fmt.Errorf("sluice %s: %w\n%s", args[0], err, strings.TrimSpace(words.String()))
	}
	if cmd.ProcessState != nil {
		seconds = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	}
	return output, seconds, err
}
