package house

// This file makes the smallest change of each kind that CONTRIBUTING.md describes, in a copy of the
// repository, and compares the files that it touches with those that the page lists.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

const guide = "CONTRIBUTING.md"

// TestContributingNamesTheFilesOfEachKindOfChange takes the changes from testdata/contributing.
// Each is an archive of txtar whose comment has lines of "key: value": the section of
// CONTRIBUTING.md, NAME for what the change is called in the names of files, and go: for each
// package that is tested, with a pattern of tests, and -update where the test writes. Its files are
// new ones, lines that go above or below the only line with some text, and words that go before or
// behind the only place of some text.
func TestContributingNamesTheFilesOfEachKindOfChange(t *testing.T) {
	repository := files(t)
	archives, err := filepath.Glob("testdata/contributing/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	// Each change is made on top of those before, because compiling after each takes minutes.
	dir, now := copied(t, repository), maps.Clone(repository)
	var sections []string
	var all []*change
	for _, name := range archives {
		c, err := readChange(name, repository)
		if err != nil {
			t.Fatal(err)
		}
		sections, all = append(sections, c.section), append(all, c)
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			if problem := differ(c.listed(repository[guide]), c.perform(t, dir, now, repository)); problem != "" {
				t.Errorf("%s, %q: %s", guide, c.section, problem)
			}
		})
	}
	t.Run("together", func(t *testing.T) {
		changed := touched(t, dir, repository)
		overlay := overlaid(t, dir, changed)
		compiles(t, overlay, changed)
		for _, c := range all {
			for _, test := range c.tests {
				if !slices.Contains(test, "-update") {
					c.test(t, dir, overlay, test)
				}
			}
		}
	})
	for _, section := range kindsOfChanges(repository[guide]) {
		if !slices.Contains(sections, section) {
			t.Errorf("%s, %q: no archive in testdata/contributing makes such a change", guide, section)
		}
	}
}

// TestContributingNamesWhatThereIs checks that every path on the page exists.
func TestContributingNamesWhatThereIs(t *testing.T) {
	repository := files(t)
	folders := map[string]bool{}
	for name := range repository {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	for _, m := range regexp.MustCompile("`([\\w.-]+(?:/[\\w.-]+)+)/?`").FindAllSubmatch(repository[guide], -1) {
		name := string(m[1])
		top, _, _ := strings.Cut(name, "/")
		if _, is := repository[name]; !is && !folders[name] && folders[top] && !strings.Contains(name, "NAME") {
			t.Errorf("%s names %s, which is not there", guide, name)
		}
	}
}

// change is the smallest change of its kind.
type change struct {
	archive string // path of the txtar archive
	section string // of CONTRIBUTING.md
	names   *strings.Replacer
	tests   [][]string // a package, a pattern, and -update
	edits   []edit
}

// edit is a new file, or text that is added to a file.
type edit struct {
	file          string
	where, anchor string // above, below, before or behind which text; empty: a new file
	text          []byte
}

var editName = regexp.MustCompile(`^(\S+?)(?:: (above|below|before|behind) (.+))?$`)

func readChange(name string, repository map[string][]byte) (*change, error) {
	archive, err := txtar.ParseFile(name)
	if err != nil {
		return nil, err
	}
	c := &change{archive: name}
	called := ""
	for line := range strings.Lines(string(archive.Comment)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "section":
			c.section = value
		case "NAME":
			called = value
		case "go":
			c.tests = append(c.tests, strings.Fields(value))
		case "":
		default:
			return nil, fmt.Errorf("%s: %q is neither section, NAME nor go", name, key)
		}
	}
	if c.section == "" || called == "" || len(c.tests) == 0 {
		return nil, fmt.Errorf("%s: section, NAME or go is missing", name)
	}
	c.names = strings.NewReplacer("NNNNN", nextMigration(repository), "NAME", called)
	for _, f := range archive.Files {
		m := editName.FindStringSubmatch(f.Name)
		if m == nil {
			return nil, fmt.Errorf("%s: %q is neither a file nor a file with below or behind", name, f.Name)
		}
		c.edits = append(c.edits, edit{file: c.names.Replace(m[1]), where: m[2], anchor: m[3], text: f.Data})
	}
	return c, nil
}

// nextMigration returns the number of the next migration.
func nextMigration(repository map[string][]byte) string {
	last := 0
	for name := range repository {
		var number int
		if _, err := fmt.Sscanf(name, "migrations/%d_", &number); err == nil {
			last = max(last, number)
		}
	}
	return fmt.Sprintf("%05d", last+1)
}

// perform edits the copy of the repository in dir, whose texts are now, and runs the tests that
// write files. It returns the files that are new or differ, and keeps their texts in now.
func (c *change) perform(t *testing.T, dir string, now, repository map[string][]byte) []string {
	t.Helper()
	if err := c.apply(dir, now); err != nil {
		t.Fatal(err)
	}
	for _, test := range c.tests {
		if slices.Contains(test, "-update") {
			c.test(t, dir, overlaid(t, dir, touched(t, dir, repository)), test)
		}
	}
	out := touched(t, dir, now)
	for _, name := range out {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		now[name] = text
	}
	return out
}

