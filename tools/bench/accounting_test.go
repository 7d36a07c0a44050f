package main

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// burnVariable makes the test binary a process that uses CPU time itself and in a child that it
// waits for.
const burnVariable = "BENCH_TEST_BURN"

// burnTime is the CPU time that each such process uses.
const burnTime = 300 * time.Millisecond

func TestMain(m *testing.M) {
	switch os.Getenv(burnVariable) {
	case "parent":
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), burnVariable+"=child")
		if err := child.Run(); err != nil {
			panic(err)
		}
		burn()
		_, _ = os.Stdout.WriteString("burnt\n")
		_, _ = os.Stdin.Read(make([]byte, 1))
	case "child":
		burn()
	default:
		goleak.VerifyTestMain(m)
	}
}

// burn uses CPU time.
func burn() {
	for x := 0.0; ; {
		for range 1_000_000 {
			x = math.Sqrt(x + 1)
		}
		if used(os.Getpid()) >= burnTime.Seconds() {
			return
		}
	}
}

func used(pid int) float64 {
	all, err := processes()
	if err != nil {
		panic(err)
	}
	return all[pid].own
}

func TestTimeOfTheLivingAndOfTheEnded(t *testing.T) {
	if runtime.GOOS != "linux" {
		if err := run([]string{"ingest"}); !errors.Is(err, errSystem) {
			t.Errorf("the system is not said to be the reason: %v", err)
		}
		return
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), burnVariable+"=parent")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	if _, err := stdout.Read(make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	// The process stands for sluice, its ended child for a parser, and this test for NATS.
	u, err := account(cmd.Process.Pid, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// Reading /proc takes CPU time too, so the upper limit has to be generous.
	if got := u.seconds[partSluice]; got < burnTime.Seconds() || got > 10 {
		t.Errorf("the process used %.2f s", got)
	}
	if got := u.seconds[partParse]; got < burnTime.Seconds() || got > 10 {
		t.Errorf("its ended child used %.2f s", got)
	}
	again, err := account(cmd.Process.Pid, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	spent, err := again.since(u)
	if err != nil {
		t.Fatal(err)
	}
	if spent[partParse] != 0 {
		t.Errorf("the ended child goes on: %v", spent)
	}
}

func TestTimeGoesToItsPart(t *testing.T) {
	const sluice, nats = 10, 20
	all := map[int]process{}
	for _, p := range []process{
		{pid: 1, own: 1000, reaped: 1000},
		{pid: sluice, parent: 5, own: 1, reaped: 2},
		{pid: nats, parent: 5, own: 4},
		{pid: 11, parent: sluice, own: 8},             // a parser
		{pid: 12, parent: sluice, own: 16},            // gpu-segmenter
		{pid: 13, parent: sluice, own: 32, reaped: 1}, // postgres
		{pid: 14, parent: 13, own: 64},                // a backend
		{pid: 15, parent: sluice, own: 128},           // temporal
		{pid: 16, parent: sluice, own: 256},           // a parser that has just ended
		{pid: 99, parent: 5, own: 1000},
	} {
		all[p.pid] = p
	}
	argv := map[int][]string{
		sluice: {"/x/bin/sluice", "up"}, nats: {"/x/bin/bench", "nats"}, 11: {"/x/bin/sluice", "parse-child"},
		12: {"/x/bin/gpu-segmenter", "--with-parent"}, 13: {"/usr/lib/postgresql/15/bin/postgres", "-D", "d"},
		14: {"postgres: sluice: writer"}, 15: {"/x/tools/temporal-server"},
	}
	read := func() usage {
		t.Helper()
		u, err := attribute(all, sluice, nats, func(pid int) []string { return argv[pid] })
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	before := read()
	for p, want := range map[part]float64{
		partSluice: 1, partParse: 2 + 8 + 256, partNATS: 4, partModel: 16, partSQL: 32 + 1 + 64, partTemporal: 128,
	} {
		if got := before.seconds[p]; got != want {
			t.Errorf("%s: %g s, want %g", p, got, want)
		}
	}

	// A backend and a parser end. Their time moves to their parents: none is lost, and none is
	// counted twice.
	delete(all, 14)
	all[13] = process{pid: 13, parent: sluice, own: 32, reaped: 1 + 64 + 3}
	delete(all, 11)
	all[sluice] = process{pid: sluice, parent: 5, own: 1, reaped: 2 + 8 + 5}
	spent, err := read().since(before)
	if err != nil {
		t.Fatal(err)
	}
	if spent[partSQL] != 3 || spent[partParse] != 5 {
		t.Errorf("spent %v, want 3 for sql and 5 for parse", spent)
	}

	// A server that has ended would be counted as a parser.
	delete(all, 12)
	if _, err := read().since(before); err == nil {
		t.Error("nothing is said about gpu-segmenter's end")
	}
	delete(all, sluice)
	if _, err := attribute(all, sluice, nats, func(pid int) []string { return argv[pid] }); err == nil {
		t.Error("nothing is said about sluice's end")
	}
}

func TestServerThatDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	_, _, err := start(t.Context(), dir, "shell", nil, "/bin/sh", "-c", "echo no model pack >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "no model pack") {
		t.Errorf("its last words are missing: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := start(ctx, dir, "cat", nil, "/bin/cat"); err == nil {
		t.Error("it went on after the end")
	}
	if _, err := newInstallation(t.Context(), filepath.Join(dir, "sluice")); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("a program that is not there: %v", err)
	}
}
