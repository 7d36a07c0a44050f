package parse

// Compares reports of companies, printed and scanned, with their text.

import (
	"fmt"
	"image"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// worstCharacters is the largest percentage of characters that may be wrong, missing or added.
const worstCharacters = 5

// filing is a report and the pages of it that are recognised.
type filing struct {
	path  string
	pages []int
}

// printout is one page of a report, with its scan.
type printout struct {
	name   string
	want   []rune
	height float64
	scan   *image.Gray
	back   affine
}

// skewOf returns the skew of a page in the scanner, in degrees; it differs from page to page.
func skewOf(page int) float64 { return float64(page%7-3) * 0.4 }

// printFiling prints and scans pages of a report and calls each for them. Pages without text are
// left out.
func printFiling(t *testing.T, f filing, each func(printout)) {
	t.Helper()
	data, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	p := openPaper(t, data)
	defer func() { _ = p.instance.Kill() }()
	pages := f.pages
	if pages == nil {
		for i := range p.pages {
			pages = append(pages, i)
		}
	}
	for _, i := range pages {
		i %= p.pages
		lines := withoutHeadersAndFooters(p.lines(t, i), 1)
		if len(lines) == 0 {
			continue
		}
		out := printout{name: fmt.Sprintf("%s, page %d", filepath.Base(f.path), i+1), want: printed(inRows(lines)), height: lines[0].pageTop}
		out.scan, out.back = p.scan(t, i, skewOf(i))
		each(out)
	}
}

// errorsOf recognises a scan and returns how many characters differ from the text.
func errorsOf(t *testing.T, p *Pool, page printout) int {
	got, err := p.ParseFile(t.Context(), NamedFile{Name: "scan.pdf", Data: scannedPDF(page.scan)})
	if err != nil {
		t.Errorf("%s: %v", page.name, err)
		return len(page.want)
	}
	wrong := distance(page.want, printed(inRows(readWords(t, got.Blocks, page.scan, page.back, page.height))))
	if len(got.Warnings) > 0 {
		t.Logf("%s: %q", page.name, got.Warnings)
	}
	return wrong
}

// readFilings recognises the pages, as many in parallel as there are parsers, and returns the share
// of characters that are wrong.
func readFilings(t *testing.T, filings []filing) (pages int, share float64) {
	t.Helper()
	p := pool(t, nil)
	var mu sync.Mutex
	all, wrong := 0, 0
	room := make(chan struct{}, p.options.Workers)
	var working sync.WaitGroup
	for _, f := range filings {
		printFiling(t, f, func(page printout) {
			room <- struct{}{}
			working.Go(func() {
				defer func() { <-room }()
				n := errorsOf(t, p, page)
				mu.Lock()
				defer mu.Unlock()
				pages, all, wrong = pages+1, all+len(page.want), wrong+n
				t.Logf("%s: %d of %d characters are wrong (%.3f)", page.name, n, len(page.want), float64(n)/float64(len(page.want)))
			})
		})
	}
	working.Wait()
	return pages, float64(wrong) / float64(max(all, 1))
}

func filingsOf(t *testing.T) []string {
	t.Helper()
	dir := corpus(t, "filings")
	if dir == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "pdf", "*.pdf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no PDF in %s: %v", dir, err)
	}
	return files
}

// TestFilingsAreReadAsTheyArePrinted checks twenty pages with text and tables.
func TestFilingsAreReadAsTheyArePrinted(t *testing.T) {
	needsTesseract(t)
	files := filingsOf(t)
	if files == nil {
		return
	}
	filings := make([]filing, len(files))
	for i := range 20 {
		f := &filings[i%len(files)]
		f.path, f.pages = files[i%len(files)], append(f.pages, 7*i+3)
	}
	pages, share := readFilings(t, filings)
	t.Logf("%d pages: %.4f of the characters are wrong", pages, share)
	if pages < 20 || share > worstCharacters/100.0 {
		t.Errorf("of %d pages %.3f of the characters are wrong", pages, share)
	}
}
