package parse

// What a file that controls its parser could try, and that each attempt is refused.

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-rag/sluice/schema"
)

// attackTargets describes the targets of an attack by a child.
type attackTargets struct {
	TCP, UDP, Unix string // addresses
	Readable       string // a file that every user may read
	Writable       string // a folder that every user may write to
	Cache          string // compiled code
}

// attacks returns the attacks on p in the order in which they are tried. Each returns the error by
// which it was refused, or nil.
func attacks(p attackTargets) []struct {
	name string
	try  func() error
} {
	dial := func(network, address string) func() error {
		return func() error {
			c, err := net.Dial(network, address)
			if err == nil {
				_, err = c.Write([]byte("x"))
				_ = c.Close()
			}
			return err
		}
	}
	number := func(call uintptr, args ...uintptr) func() error {
		return func() error {
			var a [3]uintptr
			copy(a[:], args)
			if _, _, e := unix.Syscall(call, a[0], a[1], a[2]); e != 0 {
				return e
			}
			return nil
		}
	}
	read := func(name string) func() error {
		return func() error { _, err := os.ReadFile(name); return err }
	}
	return []struct {
		name string
		try  func() error
	}{
		{"connect over TCP", dial("tcp", p.TCP)},
		{"send over UDP", dial("udp", p.UDP)},
		{"connect to a unix socket", dial("unix", p.Unix)},
		{"listen", func() error { _, err := net.Listen("tcp", "127.0.0.1:0"); return err }},
		{"read /etc/shadow", read("/etc/shadow")},
		{"read a file", read(p.Readable)},
		{"read its parent's environment", read(fmt.Sprintf("/proc/%d/environ", os.Getppid()))},
		{"write a file", func() error { return os.WriteFile(filepath.Join(p.Writable, "new"), []byte("x"), 0o600) }},
		{"make a folder", func() error { return os.Mkdir(filepath.Join(p.Writable, "folder"), 0o700) }},
		{"write compiled code", func() error { return os.WriteFile(filepath.Join(p.Cache, "new"), []byte("x"), 0o600) }},
		{"start a program", func() error { return exec.Command("/bin/true").Run() }},
		{"fork", fork},
		{"trace its parent", func() error { return unix.PtraceSeize(os.Getppid()) }},
		{"signal its parent", func() error { return unix.Kill(os.Getppid(), 0) }},
		{"become root again", number(unix.SYS_SETUID, 0)},
		{"change its parent's limits", func() error {
			return unix.Prlimit(os.Getppid(), unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
		}},
		{"raise its own limits", func() error {
			return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 19, Max: 1 << 19})
		}},
		{"make namespaces", number(unix.SYS_UNSHARE, unix.CLONE_NEWUSER)},
		{"load a program into the kernel", number(unix.SYS_BPF)},
		{"make a ring", number(unix.SYS_IO_URING_SETUP, 1)},
	}
}

// fork creates a process with a plain clone system call, which ends at once.
func fork() error {
	pid, _, e := unix.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)
	switch {
	case e != 0:
		return e
	case pid == 0:
		for {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	_, err := unix.Wait4(int(pid), nil, 0, nil)
	return err
}

// attack tries all attacks. It returns a line for each that was not refused, after a line with its
// process id.
func attack(target string) (schema.Parsed, error) {
	var p attackTargets
	if err := json.Unmarshal([]byte(target), &p); err != nil {
		return schema.Parsed{}, err
	}
	lines := []string{fmt.Sprint("pid ", os.Getpid())}
	for _, a := range attacks(p) {
		err := a.try()
		refused := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
		if !refused {
			lines = append(lines, fmt.Sprintf("%s: %v", a.name, err))
		}
	}
	return schema.Parsed{Blocks: []schema.Block{{Text: strings.Join(lines, "\n")}}}, nil
}

// victim sets up the targets of an attack, and returns a file that describes them.
func victim(t *testing.T, cache string) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "sluice-victim-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	p := attackTargets{Readable: filepath.Join(folder, "readable"), Writable: folder, Unix: filepath.Join(folder, "socket"), Cache: cache}
	if err := os.WriteFile(p.Readable, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", p.Unix)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p.Unix, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = tcp.Close(), udp.Close(), socket.Close() })
	p.TCP, p.UDP = tcp.Addr().String(), udp.LocalAddr().String()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return "ATTACK " + string(text)
}

// succeeded runs the attacks and returns those that were not refused, and the child's process id.
func succeeded(t *testing.T, p *Pool) (lines []string, pid string) {
	t.Helper()
	lines = strings.Split(textOfPool(t, p, victim(t, p.run.options.CacheDir)), "\n")
	return lines[1:], strings.TrimPrefix(lines[0], "pid ")
}

func TestCompromisedParserIsConfined(t *testing.T) {
	p := pool(t, func(o *PoolOptions) { o.Workers = 1 })
	done, pid := succeeded(t, p)
	if len(done) > 0 {
		t.Errorf("it could\n%s", strings.Join(done, "\n"))
	}
	status := statusOf(t, pid)
	for field, want := range map[string]string{
		"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0000000000000000", "CapPrm": "0000000000000000", "CapAmb": "0000000000000000", "Groups": "",
	} {
		if field == "Groups" && os.Geteuid() != 0 {
			continue
		}
		if status[field] != want {
			t.Errorf("%s is %q, not %q", field, status[field], want)
		}
	}
	if os.Geteuid() == 0 && !strings.HasPrefix(status["Uid"], fmt.Sprint(p.run.user)+"\t") {
		t.Errorf("it runs as %q, not as %d", status["Uid"], p.run.user)
	}
	// The child can still do its work and read compiled code.
	if _, err := p.Parse(t.Context(), "a.pdf", "", pdfFile([]string{"BT /F1 11 Tf 72 720 Td (Some text.) Tj ET"})); err != nil {
		t.Error(err)
	}
	if c := p.run.confinement.Load(); c == nil || len(c.Missing) > 0 || len(c.Applied) != 6 {
		t.Errorf("it says that it is confined by %v", c)
	}
}

// statusOf returns the kernel's status of a process.
func statusOf(t *testing.T, pid string) map[string]string {
	t.Helper()
	f, err := os.Open("/proc/" + pid + "/status")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	fields := make(map[string]string)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		fields[name] = strings.TrimSpace(value)
	}
	return fields
}

