package parse

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klippa-app/go-pdfium/requests"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

// inkStyle is a style of printed pages. Words are drawn one by one, so that the test knows their
// positions independently of pdfium.
type inkStyle struct {
	name          string
	font          string
	size, leading float64
	columns       int
	state         string // operators before the text
	page          string // entries of the page
	cells         bool   // a table's rows instead of running text
	rotated       bool
	cropped       float64 // points that are cut off at the left and the bottom
}

var inkStyles = []inkStyle{
	{name: "Helvetica", font: "Helvetica", size: 11, leading: 14, columns: 1},
	{name: "Times, tight", font: "Times-Roman", size: 10, leading: 10.5, columns: 1},
	{name: "Courier", font: "Courier", size: 9, leading: 12, columns: 1},
	{name: "two columns", font: "Times-Roman", size: 9, leading: 11, columns: 2},
	{name: "large and bold", font: "Helvetica-Bold", size: 18, leading: 24, columns: 1},
	{name: "italic", font: "Times-Italic", size: 12, leading: 16, columns: 1},
	{name: "letters apart", font: "Helvetica", size: 10, leading: 15, columns: 1, state: "1.2 Tc"},
	{name: "letters wide", font: "Helvetica", size: 10, leading: 15, columns: 1, state: "120 Tz"},
	{name: "a table", font: "Helvetica", size: 9, leading: 14, columns: 1, cells: true},
	{name: "cropped and turned", font: "Times-Roman", size: 11, leading: 14, columns: 1, page: "/CropBox [20 20 612 792] /Rotate 90", rotated: true, cropped: 20},
}

var inkWords = strings.Fields("granite harbour lantern meadow oxide pillar quarry river saddle timber umber valley walnut yellow zephyr anchor bridge copper delta ember falcon glacier hollow island juniper kettle ledger marble nickel orchard")

const (
	inkPagesEach = 20
	inkDPI       = 100
)

// TestBoxesLieOverTheInk prints pages with a quote in red, and checks that the boxes of the quote
// cover the red ink and no other.
func TestBoxesLieOverTheInk(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 7))
	var red, covered, black, pages int
	for _, style := range inkStyles {
		styleRed, styleCovered, styleBlack := 0, 0, 0
		for range inkPagesEach {
			data, quote := style.print(random)
			boxes := boxesOf(t, data, quote)
			r, c, b := inkUnder(renderPage(t, data), boxes, style)
			styleRed, styleCovered, styleBlack = styleRed+r, styleCovered+c, styleBlack+b
			pages++
		}
		t.Logf("%s: %.2f %% of the quotes' ink under their boxes, %d of %d other pixels in them", style.name,
			100*float64(styleCovered)/float64(styleRed), styleBlack, styleCovered)
		if styleCovered*100 < styleRed*99 || styleBlack*200 > styleCovered {
			t.Errorf("%s: boxes hold %d of %d pixels of the quotes, and %d others", style.name, styleCovered, styleRed, styleBlack)
		}
		red, covered, black = red+styleRed, covered+styleCovered, black+styleBlack
	}
	t.Logf("%d pages: %.2f %% of the ink, %d other pixels of %d", pages, 100*float64(covered)/float64(red), black, covered)
}

// print returns a PDF of one page, and the red quote on it.
func (s inkStyle) print(random *rand.Rand) (data []byte, quote string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.state)
	var words []string
	lines := int(560 / s.leading)
	perLine := 8
	if s.columns == 2 || s.size > 15 {
		perLine = 4
	}
	width := 480.0
	if s.columns == 2 {
		width = 230
	}
	total := lines * perLine * s.columns
	from := random.IntN(total - 30)
	to := from + 3 + random.IntN(20)
	for i := range total {
		column, line := i/(lines*perLine), i/perLine%lines
		if s.cells {
			from, to = min(from/perLine*perLine, total-perLine), min(from/perLine*perLine, total-perLine)+perLine
		}
		w := inkWords[random.IntN(len(inkWords))]
		x := 60 + float64(column)*255 + float64(i%perLine)*width/float64(perLine)
		if s.cells && i%perLine > 0 {
			w = fmt.Sprintf("%d,%03d", 1+random.IntN(9), random.IntN(1000))
		}
		if !s.cells { // words of prose are not aligned in columns
			x += 0.25 * width / float64(perLine) * random.Float64()
		}
		words = append(words, w)
		colour := "0 0 0 rg"
		if i >= from && i < to {
			colour = "1 0 0 rg"
		}
		fmt.Fprintf(&b, "BT %s /F1 %g Tf 1 0 0 1 %g %g Tm (%s) Tj ET\n", colour, s.size, x, 700-float64(line)*s.leading, w)
	}
	return onePage(s.font, s.page, b.String()), strings.Join(words[from:to], " ")
}

