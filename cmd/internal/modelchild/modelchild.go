// Package modelchild runs programs as child processes of `sluice up`: gpu-segmenter, so that only
// that program needs ONNX Runtime, and source-worker, with the dependencies of connectors. A child
// that dies is restarted.
package modelchild

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/schema"
)

// Options describe the child.
type Options struct {
	// Name is the program's name; empty: gpu-segmenter.
	Name string
	// Program is the path of the executable; see Find.
	Program string
	// Env is the child's environment. A variable that turns off ONNX Runtime's telemetry is added.
	Env []string
	// Ready checks whether the child answers. Start waits for it.
	Ready func(context.Context) error
	Log   *slog.Logger
}

// stableTime is how long a child must have run for the next one to start at once. Otherwise the
// pause before each restart doubles, up to maxPause.
const (
	stableTime = 30 * time.Second
	maxPause   = 10 * time.Second
	stopTime   = 10 * time.Second
)

// errStart means that the first child never became ready.
var errStart = errors.New("the program did not start")

// modelServer is the default name of the program.
const modelServer = "gpu-segmenter"

// Find returns the path of gpu-segmenter: beside this program, else from PATH.
func Find() (string, error) { return FindProgram(modelServer) }

// FindProgram returns the path of a program of Sluice: beside this program, else from PATH.
func FindProgram(name string) (string, error) {
	self, err := os.Executable()
	if err == nil {
		if resolved, err := filepath.EvalSymlinks(self); err == nil {
			self = resolved
		}
		sibling := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(sibling); err == nil && info.Mode().IsRegular() {
			return sibling, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside this program nor on PATH; `make build` makes it: %w", name, schema.ErrUnavailable)
	}
	return path, nil
}

// New returns the service. Start returns when the child answers.
func New(o Options) lifecycle.Service {
	if o.Name == "" {
		o.Name = modelServer
	}
	return lifecycle.NewFunc(o.Name, func(ctx context.Context) (lifecycle.Run, error) {
		work, cancel := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan struct{})
		first := make(chan error, 1)
		go func() {
			defer close(done)
			supervise(work, o, first)
		}()
		stop := func() { cancel(); <-done }
		if err := o.ready(ctx, first); err != nil {
			stop()
			return lifecycle.Run{}, err
		}
		return lifecycle.Run{Done: done, Stop: func(context.Context) error { stop(); return nil }}, nil
	})
}

// ready waits until the child answers. If the first child dies before that, the error has its last
// log line.
func (o Options) ready(ctx context.Context, first <-chan error) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		err := o.Ready(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case childErr := <-first:
			return fmt.Errorf("%s: %w: %w", o.Name, errStart, childErr)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", o.Name, errStart, errors.Join(ctx.Err(), err))
		case <-ticker.C:
		}
	}
}

// supervise runs one child after another until ctx ends. It sends the error of the first one on
// first.
func supervise(ctx context.Context, o Options, first chan<- error) {
	pause := time.Duration(0)
	for {
		begin := time.Now()
		err := child(ctx, o)
		if ctx.Err() != nil {
			return
		}
		select {
		case first <- err:
		default:
		}
		if time.Since(begin) > stableTime {
			pause = 0
		}
		o.Log.Warn(o.Name+" ended; starting it again", "error", err, "pause", pause)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		pause = min(max(2*pause, 250*time.Millisecond), maxPause)
	}
}

// child runs one child until it ends. When ctx ends, the child gets SIGTERM. When this process
// dies, the child's standard input closes, which also tells it to end.
func child(ctx context.Context, o Options) error {
	cmd := exec.CommandContext(ctx, o.Program, "--with-parent")
	cmd.Env = append(slices.Clone(o.Env), modelpack.NoTelemetry+"=1")
	// Ctrl-C in a terminal must only reach the parent, which stops its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", o.Name, err)
	}
	defer func() { _ = stdin.Close() }()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", o.Name, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", o.Name, err)
	}
	last := relay(stderr, o.Name, o.Log)
	err = cmd.Wait()
	if err != nil && last != "" {
		return fmt.Errorf("%s (%w)", last, err)
	}
	return err
}

// maxLineBytes is the maximum number of bytes of a child's line that are logged.
const maxLineBytes = 64 << 10

// relay logs the child's lines and returns the last.
func relay(stderr io.Reader, program string, log *slog.Logger) string {
	last := ""
	lines := bufio.NewReaderSize(stderr, maxLineBytes)
	for {
		line, more, err := lines.ReadLine()
		if err != nil { // the end of the output; Wait returns the error of a child that failed
			return last
		}
		last = string(line)
		if more {
			last += "…"
		}
		log.Log(context.Background(), level(last), last, "program", program)
		for more && err == nil {
			_, more, err = lines.ReadLine()
		}
	}
}

var levelOf = regexp.MustCompile(`\blevel=([A-Z]+)\b|"level":"([A-Z]+)"`)

// level returns the level that a line names. A line without one, such as a library's output or a
// crash, is logged as a warning, so that it is seen.
func level(line string) slog.Level {
	found := levelOf.FindStringSubmatch(line)
	if found == nil {
		return slog.LevelWarn
	}
	var l slog.Level
	if err := l.UnmarshalText([]byte(found[1] + found[2])); err != nil {
		return slog.LevelWarn
	}
	return l
}
