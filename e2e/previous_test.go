//go:build upgrade || compose

package e2e

// This file builds the previous version.

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// buildPrevious builds the programs of the commit in deploy/previous, once.
func buildPrevious(t *testing.T) programs {
	t.Helper()
	repository, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(repository, "deploy", "previous"))
	if err != nil {
		t.Fatal(err)
	}
	name := ""
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			name = line
		}
	}
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = repository
		var problems bytes.Buffer
		cmd.Stderr = &problems
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, problems.String())
		}
		return strings.TrimSpace(string(out)), nil
	}
	commit, err := git("rev-parse", "--verify", "--end-of-options", name+"^{commit}")
	if err != nil {
		shallow, _ := git("rev-parse", "--is-shallow-repository") // outside of a repository this fails
		t.Fatalf("deploy/previous names the commit %q, which is not in this repository: %v\nshallow: %s; `git fetch --unshallow --tags` gets what is missing", name, err, shallow)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache = filepath.Join(cache, "sluice", "previous", commit)
	source := filepath.Join(cache, "source")
	p := programs{dir: filepath.Join(source, "bin"), repository: source}
	if _, err := os.Stat(p.path("built")); err == nil {
		return p
	}
	t.Logf("building the programs of %s into %s", commit, p.dir)
	if err := os.MkdirAll(source, 0o755); err != nil {
		t.Fatal(err)
	}
	archive := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", `git archive "$1" | tar -x -C "$2"`, "archive", commit, source)
	archive.Dir = repository
	if out, err := archive.CombinedOutput(); err != nil {
		t.Fatalf("taking the files of %s: %v\n%s", commit, err, out)
	}
	p.build(t)
	if err := os.WriteFile(p.path("built"), nil, 0o644); err != nil { // marks the build as complete
		t.Fatal(err)
	}
	return p
}
