package parse

// What tesseract can do in its sandbox if an image takes control of it.

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// attackerName is the name of the test binary when it plays a tesseract that was taken over.
const attackerName = "taken-over-tesseract"

// runIfAttacker attacks the targets described in the data folder, and prints what was not refused.
func runIfAttacker() bool {
	if filepath.Base(os.Args[0]) != attackerName {
		return false
	}
	var said string
	for i, arg := range os.Args {
		if arg != "--tessdata-dir" {
			continue
		}
		target, err := os.ReadFile(filepath.Join(os.Args[i+1], "prey.json"))
		var got schema.Parsed
		if err == nil {
			got, err = attack(string(target))
		}
		said = fmt.Sprint(err)
		if err == nil {
			said = got.Blocks[0].Text + "\nenvironment " + strings.Join(os.Environ(), " ")
		}
	}
	fmt.Println(said)
	return true
}

// recogniserOf returns the run of a started pool that has looked for tesseract.
func recogniserOf(t *testing.T) *poolRun {
	t.Helper()
	r := pool(t, func(o *PoolOptions) { o.Workers = 1 }).run
	if terms := r.ocrOptionsFor(t.Context(), "en"); !terms.Enabled {
		t.Fatal(terms.Reason)
	}
	return r
}

// TestCompromisedTesseractIsConfined runs a parser's attacks in tesseract's sandbox.
func TestCompromisedTesseractIsConfined(t *testing.T) {
	needsTesseract(t)
	r := recogniserOf(t)
	data, err := os.MkdirTemp("", "sluice-tessdata-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(data) })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(data, attackerName)
	target := strings.TrimPrefix(victim(t, r.options.CacheDir), "ATTACK ")
	for path, content := range map[string][]byte{program: binary, filepath.Join(data, "prey.json"): []byte(target)} {
		if err := os.WriteFile(path, content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(data, 0o755); err != nil {
		t.Fatal(err)
	}
	loader, libs, err := libraries(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	fake := &tesseract{program: program, tessdata: data, loader: loader, libs: libs}
	image := recogniseRequest{Width: 1, Height: 1, DPI: 100}
	// A Go program reserves more memory than tesseract may use.
	said, err := r.recogniseWithin(t.Context(), fake, fake.arguments(image, "eng"), image, []byte{0}, time.Minute, 16<<30)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "pid ") {
		t.Errorf("it could\n%s", said)
	}
	if c := r.ocrConfinement.Load(); c == nil || len(c.Missing) > 0 || len(c.Applied) != 6 {
		t.Errorf("it says that it is confined by %v", c)
	}
	if lines[len(lines)-1] != "environment OMP_THREAD_LIMIT=1 LC_ALL=C" {
		t.Errorf("it knows %q", lines[len(lines)-1])
	}
}

// TestTesseractReadsNoFileAndConnectsToNobody tells the real program to read what it must not.
// Without its sandbox it does.
func TestTesseractReadsNoFileAndConnectsToNobody(t *testing.T) {
	needsTesseract(t)
	r := recogniserOf(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connected := make(chan struct{}, 100)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			connected <- struct{}{}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-served })
	url := "http://" + listener.Addr().String() + "/a.png"
	image := recogniseRequest{Width: 1, Height: 1, DPI: 100}
	run := func(input string) string {
		args := r.tesseract.arguments(image, "eng")
		args[0] = input
		said, err := r.recognise(t.Context(), r.tesseract, args, image, []byte{0}, time.Minute)
		return string(said) + fmt.Sprint(err)
	}
	free := func(input string) string {
		said, _ := exec.CommandContext(t.Context(), r.tesseract.program, input, "stdout").CombinedOutput()
		return string(said)
	}
	// tesseract reads a list of images line by line: its messages show whether it read the file.
	const list = "/etc/passwd"
	if said := free(list); !strings.Contains(said, "root:") {
		t.Errorf("outside its sandbox tesseract did not read %s: %q", list, said)
	}
	if said := run(list); strings.Contains(said, "root:") || !strings.Contains(said, list) {
		t.Errorf("of %s it said %q", list, said)
	}
	if said := free(url); len(connected) == 0 {
		t.Errorf("outside its sandbox tesseract did not connect: %q", said)
	}
	for len(connected) > 0 {
		<-connected
	}
	if said := run(url); len(connected) > 0 {
		t.Errorf("it connected, and said %q", said)
	}
}

// TestTesseractEndsWithItsCaller checks that no process is left after the caller cancels.
func TestTesseractEndsWithItsCaller(t *testing.T) {
	needsTesseract(t)
	r := recogniserOf(t)
	slow := slowPage(t)
	image := recogniseRequest{Width: slow.Bounds().Dx(), Height: slow.Bounds().Dy(), DPI: scannedDPI}
	//house:clock the caller's time
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if said, err := r.recognise(ctx, r.tesseract, r.tesseract.arguments(image, "eng"), image, slow.Pix, time.Minute); err == nil {
		t.Errorf("it said %q", bytes.TrimSpace(said))
	}
}

// TestTesseractsMemoryIsBounded checks that memory over the limit is refused.
func TestTesseractsMemoryIsBounded(t *testing.T) {
	needsTesseract(t)
	r := recogniserOf(t)
	big := recogniseRequest{Width: 6000, Height: 6000, DPI: 300}
	pixels := bytes.Repeat([]byte{255, 255, 255, 0, 0, 255}, 6_000_000)
	_, err := r.recogniseWithin(t.Context(), r.tesseract, r.tesseract.arguments(big, "eng"), big, pixels, time.Minute, 128<<20)
	if err == nil {
		t.Error("it had more than 128 MB")
	}
	t.Log(err)
}
