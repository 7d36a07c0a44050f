package parse

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/lifecycle/lifecycletest"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
)

// childVariable is the environment variable that makes the test binary a pool's child.
const childVariable = "SLUICE_PARSE_TEST_CHILD"

func TestMain(m *testing.M) {
	if runIfAttacker() || runIfOffice() {
		return
	}
	if os.Getenv(childVariable) != "" {
		if err := testChild(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// skipVariable is the environment variable with the protections, separated by commas, that a child
// of the test binary skips.
const skipVariable = "SLUICE_PARSE_TEST_SKIP"

// testChild is RunChild with a parser that misbehaves.
func testChild() error {
	in, err := readSandbox()
	if err != nil {
		return err
	}
	if in.Compile {
		return in.compile()
	}
	if in.Program != nil {
		return in.execProgram(strings.Split(os.Getenv(skipVariable), ",")...)
	}
	pdfiumRuntime.cacheDir = in.CacheDir
	return serve(os.Stdin, os.Stdout, in.confine(strings.Split(os.Getenv(skipVariable), ",")...), delayed, parseBadly)
}

// without makes children skip protections.
func without(o *PoolOptions, protections ...string) {
	command := o.Command
	o.Command = func() *exec.Cmd {
		cmd := command()
		cmd.Env = append(cmd.Env, skipVariable+"="+strings.Join(protections, ","))
		return cmd
	}
}

// delayed waits before a file as long as the file's text says.
func delayed(data []byte) {
	order, rest, _ := strings.Cut(string(data), " ")
	if order != "DAWDLE" {
		prepare(data)
		return
	}
	long, err := time.ParseDuration(rest)
	if err != nil {
		panic(err)
	}
	<-time.After(long) //house:clock what the file says
}

// parseBadly parses, or misbehaves as the file's text says.
func parseBadly(ctx context.Context, name, mediaHint string, data []byte, limits Limits, ocr *ocrSession) (schema.Parsed, error) {
	order, rest, _ := strings.Cut(string(data), " ")
	switch order {
	case "HANG":
		for {
			time.Sleep(time.Hour) //house:clock it hangs
		}
	case "NAP":
		long, err := time.ParseDuration(rest)
		if err != nil {
			panic(err)
		}
		<-time.After(long) //house:clock what the file says
		return schema.Parsed{Blocks: []schema.Block{{Text: order}}}, nil
	case "SPIN":
		for n := 0; ; n++ {
			_ = n
		}
	case "CRASH":
		fmt.Fprintln(os.Stderr, "parser: fatal: "+rest)
		os.Exit(2)
	case "EAT":
		var kept [][]byte
		for {
			kept = append(kept, bytes.Repeat([]byte{1}, 8<<20))
			_ = kept
		}
	case "ENV":
		return schema.Parsed{Blocks: []schema.Block{{Text: strings.Join(os.Environ(), "\n")}}}, nil
	case "PID":
		return schema.Parsed{Blocks: []schema.Block{{Text: fmt.Sprint(os.Getpid())}}}, nil
	case "GRAB":
		kept := make([]byte, 64<<30)
		kept[len(kept)-1] = 1
		return schema.Parsed{Blocks: []schema.Block{{Text: "It had 64 GB."}}}, nil
	case "ATTACK":
		return attack(rest)
	case "SPAWN":
		pipe, err := os.OpenFile(rest, os.O_WRONLY, 0)
		if err != nil {
			return schema.Parsed{}, err
		}
		cmd := exec.Command("sleep", "3600")
		cmd.Stdout = pipe
		if err := cmd.Start(); err != nil {
			return schema.Parsed{}, err
		}
		time.Sleep(time.Hour) //house:clock it hangs
	}
	return parseFile(ctx, name, mediaHint, data, limits, ocr)
}

// pool starts a pool of children of the test binary.
func pool(t *testing.T, change func(*PoolOptions)) *Pool {
	t.Helper()
	p := newPool(t, change)
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func newPool(t *testing.T, change func(*PoolOptions)) *Pool {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := PoolOptions{Workers: 2, Command: func() *exec.Cmd {
		cmd := exec.Command(exe)
		cmd.Env = []string{childVariable + "=1"}
		return cmd
	}}
	if change != nil {
		change(&o)
	}
	p, err := NewPool(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func textOfPool(t *testing.T, p *Pool, data string) string {
	t.Helper()
	got, err := p.Parse(t.Context(), "a.txt", "", []byte(data))
	if err != nil {
		t.Fatal(err)
	}
	return got.Blocks[0].Text
}

func reasonOf(t *testing.T, err error) schema.Reason {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a reason", err)
	}
	return e.Reason
}

func TestPoolParses(t *testing.T) {
	p := pool(t, nil)
	if got := textOfPool(t, p, "Some text."); got != "Some text." {
		t.Errorf("got %q", got)
	}
	if _, err := p.Parse(t.Context(), "a.pdf", "", pdfFile([]string{"BT /F1 11 Tf 72 720 Td (Some text.) Tj ET"})); err != nil {
		t.Error(err)
	}
	_, err := p.Parse(t.Context(), "a.docx", "", oleFile("EncryptedPackage"))
	if r := reasonOf(t, err); r.Code != schema.ReasonEncrypted {
		t.Errorf("reason %+v", r)
	}
	// 90 MB go over the pipe.
	big := bytes.Repeat([]byte("word\n\n"), 15<<20)
	_, err = p.Parse(t.Context(), "a.txt", "", big)
	if r := reasonOf(t, err); r.Code != schema.ReasonTooLarge {
		t.Errorf("reason %+v", r)
	}
	_, err = p.Parse(t.Context(), "a.txt", "", make([]byte, 200<<20))
	if r := reasonOf(t, err); r.Code != schema.ReasonTooLarge {
		t.Errorf("reason %+v", r)
	}
}

func TestPoolKillsAHangingParser(t *testing.T) {
	p := pool(t, func(o *PoolOptions) { o.Limits.Time = 300 * time.Millisecond; o.Workers = 1 })
	for _, order := range []string{"HANG", "SPIN"} {
		_, err := p.Parse(t.Context(), "a.txt", "", []byte(order)) // which never ends by itself
		if r := reasonOf(t, err); r.Code != schema.ReasonTimeout {
			t.Errorf("reason %+v", r)
		}
		if got := textOfPool(t, p, "Next."); got != "Next." {
			t.Errorf("after a timeout: %q", got)
		}
	}
}

func TestPoolDistinguishesCrashes(t *testing.T) {
	p := pool(t, func(o *PoolOptions) { o.Workers = 1 })
	_, err := p.Parse(t.Context(), "bad.txt", "", []byte("CRASH here"))
	var e *Error
	if !errors.Is(err, ErrCrashed) || errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"bad.txt", "exit status 2", "parser: fatal: here"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	if got := textOfPool(t, p, "Next."); got != "Next." {
		t.Errorf("after a crash: %q", got)
	}
}

func TestPoolReplacesAChildThatDiedIdle(t *testing.T) {
	p := pool(t, func(o *PoolOptions) { o.Workers = 1 })
	var pid int
	if _, err := fmt.Sscan(textOfPool(t, p, "PID"), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := textOfPool(t, p, "PID"); got == fmt.Sprint(pid) {
		t.Errorf("the dead child %s answered", got)
	}
}

func TestPoolLimitsMemory(t *testing.T) {
	p := pool(t, func(o *PoolOptions) { o.Workers = 1; o.MemoryLimit = 200 << 20 })
	_, err := p.Parse(t.Context(), "a.txt", "", []byte("EAT"))
	r := reasonOf(t, err)
	if r.Code != schema.ReasonTooLarge || !strings.Contains(r.Message, "memory") {
		t.Errorf("reason %+v", r)
	}
	if got := textOfPool(t, p, "Next."); got != "Next." {
		t.Errorf("after it: %q", got)
	}
}

// TestPoolLimitsMemoryTakenAtOnce allocates more than any limit, faster than the pool checks.
func TestPoolLimitsMemoryTakenAtOnce(t *testing.T) {
	p := pool(t, func(o *PoolOptions) { o.Workers = 1; o.MemoryLimit = 200 << 20 })
	_, err := p.Parse(t.Context(), "a.txt", "", []byte("GRAB"))
	if r := reasonOf(t, err); r.Code != schema.ReasonTooLarge || !strings.Contains(r.Message, "memory") {
		t.Errorf("reason %+v", r)
	}
	if got := textOfPool(t, p, "Next."); got != "Next." {
		t.Errorf("after it: %q", got)
	}
}

func TestPoolRecyclesChildren(t *testing.T) {
	p := pool(t, func(o *PoolOptions) { o.Workers = 1; o.Recycle = 2 })
	pids := make(map[string]int)
	for range 6 {
		pids[textOfPool(t, p, "PID")]++
	}
	if len(pids) != 3 {
		t.Errorf("6 files, 2 each: %v", pids)
	}
}

func TestPoolKeepsSecretsToItself(t *testing.T) {
	t.Setenv("SLUICE_DATABASE_URL", "postgres://secret")
	env := textOfPool(t, pool(t, nil), "ENV")
	if strings.Contains(env, "secret") || !strings.Contains(env, "GOMEMLIMIT") {
		t.Errorf("the child's environment: %s", env)
	}
}

func TestPoolEndsWithItsCaller(t *testing.T) {
	p := pool(t, func(o *PoolOptions) { o.Workers = 1 })
	//house:clock the caller's time
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := p.Parse(ctx, "a.txt", "", []byte("HANG"))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if got := textOfPool(t, p, "Next."); got != "Next." {
		t.Errorf("after it: %q", got)
	}
}

func TestPoolKillsProcessesOfChildren(t *testing.T) {
	p := pool(t, func(o *PoolOptions) {
		o.Limits.Time, o.Workers = 500*time.Millisecond, 1
		// Confined children cannot start processes.
		without(o, protectionUser, protectionLandlock, protectionSeccomp)
	})
	pipe := t.TempDir() + "/pipe"
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	// The pipe reports its end when the last process that could write to it has ended.
	ended := make(chan error, 1)
	go func() {
		f, err := os.Open(pipe)
		if err == nil {
			_, err = io.Copy(io.Discard, f)
			_ = f.Close()
		}
		ended <- err
	}()
	_, err := p.Parse(t.Context(), "a.txt", "", []byte("SPAWN "+pipe))
	if r := reasonOf(t, err); r.Code != schema.ReasonTimeout {
		t.Errorf("reason %+v", r)
	}
	if err := waittest.Receive(t, ended, "the end of what the child started"); err != nil {
		t.Error(err)
	}
}

func TestPoolStops(t *testing.T) {
	p := newPool(t, nil)
	if _, err := p.Parse(t.Context(), "a.txt", "", []byte("Text.")); !errors.Is(err, ErrStopped) {
		t.Errorf("before the start: %v", err)
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	pid := textOfPool(t, p, "PID")
	done := make(chan error, 1)
	go func() {
		_, err := p.Parse(context.Background(), "a.txt", "", []byte("HANG"))
		done <- err
	}()
	// The hanging file is being parsed once the pool is known to handle other work.
	for !busy(p) {
		textOfPool(t, p, "Text.")
	}
	//house:clock the time after which work is cut off
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stopping with work that never ends: %v", err)
	}
	if err := <-done; !errors.Is(err, ErrStopped) {
		t.Errorf("the work in hand: %v", err)
	}
	if _, err := os.Stat("/proc/" + pid); err == nil {
		t.Errorf("child %s lives on", pid)
	}
}

// busy reports whether a file is being parsed.
func busy(p *Pool) bool { return len(p.run.slots) < cap(p.run.slots) }

func TestPoolIsAService(t *testing.T) {
	lifecycletest.Stress(t, func(t *testing.T) lifecycle.Service {
		return newPool(t, nil)
	})
}

func TestPoolWorksInParallel(t *testing.T) {
	p := pool(t, nil)
	var wait sync.WaitGroup
	for i := range 40 {
		wait.Go(func() {
			want := fmt.Sprintf("Text number %d.", i)
			switch i % 10 {
			case 3:
				if _, err := p.Parse(t.Context(), "a.txt", "", []byte("CRASH")); !errors.Is(err, ErrCrashed) {
					t.Errorf("got %v", err)
				}
			default:
				got, err := p.Parse(t.Context(), "a.txt", "", []byte(want))
				if err != nil || got.Blocks[0].Text != want {
					t.Errorf("got %v, %v", got, err)
				}
			}
		})
	}
	wait.Wait()
}

func TestPoolOptionsAreChecked(t *testing.T) {
	if _, err := NewPool(PoolOptions{}); err == nil || !strings.Contains(err.Error(), "command") {
		t.Errorf("got %v", err)
	}
	command := func() *exec.Cmd { return exec.Command("/does/not/exist") }
	if _, err := NewPool(PoolOptions{Command: command, Limits: Limits{Time: -1}}); err == nil || !strings.Contains(err.Error(), "time") {
		t.Errorf("got %v", err)
	}
	p, err := NewPool(PoolOptions{Command: command, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Stop(context.Background()) }()
	if _, err := p.Parse(t.Context(), "a.txt", "", []byte("Text.")); err == nil || errors.Is(err, ErrCrashed) {
		t.Errorf("a child that can't be started: %v", err)
	}
}

func TestPoolDoesNotCountStartUpTime(t *testing.T) {
	p := pool(t, func(o *PoolOptions) { o.Limits.Time = 100 * time.Millisecond })
	// Longer than the elapsed time that the file itself may take.
	if _, err := p.Parse(t.Context(), "a.txt", "", []byte("DAWDLE 2s")); err != nil {
		t.Error(err)
	}
}

func TestPoolCountsProcessorTimeOnly(t *testing.T) {
	p := pool(t, func(o *PoolOptions) { o.Limits.Time, o.Workers = time.Second, 1 })
	// As on a machine where other processes use the processor.
	if got := textOfPool(t, p, "NAP 1600ms"); got != "NAP" {
		t.Errorf("got %q", got)
	}
	_, err := p.Parse(t.Context(), "a.txt", "", []byte("SPIN"))
	if r := reasonOf(t, err); r.Code != schema.ReasonTimeout || !strings.Contains(r.Message, "more than 1s of processor time") {
		t.Errorf("reason %+v", r)
	}
}
