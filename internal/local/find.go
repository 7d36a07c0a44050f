// This file finds the programs and libraries that Sluice needs, and says what to install if they
// are missing.

package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// The oldest supported versions.
const (
	minVector      = "0.8.0"
	minONNXRuntime = "1.24.0"
	minPostgres    = 15
)

// What to do about a missing part, on each system.
const (
	remedyPostgres = "run `make setup` (as root on Debian or Ubuntu), or install it: " +
		"Debian 13, Ubuntu 25.04 and later: apt-get install postgresql postgresql-NN-pgvector; " +
		"Fedora: dnf install postgresql-server pgvector; " +
		"macOS: brew install postgresql@17 pgvector; or set SLUICE_DATABASE_URL"
	remedyTemporal = "run `make setup` (builds it; any system with Go), or install Temporal's command line tool so that " +
		"`temporal` is on PATH (macOS: brew install temporal; Debian, Ubuntu, Fedora: no package); or set SLUICE_TEMPORAL_ADDRESS"
	remedyONNXRuntime = "run `make setup` (fetches it with npm; Debian, Ubuntu: apt-get install npm, Fedora: dnf install nodejs-npm), " +
		"or install ONNX Runtime >= 1.24 (macOS: brew install onnxruntime) and set SLUICE_ONNXRUNTIME_LIB to the library"
)

// PostgresInstallation is a PostgreSQL server on this machine.
type PostgresInstallation struct {
	Bin    string // directory of initdb and postgres
	Major  int
	Vector string // version of its pgvector; empty if there is none
}

// hasVector reports whether there is a pgvector that is new enough.
func (p PostgresInstallation) hasVector() bool {
	return p.Vector != "" && compareVersions(p.Vector, minVector) >= 0
}

// FindPostgres returns the newest PostgreSQL with pgvector on this machine. major selects a major
// version, 0 means any: only its own version can read an existing cluster. The error wraps
// ErrMissing.
func FindPostgres(ctx context.Context, major int) (PostgresInstallation, error) {
	all := postgresInstallations(ctx)
	var without *PostgresInstallation
	for _, p := range all {
		if major != 0 && p.Major != major {
			continue
		}
		if p.hasVector() {
			return p, nil
		}
		if without == nil {
			without = &p
		}
	}
	switch {
	case ctx.Err() != nil: // the installed programs did not answer
		return PostgresInstallation{}, fmt.Errorf("looking for PostgreSQL: %w", context.Cause(ctx))
	case without != nil && without.Vector != "":
		return PostgresInstallation{}, fmt.Errorf("pgvector >= %s is %w: PostgreSQL %d in %s has %s; %s",
			minVector, ErrMissing, without.Major, without.Bin, without.Vector, remedyPostgres)
	case without != nil:
		return PostgresInstallation{}, fmt.Errorf("pgvector >= %s is %w for PostgreSQL %d in %s; %s",
			minVector, ErrMissing, without.Major, without.Bin, remedyPostgres)
	case major != 0:
		return PostgresInstallation{}, fmt.Errorf("PostgreSQL %d, which wrote the existing data, is %w; %s", major, ErrMissing, remedyPostgres)
	default:
		return PostgresInstallation{}, fmt.Errorf("PostgreSQL is %w; %s", ErrMissing, remedyPostgres)
	}
}

// postgresDirs returns the directories where systems install PostgreSQL's programs.
func postgresDirs() []string {
	var dirs []string
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/bin", "/usr/local/pgsql/bin",
		"/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			panic(err) // a malformed pattern above
		}
		dirs = append(dirs, found...)
	}
	return dirs
}

// postgresInstallations returns all installations, newest first, those with pgvector before those
// without.
func postgresInstallations(ctx context.Context) []PostgresInstallation {
	dirs := postgresDirs()
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	var all []PostgresInstallation
	seen := map[string]bool{}
	for _, dir := range dirs {
		// Resolve links: a link's directory does not have the rest of the installation.
		program, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
		if err != nil || seen[program] {
			continue
		}
		seen[program] = true
		bin := filepath.Dir(program)
		if _, err := os.Stat(filepath.Join(bin, "initdb")); err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, program, "--version").Output()
		if err != nil {
			continue
		}
		major := postgresMajor(string(out))
		if major < minPostgres {
			continue
		}
		all = append(all, PostgresInstallation{Bin: bin, Major: major, Vector: vectorVersion(ctx, bin)})
	}
	slices.SortStableFunc(all, func(a, b PostgresInstallation) int {
		if a.hasVector() != b.hasVector() {
			if a.hasVector() {
				return -1
			}
			return 1
		}
		return b.Major - a.Major
	})
	return all
}

