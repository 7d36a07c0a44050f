package backups

// This file runs pg_dump and pg_restore. Passwords are passed in the environment, never in
// arguments, which all users of a machine can read.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-rag/sluice/schema"
)

// Tools are pg_dump and pg_restore of one version.
type Tools struct {
	Dump, Restore string // paths
	Major         int
}

// FindTools finds the tools of a major version, minVersion, or a newer one.
type FindTools func(ctx context.Context, minVersion int) (Tools, error)

// unwind is how long a tool may take to exit after it was asked to.
const unwind = 10 * time.Second

// maxToolOutput bounds the bytes of a tool's output that its error quotes; these are the last ones.
const maxToolOutput = 4 << 10

// driverParameters are parameters of URLs that our driver knows and Postgres' own tools do not.
var driverParameters = []string{
	"default_query_exec_mode", "statement_cache_capacity", "description_cache_capacity",
	"pool_max_conns", "pool_min_conns", "pool_min_idle_conns", "pool_max_conn_lifetime", "pool_max_conn_lifetime_jitter", "pool_max_conn_idle_time", "pool_health_check_period",
}

// toolAddress returns a URL in the form that the tools take, and its password separately.
func toolAddress(setting, address string) (string, string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", "", schema.Invalid(setting, "must be an address, postgres://user:password@host:port/database")
	}
	q := u.Query()
	password := q.Get("password")
	q.Del("password")
	for _, name := range driverParameters {
		q.Del(name)
	}
	if q.Has("sslpassword") {
		return "", "", schema.Invalid(setting, "has sslpassword, which pg_dump takes as an argument alone; use a key without a password that only its owner can read")
	}
	if u.User != nil {
		if given, ok := u.User.Password(); ok {
			password = given
		}
		u.User = url.User(u.User.Username())
	}
	u.RawQuery = q.Encode()
	return u.String(), password, nil
}

// runTool runs a tool to its end, or stops it when ctx ends. The tool's output goes to out, or is
// discarded when out is nil.
func runTool(ctx context.Context, out io.Writer, path, password string, args ...string) error {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout = out
	stderr := &tail{}
	cmd.Stderr = stderr
	cmd.Env = []string{"PGAPPNAME=sluice " + filepath.Base(path)}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "SLUICE_") && !strings.HasPrefix(kv, "PGOPTIONS=") && !strings.HasPrefix(kv, "PGAPPNAME=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	if password != "" {
		cmd.Env = append(cmd.Env, "PGPASSWORD="+password)
	}
	// On SIGTERM it ends its own processes, and their queries in the server.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = unwind
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s was ended: %w", filepath.Base(path), context.Cause(ctx))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%s: %w: %s", filepath.Base(path), err, stderr)
	}
	return fmt.Errorf("run %s: %w", path, err)
}

// tail keeps the last bytes that are written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if len(t.text) > 2*maxToolOutput {
		t.text = append(t.text[:0], t.text[len(t.text)-maxToolOutput:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	text := t.text
	if len(text) > maxToolOutput {
		text = text[len(text)-maxToolOutput:]
	}
	return string(bytes.TrimSpace(bytes.ToValidUTF8(text, nil)))
}
