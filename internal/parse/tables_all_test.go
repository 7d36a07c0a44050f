//go:build tables

package parse

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// pagesOfEach is the number of pages per style and kind.
const pagesOfEach = 2

// TestGeneratedTablesAreFound prints pages with Chromium, finds their tables, and reports how
// similar they are to the printed ones. Existing pages in TABLES_DIR are reused; TABLES_SEED
// changes the pages; TABLES_OF measures another tool's tables.
func TestGeneratedTablesAreFound(t *testing.T) {
	dir := os.Getenv("TABLES_DIR")
	if dir == "" {
		dir = t.TempDir()
	}
	seed := uint64(2026)
	if s := os.Getenv("TABLES_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("TABLES_SEED is %q", s)
		}
	}
	for _, style := range tableStyles {
		for _, kind := range tableKinds {
			for i := range pagesOfEach {
				name := fmt.Sprintf("%s-%s-%d", style, kind, i)
				printPage(t, dir, name, makerOf(name, seed).tablePage(style, kind))
			}
		}
	}
	for _, kind := range pagesWithoutTables {
		for i := range 2 * pagesOfEach {
			name := fmt.Sprintf("no%s-%d", kind, i)
			printPage(t, dir, name, makerOf(name, seed).plainPage(kind))
		}
	}
	t.Log("\n" + measureTables(t, dir, os.Getenv("TABLES_OF")).String())
}

// chromium is the program that tests of the back office use, too.
func chromium(t *testing.T) string {
	t.Helper()
	for _, place := range []string{os.Getenv("CHROMIUM"), "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"} {
		if _, err := os.Stat(place); place != "" && err == nil {
			return place
		}
	}
	t.Fatal("there is no Chromium: tools/setup chromium installs it, or set CHROMIUM")
	return ""
}

// printPage prints a page of HTML as name.pdf, next to its name.html.
func printPage(t *testing.T, dir, name, page string) {
	t.Helper()
	source, target := filepath.Join(dir, name+".html"), filepath.Join(dir, name+".pdf")
	if _, err := os.Stat(target); err == nil {
		return
	}
	if err := os.WriteFile(source, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"--headless", "--disable-gpu", "--no-pdf-header-footer", "--user-data-dir=" + filepath.Join(dir, "profile"), "--print-to-pdf=" + target}
	if os.Getuid() == 0 {
		args = append(args, "--no-sandbox") // Chromium has no sandbox as root
	}
	if out, err := exec.CommandContext(t.Context(), chromium(t), append(args, "file://"+source)...).CombinedOutput(); err != nil {
		t.Fatalf("printing %s: %v\n%s", source, err, out)
	}
}
