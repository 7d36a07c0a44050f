package e2e

// This file runs the commands of the tutorial, in order, as one shell would.

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is a block of a page: commands, or what they print.
type block struct {
	kind string // what stands behind the fence
	text string
}

// mostNotRun is how many blocks of commands a page may keep from being run.
const mostNotRun = 10

var fenced = regexp.MustCompile("(?ms)^```([a-z -]*)\n(.*?)^```$")

func testTutorial(t *testing.T, s *server) {
	page, err := os.ReadFile(filepath.Join(s.repository, "docs", "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	notRun := 0
	for _, m := range fenced.FindAllStringSubmatch(string(page), -1) {
		if m[1] == "sh not-run" {
			notRun++
			continue
		}
		blocks = append(blocks, block{m[1], m[2]})
	}
	if notRun > mostNotRun || len(blocks) < 10 {
		t.Fatalf("%d blocks, and %d that are not run", len(blocks), notRun)
	}
	var script strings.Builder
	mark := func(i int) string { return fmt.Sprintf("== block %d ==", i) }
	for i, b := range blocks {
		if b.kind == "sh" {
			fmt.Fprintf(&script, "printf '\\n%%s\\n' '%s'\n%s", mark(i), b.text)
		}
	}
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script.String())
	shell.Dir = s.repository
	shell.Env = append(os.Environ(), "PATH="+s.dir+string(os.PathListSeparator)+os.Getenv("PATH"), "SLUICE_URL="+s.url, "SLUICE_API_KEY="+s.key)
	out, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("the commands of the tutorial: %v\n%s", err, out)
	}
	var printed string
	for i, b := range blocks {
		switch b.kind {
		case "sh":
			_, after, _ := strings.Cut(string(out), mark(i))
			printed, _, _ = strings.Cut(after, "\n== block ")
		case "text":
			for line := range strings.Lines(b.text) {
				if want := spaced(line); !strings.Contains(spaced(printed), want) {
					t.Errorf("the tutorial shows %q, and the commands before it printed\n%s", want, printed)
				}
			}
		default:
			t.Errorf("a block of kind %q, which is neither sh nor text", b.kind)
		}
	}
}

// spaced has one space in place of many, and of lines that were broken.
func spaced(s string) string { return strings.Join(strings.Fields(s), " ") }
