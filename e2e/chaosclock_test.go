//go:build chaos

package e2e

// This file gives programs a wall clock that a test can move. They are built with a copy of the
// standard library in which time.Now adds an offset from a file. The monotonic clock is unchanged,
// as after a change of the machine's clock.

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/sluice-rag/sluice/internal/local/localtest"
)

// clockVariable is the variable with the file of a process's clock.
const clockVariable = "SLUICE_CHAOS_CLOCK"

// nowBegins is the beginning of time.Now, which the overlay changes.
const nowBegins = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"

// clockSource is added to package time.
const clockSource = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

// injected is by how many nanoseconds the wall clock is off.
var injected *int64

func init() {
	name, set := syscall.Getenv("` + clockVariable + `")
	if !set {
		return
	}
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic("` + clockVariable + `: " + err.Error())
	}
	word, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic("` + clockVariable + `: " + err.Error())
	}
	_ = syscall.Close(fd)
	injected = (*int64)(unsafe.Pointer(&word[0]))
}

func injectedWall(sec int64, nsec int32) (int64, int32) {
	if injected == nil {
		return sec, nsec
	}
	off := atomic.LoadInt64(injected)
	sec += off / 1e9
	n := int64(nsec) + off%1e9
	switch {
	case n < 0:
		sec, n = sec-1, n+1e9
	case n >= 1e9:
		sec, n = sec+1, n-1e9
	}
	return sec, int32(n)
}
`

// clockOverlay writes the files for `go build -overlay`, and returns the overlay file.
func clockOverlay(t *testing.T) string {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	original := filepath.Join(folder, "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), nowBegins) != 1 {
		t.Fatalf("%s is of a Go version whose time.Now does not begin with\n%s\nWrite nowBegins in chaosclock_test.go anew for it", original, nowBegins)
	}
	// The folder is always the same, so that the build cache stays valid.
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "sluice-chaos-clock")
	put(t, dir, "time.go", strings.Replace(string(text), nowBegins, nowBegins+"\tsec, nsec = injectedWall(sec, nsec)\n", 1))
	put(t, dir, "clock.go", clockSource)
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		original: filepath.Join(dir, "time.go"), filepath.Join(folder, "clock_injected.go"): filepath.Join(dir, "clock.go")}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "overlay.json", string(overlay))
	return filepath.Join(dir, "overlay.json")
}

// wallClock is the wall clock of one process.
type wallClock struct {
	path string
	word *int64
}

func newWallClock(t *testing.T, dir, name string) *wallClock {
	t.Helper()
	path := filepath.Join(dir, name+".clock")
	if err := os.WriteFile(path, make([]byte, 8), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	word, err := syscall.Mmap(int(f.Fd()), 0, 8, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(word) })
	return &wallClock{path: path, word: (*int64)(unsafe.Pointer(&word[0]))}
}

// set moves the clock by d from the true time.
func (c *wallClock) set(d time.Duration) { atomic.StoreInt64(c.word, int64(d)) }

func (c *wallClock) env() string { return clockVariable + "=" + c.path }

// TestChaosClock moves the clock of a program that prints how far its wall clock and its monotonic
// clock have moved.
func TestChaosClock(t *testing.T) {
	overlay, dir := clockOverlay(t), localtest.Dir(t)
	put(t, dir, "go.mod", "module clock\n\ngo 1.26\n")
	put(t, dir, "main.go", `package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

func main() {
	begin := time.Now()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		now := time.Now()
		fmt.Println(now.UnixNano()-begin.UnixNano(), int64(now.Sub(begin)))
	}
}
`)
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "-o", filepath.Join(dir, "clock"), ".")
	build.Dir, build.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	clock := newWallClock(t, dir, "clock")
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "clock"))
	cmd.Env = append(os.Environ(), clock.env())
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, off := range []time.Duration{0, 3*time.Hour + 999_999_999, -25 * time.Minute, -1, 0} {
		clock.set(off)
		if _, err := in.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 200)
		n, err := out.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		var wall, mono int64
		if _, err := fmt.Sscan(string(line[:n]), &wall, &mono); err != nil {
			t.Fatal(err)
		}
		// One call of time.Now read both clocks.
		if moved := time.Duration(wall - mono); (moved-off).Abs() > time.Second || mono < 0 {
			t.Errorf("a clock set to %s is %s off, and the monotonic one went %s", off, moved, time.Duration(mono))
		}
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