// onePage returns a PDF of one page with a font and more entries of the page.
func onePage(font, entries, content string) []byte {
	data := pdfFile([]string{content})
	data = bytes.Replace(data, []byte("/BaseFont /Helvetica"), []byte("/BaseFont /"+font), 1)
	return bytes.Replace(data, []byte("/MediaBox [0 0 612 792]"), []byte("/MediaBox [0 0 612 792] "+entries), 1)
}

// boxesOf finds a quote in a document's sections, ignoring white space and bars between its words,
// and returns its boxes.
func boxesOf(t *testing.T, data []byte, quote string) []schema.Box {
	t.Helper()
	for _, s := range text.Sections(parsed(t, "a.pdf", string(data)), 0) {
		var plain strings.Builder
		var at []int
		for i := range len(s.Text) {
			if c := s.Text[i]; c != ' ' && c != '\n' && c != '|' {
				plain.WriteByte(c)
				at = append(at, i)
			}
		}
		want := strings.ReplaceAll(quote, " ", "")
		if i := strings.Index(plain.String(), want); i >= 0 {
			boxes, err := text.Boxes(s.Layout, s.Text, at[i], at[i+len(want)-1]+1)
			if err != nil {
				t.Fatal(err)
			}
			return boxes
		}
	}
	t.Fatalf("no section has the quote %q", quote)
	return nil
}

func renderPage(t *testing.T, data []byte) *image.RGBA {
	t.Helper()
	instance, err := pdfiumInstance()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = instance.Close() }()
	opened, err := instance.OpenDocument(&requests.OpenDocument{File: &data})
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := instance.RenderPageInDPI(&requests.RenderPageInDPI{
		DPI: inkDPI, Page: requests.Page{ByIndex: &requests.PageByIndex{Document: opened.Document}}})
	if err != nil {
		t.Fatal(err)
	}
	defer rendered.Cleanup()
	out := image.NewRGBA(rendered.Result.Image.Bounds())
	copy(out.Pix, rendered.Result.Image.Pix)
	return out
}

// inkUnder counts the pixels of red ink, those of them under a box, and the pixels of other ink
// well inside a box, since a pixel at a box's edge may belong to both.
func inkUnder(page *image.RGBA, boxes []schema.Box, style inkStyle) (red, covered, black int) {
	appendCells := func(x, y, margin float64) bool {
		const scale = inkDPI / 72.0
		for _, b := range boxes {
			left, right := (b.Left-style.cropped)*scale, (b.Right-style.cropped)*scale
			top, bottom := (792-b.Top)*scale, (792-b.Bottom)*scale
			if style.rotated {
				left, right, top, bottom = (b.Bottom-style.cropped)*scale, (b.Top-style.cropped)*scale, left, right
			}
			if x > left-margin && x < right+margin && y > top-margin && y < bottom+margin {
				return true
			}
		}
		return false
	}
	for y := range page.Bounds().Dy() {
		for x := range page.Bounds().Dx() {
			c := page.RGBAAt(x, y)
			switch {
			case ink(c) && c.R > 200:
				red++
				if appendCells(float64(x)+0.5, float64(y)+0.5, 0.5) {
					covered++
				}
			case ink(c) && c.R < 60 && appendCells(float64(x)+0.5, float64(y)+0.5, -1):
				black++
			}
		}
	}
	return red, covered, black
}

func ink(c color.RGBA) bool { return c.G < 120 && c.B < 120 }