// apply edits the copy of the repository in dir, whose texts are now.
func (c *change) apply(dir string, now map[string][]byte) error {
	edited := map[string][]byte{}
	for _, e := range c.edits {
		text, is := edited[e.file]
		if !is {
			text, is = now[e.file]
		}
		after, err := e.edit(text, is)
		if err != nil {
			return fmt.Errorf("internal/house/%s: %s %w: renew it and, where one edits other files by now, the section %q of %s", c.archive, e.file, err, c.section, guide)
		}
		edited[e.file] = after
	}
	for name, text := range edited {
		if strings.HasSuffix(name, ".go") {
			if formatted, err := format.Source(text); err != nil || !bytes.Equal(formatted, text) {
				return fmt.Errorf("internal/house/%s: %s is not as gofmt writes it: %v", c.archive, name, err)
			}
		}
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(at, text, 0o666); err != nil {
			return err
		}
	}
	return nil
}

func (e edit) edit(text []byte, is bool) ([]byte, error) {
	switch {
	case e.anchor == "" && is:
		return nil, errors.New("is there already")
	case e.anchor == "":
		return e.text, nil
	case !is:
		return nil, errors.New("is not there")
	}
	if n := bytes.Count(text, []byte(e.anchor)); n != 1 {
		return nil, fmt.Errorf("has %q %d times, where the change needs it once", e.anchor, n)
	}
	at := bytes.Index(text, []byte(e.anchor))
	switch e.where {
	case "above":
		at = bytes.LastIndexByte(text[:at], '\n') + 1
		return slices.Concat(text[:at], e.text, text[at:]), nil
	case "below":
		_, after, _ := bytes.Cut(text[at:], []byte("\n"))
		at = len(text) - len(after)
		return slices.Concat(text[:at], e.text, after), nil
	case "behind":
		at += len(e.anchor)
	}
	return slices.Concat(text[:at], bytes.TrimSuffix(e.text, []byte("\n")), text[at:]), nil
}

// copied returns the path of a copy of the repository. Large files, which no change edits, are
// links.
func copied(t *testing.T, repository map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range repository {
		at := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(at), 0o777)
		if err == nil && len(text) > 1<<20 {
			err = os.Symlink(filepath.Join(root(t), name), at)
		} else if err == nil {
			err = os.WriteFile(at, text, 0o777)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// touched returns the files of the copy that are new or differ from the repository.
func touched(t *testing.T, dir string, repository map[string][]byte) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(at)
		if before, is := repository[name]; err == nil && (!is || !bytes.Equal(before, text)) {
			out = append(out, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// overlaid makes the go command read the files of the change from the copy and all others from the
// repository, so that its cache is used for everything that the change leaves alone.
func overlaid(t *testing.T, dir string, changed []string) string {
	t.Helper()
	replace := map[string]string{}
	for _, name := range changed {
		replace[filepath.Join(root(t), name)] = filepath.Join(dir, name)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, text, 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

// compiles compiles all packages, and vets those with files of the change.
func compiles(t *testing.T, overlay string, changed []string) {
	t.Helper()
	packages := map[string]bool{}
	for _, name := range changed {
		if strings.HasSuffix(name, ".go") {
			packages["./"+path.Dir(name)] = true
		}
	}
	// go list -export links nothing, unlike go build.
	for _, args := range [][]string{
		{"list", "-overlay", overlay, "-export", "-f", "{{.ImportPath}}", "./..."},
		slices.Concat([]string{"vet", "-overlay", overlay}, slices.Sorted(maps.Keys(packages))),
	} {
		if out, err := command(root(t), nil, "go", args...); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// test runs tests of a package in the copy. The tests must exist.
func (c *change) test(t *testing.T, dir, overlay string, test []string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "tests")
	if out, err := command(root(t), nil, "go", "test", "-overlay", overlay, "-c", "-o", binary, test[0]); err != nil {
		t.Fatalf("compile the tests of %s: %v\n%s", test[0], err, out)
	}
	in := filepath.Join(dir, test[0])
	names, err := command(in, nil, binary, "-test.list", test[1])
	if err != nil || len(bytes.TrimSpace(names)) == 0 {
		t.Fatalf("internal/house/%s: no test of %s is called %s: %v", c.archive, test[0], test[1], err)
	}
	run := exec.CommandContext(t.Context(), binary, append([]string{"-test.run", test[1]}, test[2:]...)...)
	run.Dir = in
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("tests %s of %s with the change: %v\n%s", test[1], test[0], err, out)
	}
}

// listed returns the files in the change's section: the first cells of the rows of its table.
func (c *change) listed(page []byte) []string {
	var out []string
	in := false
	for line := range strings.Lines(string(page)) {
		if heading, is := strings.CutPrefix(line, "## "); is {
			in = strings.TrimSpace(heading) == c.section
		}
		if m := rowOfFile.FindStringSubmatch(line); in && m != nil {
			out = append(out, c.names.Replace(m[1]))
		}
	}
	return out
}

var rowOfFile = regexp.MustCompile("^\\| `([^`]+)` \\|")

// kindsOfChanges returns the sections that list files.
func kindsOfChanges(page []byte) []string {
	var out []string
	section := ""
	for line := range strings.Lines(string(page)) {
		if heading, is := strings.CutPrefix(line, "## "); is {
			section = strings.TrimSpace(heading)
		}
		if rowOfFile.MatchString(line) && strings.HasPrefix(section, "Add ") && !slices.Contains(out, section) {
			out = append(out, section)
		}
	}
	return out
}

// differ describes the differences between two lists of files.
func differ(listed, touched []string) string {
	var problems []string
	for _, name := range touched {
		if !slices.Contains(listed, name) {
			problems = append(problems, "the smallest change touches "+name+", which no row names")
		}
	}
	for _, name := range listed {
		if !slices.Contains(touched, name) {
			problems = append(problems, "a row names "+name+", which the smallest change does not touch")
		}
	}
	return strings.Join(problems, "; ")
}
