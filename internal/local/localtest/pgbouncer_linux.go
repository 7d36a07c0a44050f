package localtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/waittest"
)

// Pooler starts a PgBouncer for the test in front of a database's server, and returns the URL of
// the database through it. The transactions of all clients share at most connections connections.
// Further settings are lines of pgbouncer.ini.
func Pooler(t testing.TB, to string, connections int, settings ...string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // which may not be on PATH
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("localtest: PgBouncer is missing: run `tools/setup pgbouncer` (%v)", err)
	}
	server, err := pgx.ParseConfig(to)
	if err != nil {
		t.Fatalf("localtest: %v", err)
	}
	dir, credential := Dir(t), poolerUser(t)
	ini := fmt.Sprintf(`[databases]
* = host=%s port=%d
[pgbouncer]
listen_addr =
unix_socket_dir = %s
auth_type = scram-sha-256
auth_file = %s
pool_mode = transaction
default_pool_size = %d
max_client_conn = 200
%s
`, server.Host, server.Port, dir, filepath.Join(dir, "users"), connections, strings.Join(settings, "\n"))
	for name, text := range map[string]string{"pgbouncer.ini": ini, "users": fmt.Sprintf("%q %q\n", server.User, server.Password)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { // the database is the test's own
			t.Fatalf("localtest: %v", err)
		}
	}
	if credential != nil {
		if err := os.Chown(dir, int(credential.Uid), int(credential.Gid)); err != nil {
			t.Fatalf("localtest: %v", err)
		}
	}
	log := filepath.Join(dir, "log")
	ended, stop := startPooler(t, program, filepath.Join(dir, "pgbouncer.ini"), log, credential)
	t.Cleanup(stop)
	waittest.Until(t, func() string {
		select {
		case <-ended:
			text, _ := os.ReadFile(log)
			t.Fatalf("localtest: pgbouncer ended:\n%s", text)
		default:
		}
		conn, err := net.Dial("unix", filepath.Join(dir, ".s.PGSQL.6432"))
		if err != nil {
			return err.Error()
		}
		_ = conn.Close()
		return ""
	})
	poolerURL := url.URL{Scheme: "postgres", User: url.UserPassword(server.User, server.Password), Path: "/" + server.Database}
	poolerURL.RawQuery = url.Values{"host": {dir}, "port": {"6432"}, "sslmode": {"disable"}}.Encode()
	return poolerURL.String()
}

// startPooler starts PgBouncer, which refuses to run as root, as another user if we are root. It
// dies with us.
func startPooler(t testing.TB, program, ini, log string, as *syscall.Credential) (ended chan struct{}, stop func()) {
	t.Helper()
	out, err := os.Create(log)
	if err != nil {
		t.Fatalf("localtest: %v", err)
	}
	defer out.Close() //nolint:errcheck // the child has its own
	cmd := exec.Command(program, ini)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: as, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // the death signal is tied to the thread that started the child
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is killed
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("localtest: start %s: %v", program, err)
	}
	return ended, func() {
		_ = cmd.Process.Kill()
		<-ended
	}
}

// poolerUser returns the user for the pooler: nil unless we are root.
func poolerUser(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres") // the user that Debian's package makes
	if err != nil {
		t.Fatalf("localtest: %v", err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if uidErr != nil || gidErr != nil {
		t.Fatalf("localtest: user %s is %s:%s", u.Name, u.Uid, u.Gid)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
