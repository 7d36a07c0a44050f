package e2e

// This file runs the commands of the tutorial and of the how-to pages in order, in one shell.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// pages are run in this order on one server. The tutorial comes first, because the others use its
// collection.
var pages = []string{"tutorial", "sources", "audit", "receipts", "chat", "mcp", "sign-in", "evaluation", "datasets", "model-packs", "webhooks", "second-encoder",
	"choosing-plans", "backup"}

// pagesApart are the how-to pages whose commands are not run here, with the reasons.
var pagesApart = map[string]string{
	"building":        "it builds from source and runs nothing of a server",
	"connectors":      "its sources are servers elsewhere; the tests of cmd/source-worker follow some of each kind",
	"database":        "it is about a PostgreSQL of one's own, which tests of internal/store have",
	"containers":      "it needs a container engine: make compose-test",
	"kubernetes":      "it needs a Kubernetes: make kube-test",
	"language-models": "it needs a language model: make test-llm",
	"operating":       "it starts and stops servers, which other tests here do",
	"scale":           "it has no commands",
	"server-clusters": "it needs clusters of NATS and Temporal: make chaos",
}

// mostNotRun is the maximum number of blocks on all pages whose commands are not run.
const mostNotRun = 10

var (
	fenced   = regexp.MustCompile("(?ms)(?:^<!-- not run: ([^\n]+) -->\n)?^```([^\n]*)\n(.*?)^```$")
	indented = regexp.MustCompile(`(?m)^\n {4}`)
	howTo    = regexp.MustCompile(`\]\(([a-z-]+)\.md\)`)
)

// block is a block of a page: commands, their output, settings, or the content of a file.
type block struct {
	kind   string // the word after the fence
	text   string
	notRun string // why its commands are not run; empty if they are
}

// pageShell runs the commands of the documentation's pages in a folder.
type pageShell struct {
	*server
	dir      string
	settings string // the page that lists all settings
}

// docsDir returns the folder in which the commands of the pages run for a server with this data
// directory.
func docsDir(data string) string { return filepath.Join(data, "pages") }

func testPages(t *testing.T, s *server) {
	d := pageShell{server: s, dir: docsDir(s.data), settings: readPage(t, s.repository, "configuration")}
	// The folder has the files of a clone of the repository that commands use. The commands write
	// into the copy.
	for _, name := range []string{"examples", "plans"} {
		if err := os.CopyFS(filepath.Join(d.dir, name), os.DirFS(filepath.Join(s.repository, name))); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(s.repository, "models"), filepath.Join(d.dir, "models")); err != nil {
		t.Fatal(err)
	}
	run, notRun := 0, 0
	for _, page := range pages {
		blocks := readBlocks(t, page, readPage(t, s.repository, page))
		for _, b := range blocks {
			switch {
			case b.notRun != "":
				notRun++
			case b.kind == "sh":
				run++
			}
		}
		t.Run(page, func(t *testing.T) { d.run(t, blocks) })
	}
	t.Logf("%d blocks of commands of %d pages are run, and %d are not", run, len(pages), notRun)
	if notRun > mostNotRun {
		t.Errorf("%d blocks are not run, and %d may be left out", notRun, mostNotRun)
	}
	if run < 30 {
		t.Errorf("only %d blocks of commands were found", run)
	}
	everyPageHasItsPlace(t, readPage(t, s.repository, "index"))
}

// everyPageHasItsPlace checks that each how-to page of the index is in one of the lists above.
func everyPageHasItsPlace(t *testing.T, index string) {
	_, rest, _ := strings.Cut(index, "## How to\n")
	table, _, _ := strings.Cut(rest, "\n## ")
	listed := []string{"tutorial"}
	for _, m := range howTo.FindAllStringSubmatch(table, -1) {
		listed = append(listed, m[1])
		if (pagesApart[m[1]] == "") != slices.Contains(pages, m[1]) {
			t.Errorf("%s.md is listed as a how-to page, and has no place, or two, in this test", m[1])
		}
	}
	for _, page := range pages {
		if !slices.Contains(listed, page) {
			t.Errorf("%s.md is run and is no how-to page", page)
		}
	}
	for page := range pagesApart {
		if !slices.Contains(listed, page) {
			t.Errorf("%s.md is left out and is no how-to page", page)
		}
	}
}

func readPage(t *testing.T, repository, name string) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(repository, "docs", name+".md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func readBlocks(t *testing.T, name, page string) []block {
	t.Helper()
	var blocks []block
	for _, m := range fenced.FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, block{notRun: m[1], kind: m[2], text: m[3]})
	}
	if fences, marks := strings.Count(page, "```"), strings.Count(page, "<!-- not run:"); fences != 2*len(blocks) ||
		marks != len(slices.DeleteFunc(slices.Clone(blocks), func(b block) bool { return b.notRun == "" })) {
		t.Errorf("%s.md has %d fences and %d marks of what is not run; %d blocks were read", name, fences, marks, len(blocks))
	}
	if indented.MatchString(page) {
		t.Errorf("%s.md has an indented block, which nothing runs: fence it", name)
	}
	return blocks
}

// run runs the commands of a page in one shell, and compares their output with the page.
func (d pageShell) run(t *testing.T, blocks []block) {
	var script strings.Builder
	mark := func(i int) string { return fmt.Sprintf("== block %d ==", i) }
	for i, b := range blocks {
		if b.kind == "sh" && b.notRun == "" {
			fmt.Fprintf(&script, "printf '\\n%%s\\n' '%s'\n%s", mark(i), b.text)
		}
	}
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script.String())
	shell.Dir = d.dir
	shell.Env = d.env("PATH="+d.programs.dir+string(os.PathListSeparator)+os.Getenv("PATH"), "SLUICE_URL="+d.url, "SLUICE_API_KEY="+d.key, "SLUICE_DATA="+d.data)
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("the commands of the page: %v\n%s", err, out)
	}
	var printed string
	for i, b := range blocks {
		switch {
		case b.notRun != "":
			printed = ""
		case b.kind == "sh":
			_, after, _ := strings.Cut(string(out), mark(i))
			printed, _, _ = strings.Cut(after, "\n== block ")
		case b.kind == "text":
			for line := range strings.Lines(b.text) {
				if !shown(line).MatchString(spaced(printed)) {
					t.Errorf("the page shows %q, and the commands before it printed\n%s", line, printed)
				}
			}
		default:
			if err := d.readable(b); err != nil {
				t.Errorf("the page's block\n%s\nis not %s: %v", b.text, b.kind, err)
			}
		}
	}
}

// readable returns what is wrong with a block that isn't run.
func (d pageShell) readable(b block) error {
	switch b.kind {
	case "env":
		for line := range strings.Lines(b.text) {
			name, _, ok := strings.Cut(line, "=")
			if !ok || !strings.Contains(d.settings, "`"+name+"`") {
				return fmt.Errorf("%q is no setting that configuration.md has", name)
			}
		}
		return nil
	case "json":
		for dec := json.NewDecoder(strings.NewReader(b.text)); ; {
			if err := dec.Decode(new(any)); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
		}
	case "yaml":
		return yaml.NewDecoder(bytes.NewBufferString(b.text)).Decode(new(any))
	default:
		return errors.New("this kind is not known here: mark it as not run")
	}
}

// shown returns an expression that matches a line of a page. There, ... stands for text that
// differs between runs.
func shown(line string) *regexp.Regexp {
	parts := strings.Split(spaced(line), "...")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile(strings.Join(parts, ".*"))
}

// spaced replaces white space and line breaks by single spaces.
func spaced(s string) string { return strings.Join(strings.Fields(s), " ") }
