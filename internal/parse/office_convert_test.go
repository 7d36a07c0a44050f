package parse

// Conversions without LibreOffice: what is refused, and a scripted program in its place that
// misbehaves. office_libre_test.go uses the real LibreOffice.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// scriptedOffice is the name of the test binary when it plays LibreOffice.
const scriptedOffice = "scripted-soffice"

// runIfOffice executes the script in the file to convert.
func runIfOffice() bool {
	if filepath.Base(os.Args[0]) != scriptedOffice {
		return false
	}
	in := os.Args[len(os.Args)-1]
	dir := filepath.Dir(in)
	to := ""
	for i, arg := range os.Args {
		if arg == "--convert-to" {
			to = os.Args[i+1]
		}
	}
	made := filepath.Join(dir, "out", "in."+to)
	text, err := os.ReadFile(in)
	if err != nil {
		panic(err)
	}
	_, script, _ := strings.Cut(string(text), "SCRIPT ")
	script, argument, _ := strings.Cut(strings.TrimRight(script, "\x00"), " ")
	argument = strings.TrimRight(argument, "\x00")
	switch script {
	case "write":
		err = os.WriteFile(made, []byte(argument), 0o600)
	case "again": // as LibreOffice does after creating a profile
		mark := filepath.Join(dir, "profile", "made")
		if _, missing := os.Stat(mark); missing != nil {
			if err := os.WriteFile(mark, nil, 0o600); err != nil {
				panic(err)
			}
			os.Exit(officeRestartStatus)
		}
		err = os.WriteFile(made, []byte(argument), 0o600)
	case "nothing":
	case "link":
		err = os.Symlink("/etc/passwd", made)
	case "folder":
		err = os.Mkdir(made, 0o700)
	case "spin":
		for n := 0; ; n++ { // until it is killed
			_ = n
		}
	case "sleep":
		time.Sleep(time.Hour) //house:clock it hangs
	case "big":
		err = os.WriteFile(made, make([]byte, 80<<20), 0o600)
	case "fill":
		for n := 0; err == nil; n++ {
			err = os.WriteFile(filepath.Join(dir, "tmp", fmt.Sprint(n)), make([]byte, 1<<20), 0o600)
		}
	case "die":
		panic("as asked")
	case "killed":
		for p, x := []byte(nil), 0; ; x++ {
			p = append(p, make([]byte, 64<<20)...)
			p[len(p)-1] = byte(x)
		}
	case "attack":
		err = os.WriteFile(made, []byte(officeAttack(dir)), 0o600)
	default:
		panic("no script in " + in)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	return true
}

// officeAttack returns the forbidden things that a program in LibreOffice's sandbox can do.
func officeAttack(dir string) string {
	var could []string
	try := func(what string, do func() error) {
		if do() == nil {
			could = append(could, what)
		}
	}
	try("read /etc/passwd", func() error { _, err := os.ReadFile("/etc/passwd"); return err })
	try("write to /tmp", func() error { return os.WriteFile(filepath.Join(filepath.Dir(dir), "escaped"), nil, 0o600) })
	try("see its siblings", func() error { _, err := os.ReadDir(filepath.Dir(dir)); return err })
	try("write to /dev/shm", func() error { return os.WriteFile("/dev/shm/escaped", nil, 0o600) })
	try("link out", func() error { return os.Symlink("/etc/passwd", filepath.Join(dir, "link")) })
	try("start a program", func() error {
		p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
		if err == nil {
			_, err = p.Wait()
		}
		return err
	})
	try("use the network", func() error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			err = l.Close()
		}
		return err
	})
	try("connect to a socket", func() error {
		path := filepath.Join(officeSockets, "OSL_PIPE_test")
		_ = os.Remove(path)
		l, err := net.Listen("unix", path)
		if err != nil {
			return err
		}
		defer l.Close() //nolint:errcheck // it ends soon
		c, err := net.Dial("unix", path)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	try("become root", func() error {
		if os.Getuid() != 0 {
			return errors.New("it is not")
		}
		return nil
	})
	return "could: " + strings.Join(could, ", ")
}

// scripted returns a pool whose LibreOffice is this test binary.
func scripted(t *testing.T) *Pool {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice-scripted-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, scriptedOffice)
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(program, binary, 0o755)); err != nil {
		t.Fatal(err)
	}
	loader, libs, err := libraries(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	p := pool(t, func(o *PoolOptions) { o.Workers, o.Limits.Bytes = 1, 8<<20 })
	p.run.office = &office{program: program, loader: loader, libs: libs, parts: []string{"writer", "calc", "impress"}}
	return p
}

