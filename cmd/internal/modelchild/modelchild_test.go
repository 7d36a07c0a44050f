package modelchild

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/lifecycle/lifecycletest"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// The test binary is its own child: it leaves its process id in the folder that
// MODELCHILD_DIR names and ends with its standard input, or says why it cannot.
func TestMain(m *testing.M) {
	dir := os.Getenv("MODELCHILD_DIR")
	if dir == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if os.Getenv("MODELCHILD_BROKEN") != "" {
		fmt.Fprintln(os.Stderr, "no models here")
		os.Exit(3)
	}
	if os.Getenv(modelpack.NoTelemetry) != "1" {
		fmt.Fprintln(os.Stderr, "the library's telemetry is on")
		os.Exit(3)
	}
	mark := filepath.Join(dir, "pid")
	if err := os.WriteFile(mark+".new", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		panic(err)
	}
	if err := os.Rename(mark+".new", mark); err != nil {
		panic(err)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func options(t *testing.T, env ...string) (Options, func() (int, error)) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pid := func() (int, error) {
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(string(text))
	}
	return Options{Program: self, Env: append(env, "MODELCHILD_DIR="+dir), Log: slog.New(slog.DiscardHandler),
		Ready: func(context.Context) error { _, err := pid(); return err }}, pid
}

func TestKeepsTheLifecycleContract(t *testing.T) {
	lifecycletest.Stress(t, func(t *testing.T) lifecycle.Service {
		o, _ := options(t)
		return New(o)
	})
}

func TestAKilledChildIsStartedAgain(t *testing.T) {
	o, pid := options(t)
	s := New(o)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, err := pid()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second := first
	waittest.Until(t, func() string {
		if second, err = pid(); err != nil {
			t.Fatal(err)
		}
		if second == first {
			return "no second child"
		}
		return ""
	})
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(second, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the child outlives the service: %v", err)
	}
}

func TestStartFailureReportsTheReason(t *testing.T) {
	o, _ := options(t, "MODELCHILD_BROKEN=1")
	err := New(o).Start(t.Context())
	if !errors.Is(err, errStart) || !strings.Contains(err.Error(), "no models here") {
		t.Errorf("got %v", err)
	}
}

// TestChildOutputIsRelayed: at the line's level, as a warning if it has none, and also after
// a line that is too long.
func TestChildOutputIsRelayed(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
	long := strings.Repeat("x", 200<<10)
	last := relay(strings.NewReader(strings.Join([]string{
		"time=1 level=INFO msg=unimportant", `{"level":"ERROR","msg":"no memory"}`, "panic: dead", long, "the last words"}, "\n")), modelServer, log)
	if last != "the last words" {
		t.Errorf("the last line is %.80q", last)
	}
	for _, want := range []string{"level=ERROR msg=\"{", `level=WARN msg="panic: dead"`, "xxx…", `level=WARN msg="the last words"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q was not passed on", want)
		}
	}
	if strings.Contains(out.String(), "unimportant") || out.Len() > 80<<10 {
		t.Errorf("too much was passed on: %d bytes", out.Len())
	}
}
