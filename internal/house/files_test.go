package house

// This file checks the text of the repository's files.

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxLines is the maximum number of lines of a file. A longer one has more than one subject.
const maxLines = 500

func TestNoFileIsTooLong(t *testing.T) {
	for name, text := range files(t) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		if lines := bytes.Count(text, []byte("\n")); lines > maxLines {
			t.Errorf("%s has %d lines; %d are the most: divide it by subject", name, lines, maxLines)
		}
	}
}

// commentColumns is the maximum width of a comment line, with tabs of four columns.
const commentColumns = 100

// A comment of one word has no space to wrap at, and an indented one is code or a table.
var wrappable = regexp.MustCompile(`^\s*(//|#|--) \S.* `)

func TestCommentsWrap(t *testing.T) {
	for name, text := range files(t) {
		if !hasComments(name) {
			continue
		}
		for i, line := range strings.Split(string(text), "\n") {
			columns := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
			if columns > commentColumns && wrappable.MatchString(line) {
				t.Errorf("%s:%d: a comment of %d columns; wrap it at %d", name, i+1, columns, commentColumns)
			}
		}
	}
}

// hasComments reports whether people write the comments of a file. Applied migrations never change,
// and training writes model packs and their files.
func hasComments(name string) bool {
	for _, dir := range []string{"migrations/", "models/", "training/"} {
		if strings.HasPrefix(name, dir) {
			return false
		}
	}
	switch filepath.Ext(name) {
	case ".go", ".sql", ".ts", ".tsx", ".mjs", ".js", ".css", ".java", ".yaml", ".yml", ".bash", ".sh":
		return name != "web/src/types.ts" // generated
	case "":
		return strings.HasPrefix(name, "tools/") || name == "Makefile" || name == "Dockerfile"
	}
	return false
}

// The machine that builds decides where packages come from; a registry in a file would override it.
func TestNoRegistryIsNamed(t *testing.T) {
	registries := []string{
		host("proxy", "golang", "org"), host("sum", "golang", "org"), host("goproxy", "io"),
		host("deb", "debian", "org"), host("security", "debian", "org"), host("archive", "ubuntu", "com"), host("snapshot", "debian", "org"),
		host("registry", "npmjs", "org"), host("registry", "yarnpkg", "com"), host("npmjs", "com"),
		host("pypi", "org"), host("files", "pythonhosted", "org"), host("static", "crates", "io"), host("rubygems", "org"),
	}
	for name, text := range files(t) {
		for _, registry := range registries {
			if at := bytes.Index(text, []byte(registry)); at >= 0 {
				t.Errorf("%s:%d names the registry %s", name, 1+bytes.Count(text[:at], []byte("\n")), registry)
			}
		}
	}
}

// host joins labels, so that this file does not contain the names that are searched for.
func host(labels ...string) string { return strings.Join(labels, ".") }

// files returns the repository's files, by name: those in version control, and new ones that are
// not ignored.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	root := root(t)
	out, err := command(root, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		t.Fatalf("git ls-files: %v\n%s", err, out)
	}
	all := map[string][]byte{}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // deleted, but the deletion is not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		all[name] = text
	}
	if len(all) == 0 {
		t.Fatal("git lists no files")
	}
	return all
}