// roomy are limits for a Go program, which reserves much address space.
var roomy = officeLimits{time: 30 * time.Second, memory: 16 << 30, disk: 1 << 30}

func TestScriptedConversionsAreBounded(t *testing.T) {
	if !canConfineWriting {
		t.Log("nothing is converted here")
		return
	}
	r := scripted(t).run
	small := roomy
	small.time = time.Second
	disk := roomy
	disk.disk = 20 << 20
	for _, tt := range []struct {
		script string
		limits officeLimits
		want   string // of the error
		made   string
	}{
		{"write a new document", roomy, "", "a new document"},
		{"again a new document", roomy, "", "a new document"},
		{"nothing", roomy, "broken: LibreOffice cannot read it", ""},
		{"link", roomy, "operation not permitted", ""},
		{"folder", roomy, "no regular file", ""},
		{"spin", small, "timeout: LibreOffice did not convert it in 1s", ""},
		{"big", roomy, "file too large", ""},
		{"fill", disk, "too_large: Converting it took more than 20 MB of disk", ""},
		{"killed", officeLimits{time: roomy.time, memory: 3 << 30, disk: 1 << 30}, "too_large: Converting it needed more than", ""},
		{"die", roomy, "as asked", ""},
		{"attack", roomy, "", "could: "},
		{"write it lives", roomy, "", "it lives"},
	} {
		t.Run(tt.script, func(t *testing.T) {
			made, err := r.convert(t.Context(), oldFormats[formatDOC], []byte("SCRIPT "+tt.script), 8<<20, tt.limits)
			switch {
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("it gave %.100q, %v, want an error with %q", made, err, tt.want)
			case tt.want == "" && (err != nil || string(made) != tt.made):
				t.Errorf("it gave %.300q, %v, want %q", made, err, tt.made)
			}
		})
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "sluice-office-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("of the folders %v is left, %v", left, err)
	}
	c := r.officeConfinement.Load()
	if c == nil || len(c.Missing) > 0 || len(c.Applied) != 6 {
		t.Errorf("it says that it is confined by %v", c)
	}
}

// TestScriptedConversionEndsWithItsCaller checks that the program ends when the caller cancels.
func TestScriptedConversionEndsWithItsCaller(t *testing.T) {
	if !canConfineWriting {
		return
	}
	p := scripted(t)
	//house:clock the caller's time
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if made, err := p.run.convert(ctx, oldFormats[formatDOC], []byte("SCRIPT sleep"), 1<<20, roomy); err == nil {
		t.Errorf("it made %q", made)
	}
}

func TestOldFormatsWithoutLibreOfficeNameTheRemedy(t *testing.T) {
	p := pool(t, func(o *PoolOptions) { o.NoOffice = true })
	for name, tt := range map[string]struct{ stream, remedy string }{
		"a.doc": {"WordDocument", "--convert-to docx *.doc"}, "a.xls": {"Workbook", "--convert-to xlsx *.xls"}, "a.ppt": {"PowerPoint Document", "--convert-to pptx *.ppt"}} {
		data := compound(tree{tt.stream: []byte("x")})
		_, err := p.Parse(t.Context(), name, "", data)
		if err == nil || !strings.HasPrefix(err.Error(), "unsupported:") || !strings.Contains(err.Error(), "SLUICE_PARSE_OFFICE") || !strings.Contains(err.Error(), tt.remedy) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err = Parse(t.Context(), name, "", data, Limits{}); err == nil || !strings.Contains(err.Error(), "Install LibreOffice (Debian: libreoffice-") || !strings.Contains(err.Error(), tt.remedy) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, data := range map[string][]byte{
		"a.doc": compound(tree{"WordDocument": append(make([]byte, 10), 0, 1, 0, 0)}),
		"a.xls": compound(tree{"Workbook": []byte("\x09\x08\x02\x00\x00\x06\x2F\x00\x02\x00\x00\x00")}),
	} {
		if _, err := p.Parse(t.Context(), name, "", data); err == nil || !strings.HasPrefix(err.Error(), schema.ReasonEncrypted+":") {
			t.Errorf("%s with a password: %v", name, err)
		}
	}
}
