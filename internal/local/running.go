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

// RunningPostgresURL returns the URL, with the login of programs, of the PostgreSQL that another
// process runs on a directory (PostgresOptions.Dir). The error wraps ErrMissing if none is running
// there.
func RunningPostgresURL(dir string) (string, error) { return runningPostgres(dir, Program) }

// RunningPostgresAdminURL is RunningPostgresURL for the superuser, to whom row-level security does
// not apply.
func RunningPostgresAdminURL(dir string) (string, error) { return runningPostgres(dir, superuser) }

func runningPostgres(dir, login string) (string, error) {
	// The server writes its port to the fourth line, and removes the file when it ends.
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
