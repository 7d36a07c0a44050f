// This file finds the programs that dump and restore a database.

package local

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// PostgresTools are pg_dump and pg_restore of one version.
type PostgresTools struct {
	Dump, Restore string // paths
	Major         int
}

// FindPostgresTools returns the oldest tools on this machine with at least the major version
// minVersion: in dir or, if dir is empty, on PATH and where systems install them. An older tool
// cannot read a newer server, and a newer one may use commands that an older server does not know.
// The error wraps ErrMissing.
func FindPostgresTools(ctx context.Context, dir string, minVersion int) (PostgresTools, error) {
	dirs := []string{dir}
	if dir == "" {
		dirs = postgresDirs()
		if path, err := exec.LookPath("pg_dump"); err == nil {
			dirs = append([]string{filepath.Dir(path)}, dirs...)
		}
	}
	var best, old PostgresTools
	for _, d := range dirs {
		t := PostgresTools{Dump: filepath.Join(d, "pg_dump"), Restore: filepath.Join(d, "pg_restore")}
		t.Major = min(toolMajor(ctx, t.Dump), toolMajor(ctx, t.Restore))
		switch {
		case t.Major == 0:
		case t.Major < minVersion:
			if t.Major > old.Major {
				old = t
			}
		case best.Major == 0 || t.Major < best.Major:
			best = t
		}
	}
	remedy := fmt.Sprintf("install PostgreSQL's client programs of version %d or newer (Debian, Ubuntu: apt-get install postgresql-client-%d; "+
		"Fedora: dnf install postgresql; macOS: brew install postgresql@%d), or set SLUICE_POSTGRES_TOOLS to the directory that they are in", minVersion, minVersion, minVersion)
	switch {
	case best.Major != 0:
		return best, nil
	case ctx.Err() != nil: // the installed programs did not answer
		return PostgresTools{}, fmt.Errorf("looking for pg_dump and pg_restore: %w", context.Cause(ctx))
	case old.Major != 0:
		return PostgresTools{}, fmt.Errorf("pg_dump and pg_restore of PostgreSQL %d or newer are %w: those in %s are of version %d; %s",
			minVersion, ErrMissing, filepath.Dir(old.Dump), old.Major, remedy)
	case dir != "":
		return PostgresTools{}, fmt.Errorf("pg_dump and pg_restore are %w in %s (SLUICE_POSTGRES_TOOLS); %s", ErrMissing, dir, remedy)
	}
	return PostgresTools{}, fmt.Errorf("pg_dump and pg_restore are %w; %s", ErrMissing, remedy)
}

// toolMajor returns the major version of a tool; 0 if it is missing or something else.
func toolMajor(ctx context.Context, path string) int {
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return 0
	}
	_, version, _ := strings.Cut(string(out), " ") // the name of the tool comes first
	return postgresMajor(version)
}
