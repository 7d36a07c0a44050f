// Package modelchild runs programs as child processes of `sluice up`: gpu-segmenter, so
// that only that program needs ONNX Runtime, and source-worker, with what connectors
// need. A child that dies is started again.
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

// Options of the child.
type Options struct {
	// Name is what the program is called; empty: gpu-segmenter.
	Name string
	// Program is the program's file; see Find.
	Program string
	// Env is the child's environment, but for what turns ONNX Runtime's telemetry off.
	Env []string
	// Ready asks whether the child answers; Start waits for it.
	Ready func(context.Context) error
	Log   *slog.Logger
}

// A child that lives this long has started well, and the next one starts at
// once; before, each waits longer, up to maxPause.
const (
	settled  = 30 * time.Second
	maxPause = 10 * time.Second
	stopTime = 10 * time.Second
)

// errStart means that the first child never became ready.
var errStart = errors.New("the program did not start")

// modelServer is the program that children are unless they have another name.
const modelServer = "gpu-segmenter"

// Find returns gpu-segmenter: the one beside this program, else from PATH.
func Find() (string, error) { return FindProgram(modelServer) }

// FindProgram returns a program of Sluice: the one beside this program, else from PATH.
func FindProgram(name string) (string, error) {
	self, err := os.Executable()
	if err == nil {
		if real, err := filepath.EvalSymlinks(self); err == nil {
			self = real
		}
		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is neither beside this program nor on PATH; `make build` makes it: %w", name, schema.ErrUnavailable)
	}
	return path, nil
}

// New makes the service. Start returns when the child answers.
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

// ready waits until the child answers. Should the first child die
// before, its last words are the error.
func (o Options) ready(ctx context.Context, first <-chan error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		err := o.Ready(attempt)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case died := <-first:
			return fmt.Errorf("%s: %w: %w", o.Name, errStart, died)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w: %w", o.Name, errStart, errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

// supervise runs children one after the other until ctx ends. The end of the
// first is told on first.
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
		if time.Since(begin) > settled {
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

// child runs one child to its end. It is asked to end when ctx ends, and when
// this process does: its standard input closes then.
func child(ctx context.Context, o Options) error {
	cmd := exec.CommandContext(ctx, o.Program, "--with-parent")
	cmd.Env = append(slices.Clone(o.Env), modelpack.NoTelemetry+"=1")
	// A terminal's Ctrl-C is for the parent, which stops its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTime
	held, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", o.Name, err)
	}
	defer func() { _ = held.Close() }()
	words, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("start %s: %w", o.Name, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", o.Name, err)
	}
	last := relay(words, o.Name, o.Log)
	err = cmd.Wait()
	if err != nil && last != "" {
		return fmt.Errorf("%s (%w)", last, err)
	}
	return err
}

// longestLine is how many bytes of a line of the child are passed on.
const longestLine = 64 << 10

// relay passes the child's log lines on and returns the last.
func relay(words io.Reader, program string, log *slog.Logger) string {
	last := ""
	lines := bufio.NewReaderSize(words, longestLine)
	for {
		line, more, err := lines.ReadLine()
		if err != nil { // its end; Wait tells of a child that ended badly
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

// level is a line's own level. What has none, such as the words of a library or
// a crash, is a warning: it must be seen.
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
