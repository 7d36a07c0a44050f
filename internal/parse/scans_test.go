package parse

// Scans made for tests: pages of PDFs as images, skewed like paper in a scanner, and PDFs that
// consist of such images.

import (
	"image"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

// scannedDPI is the usual resolution of office scanners.
const scannedDPI = 200

// needsTesseract ends a test if tesseract is missing, with a failure if everything should be
// installed.
func needsTesseract(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("tesseract"); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("tesseract is missing: tools/setup tesseract installs it")
	}
	t.Skip("tesseract is missing, so that text recognition is not tested: tools/setup tesseract installs it")
}

// paper is a PDF that is printed page by page.
type paper struct {
	instance pdfium.Pdfium
	doc      references.FPDF_DOCUMENT
	pages    int
}

func openPaper(t *testing.T, data []byte) paper {
	t.Helper()
	instance, err := pdfiumInstance()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = instance.Kill() })
	opened, err := instance.OpenDocument(&requests.OpenDocument{File: &data})
	if err != nil {
		t.Fatal(err)
	}
	counted, err := instance.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: opened.Document})
	if err != nil {
		t.Fatal(err)
	}
	return paper{instance, opened.Document, counted.PageCount}
}

// lines returns a page's lines of text.
func (p paper) lines(t *testing.T, i int) []pdfLine {
	t.Helper()
	lines, _, err := pageLines(p.instance, p.doc, i)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// scan prints a page and scans it, skewed by degrees. back maps the scan's pixels to the page's
// coordinates.
func (p paper) scan(t *testing.T, i int, degrees float64) (scan *image.Gray, back affine) {
	t.Helper()
	got, err := p.instance.RenderPageInDPI(&requests.RenderPageInDPI{DPI: scannedDPI, Page: requests.Page{ByIndex: &requests.PageByIndex{Document: p.doc, Index: i}}})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Cleanup()
	page := grey(got.Result.Image)
	return rotate(page, degrees)
}

// readWords returns the words of blocks with their positions on the printed page, in points. Words
// that occur twice, such as those of a table's header, count once.
func readWords(t *testing.T, blocks []schema.Block, scan *image.Gray, back affine, height float64) []pdfLine {
	t.Helper()
	const scale = 72.0 / scannedDPI
	var line pdfLine
	seen := make(map[schema.Box]bool)
	for _, b := range blocks {
		runs, err := text.DecodeLayout(b.Layout)
		if err != nil {
			t.Fatal(err)
		}
		ink := []rune(strings.Join(strings.Fields(b.Text), ""))
		for _, r := range runs {
			word := string(ink[:r.Chars])
			ink = ink[r.Chars:]
			if r.Box.Empty() || seen[r.Box] {
				continue
			}
			seen[r.Box] = true
			x, y := back.apply((r.Box.Left+r.Box.Right)/2/scale, float64(scan.Bounds().Dy())-(r.Box.Bottom+r.Box.Top)/2/scale)
			x, y = x*scale, height-y*scale
			w, h := (r.Box.Right-r.Box.Left)/2, (r.Box.Top-r.Box.Bottom)/2
			line.words = append(line.words, pdfWord{text: word, left: float32(x - w), right: float32(x + w), bottom: float32(y - h), top: float32(y + h)})
		}
	}
	return []pdfLine{line}
}

// scannedPDF returns a PDF of images only, one per page, at the scanner's resolution.
func scannedPDF(pages ...*image.Gray) []byte {
	var out []leaf
	for _, page := range pages {
		out = append(out, leaf{scan: page})
	}
	return leaves(out...)
}

// inRows returns the words of lines from top to bottom, those of a row from the left, because the
// reading order of columns depends on the layout.
func inRows(lines []pdfLine) string {
	var words []pdfWord
	for _, l := range lines {
		words = append(words, l.words...)
	}
	slices.SortStableFunc(words, func(a, b pdfWord) int {
		return int(math.Copysign(1, float64(b.bottom+b.top-a.bottom-a.top)))
	})
	var rows [][]pdfWord
	for _, w := range words {
		last := len(rows) - 1
		if last >= 0 {
			first := rows[last][0]
			if middle := (w.bottom + w.top) / 2; middle > first.bottom && middle < first.top && (first.bottom+first.top)/2 > w.bottom {
				rows[last] = append(rows[last], w)
				continue
			}
		}
		rows = append(rows, []pdfWord{w})
	}
	var b strings.Builder
	for _, row := range rows {
		slices.SortStableFunc(row, func(a, b pdfWord) int { return int(math.Copysign(1, float64(a.left-b.left))) })
		for _, w := range row {
			b.WriteString(w.text + " ")
		}
	}
	return b.String()
}

// printed unifies characters that look the same on paper, and removes white space and lines of dots
// or dashes, which may be drawn or written.
func printed(s string) []rune {
	same := strings.NewReplacer("’", "'", "‘", "'", "“", `"`, "”", `"`, "–", "-", "—", "-", "−", "-", "‑", "-", "ﬁ", "fi", "ﬂ", "fl", "•", "", "●", "", "■", "", "□", "", "☐", "", "☒", "", "_", "", "…", "...", "|", "")
	var out []rune
	for _, r := range same.Replace(s) {
		if r != ' ' && r != '\n' && r != '\t' && r != '\u00a0' && !invisible(r) {
			out = append(out, r)
		}
	}
	return out
}

// distance returns the Levenshtein distance of a and b in characters.
func distance(a, b []rune) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range a {
		before := row[0]
		row[0] = i + 1
		for j, s := range b {
			change := before
			if r != s {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