var majorPattern = regexp.MustCompile(`\(PostgreSQL\) (\d+)`)

// postgresMajor parses "postgres (PostgreSQL) 17.2 (Debian ...)"; 0 if the text is something else.
func postgresMajor(version string) int {
	m := majorPattern.FindStringSubmatch(version)
	if m == nil {
		return 0
	}
	major, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return major
}

var defaultVersionPattern = regexp.MustCompile(`(?m)^\s*default_version\s*=\s*'([^']+)'`)

// vectorVersion reads the version of pgvector from its control file in the installation.
func vectorVersion(ctx context.Context, bin string) string {
	dirs := []string{filepath.Join(bin, "..", "share"), filepath.Join(bin, "..", "share", "postgresql"), filepath.Join(bin, "..", "share", "pgsql")}
	if out, err := exec.CommandContext(ctx, filepath.Join(bin, "pg_config"), "--sharedir").Output(); err == nil {
		dirs = []string{strings.TrimSpace(string(out))}
	}
	for _, dir := range dirs {
		control, err := os.ReadFile(filepath.Join(dir, "extension", "vector.control"))
		if err != nil {
			continue
		}
		if m := defaultVersionPattern.FindSubmatch(control); m != nil {
			return string(m[1])
		}
	}
	return ""
}

// TemporalProgram is a program that runs a Temporal server.
type TemporalProgram struct {
	Path     string
	Official bool // Temporal's own command line tool, rather than the server in tools/temporal
}

// FindTemporal returns the server that set-up built, which can require client certificates, else
// `temporal` from PATH, which cannot. The error wraps ErrMissing.
func FindTemporal() (TemporalProgram, error) {
	dir, err := ToolsDir()
	if err != nil {
		return TemporalProgram{}, err
	}
	path := filepath.Join(dir, "temporal-server")
	if _, err := os.Stat(path); err == nil {
		return TemporalProgram{Path: path}, nil
	}
	if official, err := exec.LookPath("temporal"); err == nil {
		if official, err = filepath.Abs(official); err != nil {
			return TemporalProgram{}, fmt.Errorf("temporal on PATH: %w", err)
		}
		return TemporalProgram{Path: official, Official: true}, nil
	}
	return TemporalProgram{}, fmt.Errorf("the Temporal server is %w (looked for %s and on PATH); %s", ErrMissing, path, remedyTemporal)
}

// FindONNXRuntime returns the path of the ONNX Runtime library: SLUICE_ONNXRUNTIME_LIB if set, else
// the one that set-up fetched, else a system library that is new enough. The error wraps
// ErrMissing.
func FindONNXRuntime() (string, error) {
	if path := os.Getenv("SLUICE_ONNXRUNTIME_LIB"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("SLUICE_ONNXRUNTIME_LIB: the ONNX Runtime library is %w: %w", ErrMissing, err)
		}
		return path, nil
	}
	dir, err := ToolsDir()
	if err != nil {
		return "", err
	}
	name, versioned := "libonnxruntime.so", "libonnxruntime.so.*"
	if runtime.GOOS == "darwin" {
		name, versioned = "libonnxruntime.dylib", "libonnxruntime.*.dylib"
	}
	for _, pattern := range []string{
		filepath.Join(dir, "onnxruntime-*", name),
		filepath.Join("/usr/lib/*-linux-gnu", versioned), filepath.Join("/usr/lib64", versioned), filepath.Join("/usr/lib", versioned),
		filepath.Join("/usr/local/lib", versioned), filepath.Join("/opt/homebrew/lib", versioned),
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("looking for the ONNX Runtime library: %w", err)
		}
		slices.SortFunc(found, func(a, b string) int { return compareVersions(versionIn(b), versionIn(a)) })
		if len(found) > 0 && compareVersions(versionIn(found[0]), minONNXRuntime) >= 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("the ONNX Runtime library >= %s is %w; %s", minONNXRuntime, ErrMissing, remedyONNXRuntime)
}

var versionPattern = regexp.MustCompile(`\d+\.\d+(\.\d+)*`)

// versionIn returns the last version number in a library's real path; empty if there is none.
func versionIn(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	all := versionPattern.FindAllString(path, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// compareVersions compares dotted numbers; missing parts count as 0.
func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		if d := part(as, i) - part(bs, i); d != 0 {
			return d
		}
	}
	return 0
}

func part(parts []string, i int) int {
	if i >= len(parts) {
		return 0
	}
	n, err := strconv.Atoi(parts[i])
	if err != nil {
		return 0
	}
	return n
}