// TestEachProtectionSufficesAlone checks each protection without the other, as in a kernel that has
// only one of them.
func TestEachProtectionSufficesAlone(t *testing.T) {
	for _, c := range []struct {
		alone string
		skip  []string
		holds []string
	}{
		{protectionLandlock, []string{protectionSeccomp, protectionUser}, []string{
			"connect over TCP", "read /etc/shadow", "read a file", "write a file", "make a folder", "write compiled code", "start a program", "signal its parent"}},
		{protectionSeccomp, []string{protectionLandlock, protectionUser}, []string{
			"connect over TCP", "send over UDP", "connect to a unix socket", "listen", "write a file", "make a folder", "write compiled code",
			"start a program", "fork", "trace its parent", "signal its parent", "change its parent's limits", "make namespaces",
			"load a program into the kernel", "make a ring", "become root again"}},
	} {
		t.Run(c.alone, func(t *testing.T) {
			p := pool(t, func(o *PoolOptions) { o.Workers = 1; without(o, c.skip...) })
			done, _ := succeeded(t, p)
			for _, name := range c.holds {
				if slices.ContainsFunc(done, func(line string) bool { return strings.HasPrefix(line, name+":") }) {
					t.Errorf("it could %s: %q", name, done)
				}
			}
		})
	}
}

// TestCompiledCodeIsReadFromOneRunToTheNext checks that a child without files writes the compiled
// code, and that the children with files read it and add nothing.
func TestCompiledCodeIsReadFromOneRunToTheNext(t *testing.T) {
	dir, err := os.MkdirTemp("", "sluice-cache-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var first []string
	for round := range 2 {
		p := pool(t, func(o *PoolOptions) { o.Workers, o.CacheDir = 2, dir })
		for range 3 {
			if _, err := p.Parse(t.Context(), "a.pdf", "", pdfFile([]string{"BT /F1 11 Tf 72 720 Td (Some text.) Tj ET"})); err != nil {
				t.Fatal(err)
			}
		}
		files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("the cache has %q, %v", files, err)
		}
		info, err := os.Stat(files[0])
		if err != nil {
			t.Fatal(err)
		}
		now := []string{files[0], info.ModTime().String()}
		if round == 0 {
			first = now
		} else if !slices.Equal(first, now) {
			t.Errorf("it was compiled again: %q, then %q", first, now)
		}
	}
}

// TestCompiledCodeIsNotInRootsFolders: parsers do not run as root and could not read it
// there.
func TestCompiledCodeIsNotInRootsFolders(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "closed", "cache")
	if err := os.MkdirAll(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(closed), 0o700); err != nil {
		t.Fatal(err)
	}
	p := pool(t, func(o *PoolOptions) { o.CacheDir = closed })
	if took := p.run.options.CacheDir; (took == closed) != (os.Geteuid() != 0) || p.run.user != 0 && !enterableByAll(took) {
		t.Errorf("user %d reads compiled code from %s", p.run.user, took)
	}
}

// TestParserWithoutNamespaceIsConfined, as in a container that may not create
// namespaces.
func TestParserWithoutNamespaceIsConfined(t *testing.T) {
	p := pool(t, func(o *PoolOptions) { o.Workers = 1 })
	why := "not allowed here"
	p.run.noNetworkNamespace.Store(&why)
	if done, _ := succeeded(t, p); len(done) > 0 {
		t.Errorf("it could\n%s", strings.Join(done, "\n"))
	}
	c := p.run.confinement.Load()
	if c == nil || len(c.Missing) != 1 || !strings.Contains(c.Missing[0], why) {
		t.Errorf("it says that it is confined by %v", c)
	}
}

func (s *spawner) onMainThread() bool {
	thread := make(chan int, 1)
	s.jobs <- func() { thread <- unix.Gettid() }
	return <-thread == os.Getpid()
}

// TestAParserDiesWithItsPool checks that a child that has switched users still gets the
// parent-death signal.
func TestAParserDiesWithItsPool(t *testing.T) {
	r := pool(t, func(o *PoolOptions) { o.Workers = 1 }).run
	// Go keeps the main thread alive when the goroutine locked to it ends, so another thread has to
	// start the parser.
	for r.spawn.onMainThread() {
		t.Cleanup(r.spawn.stop)
		r.spawn = newSpawner()
	}
	c, err := r.start()
	if err != nil {
		t.Fatal(err)
	}
	taken, done := make(chan struct{}), make(chan error, 1)
	go func() {
		req := request{Name: "a.txt", Settings: &settings{}, data: []byte("HANG")}
		_, err := c.exchange(t.Context(), req, taken, r.reportConfinement, nil)
		done <- err
	}()
	<-taken
	// The thread that started the child ends.
	r.spawn.stop()
	r.spawn = newSpawner()
	if err := <-done; err == nil {
		t.Error("it answered")
	}
	if err := c.wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("it ended with %v", err)
	}
}
