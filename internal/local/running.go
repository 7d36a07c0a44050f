package local

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// RunningPostgresURL is where the PostgreSQL in a directory (PostgresOptions.Dir) listens that
// another process started, for the program's login. The error wraps ErrMissing when none runs
// there.
func RunningPostgresURL(dir string) (string, error) { return runningPostgres(dir, Program) }

// RunningPostgresAdminURL is RunningPostgresURL for the superuser, whom row-level security doesn't
// bind.
func RunningPostgresAdminURL(dir string) (string, error) { return runningPostgres(dir, superuser) }

func runningPostgres(dir, login string) (string, error) {
	// The server writes its port in the fourth line, and removes the file when it ends.
	state, err := os.ReadFile(filepath.Join(dir, "cluster", "postmaster.pid"))
	lines := strings.Split(string(state), "\n")
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && len(lines) < 4:
		return "", fmt.Errorf("a PostgreSQL that runs in %s is %w", dir, ErrMissing)
	case err != nil:
		return "", fmt.Errorf("look for the PostgreSQL in %s: %w", dir, err)
	}
	password, err := os.ReadFile(filepath.Join(dir, login+".password"))
	if err != nil {
		return "", fmt.Errorf("read the password of the PostgreSQL in %s: %w", dir, err)
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(login, strings.TrimSpace(string(password))),
		Host: net.JoinHostPort(Host, strings.TrimSpace(lines[3])), Path: "/" + Database, RawQuery: "sslmode=disable"}
	return u.String(), nil
}
