package parse

// From recognised words to lines like those of a PDF's text. Lines are laid out on the upright
// page, in points; a word's box is in the coordinates of the page as it is in the file.

import (
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/schema"
)

// Heights of letters, in font sizes; they are about the same in all fonts made for reading.
const (
	capitalHeight = 0.7
	smallHeight   = 0.49
	descent       = 0.21
)

// pdfLines returns a page's lines. place maps pixels of the page's image to the
// page's own coordinates.
func (p recognisedPage) pdfLines(number, dpi int, toPage affine) []pdfLine {
	scale := 72 / float64(dpi)
	onPage := toPage.after(p.upright)
	var out []pdfLine
	for _, words := range p.lines {
		size, baseline := fontOf(words)
		// From here on y points upwards.
		low, high := baseline+descent*size, baseline-(1-descent)*size
		bottom, top := (float64(p.height)-low)*scale, (float64(p.height)-high)*scale
		line := pdfLine{
			cells: 1, page: number, size: size * scale, pageTop: float64(p.height) * scale, bottom: bottom, top: top,
			left: float64(words[0].box.Min.X) * scale, right: float64(words[len(words)-1].box.Max.X) * scale,
		}
		for _, w := range words {
			left, right := float64(w.box.Min.X), float64(w.box.Max.X)
			box := boxOf(onPage, number, left, high, right, low)
			line.words = append(line.words, pdfWord{
				text: w.text, left: float32(left * scale), right: float32(right * scale), bottom: float32(bottom), top: float32(top), placed: &box,
			})
		}
		line.cut()
		out = append(out, line)
	}
	return out
}

// boxOf returns the bounding box of a rectangle mapped by m.
func boxOf(m affine, page int, left, top, right, bottom float64) schema.Box {
	box := schema.Box{Page: page, Left: math.Inf(1), Bottom: math.Inf(1), Right: math.Inf(-1), Top: math.Inf(-1)}
	for _, corner := range [][2]float64{{left, top}, {right, top}, {left, bottom}, {right, bottom}} {
		x, y := m.apply(corner[0], corner[1])
		box.Left, box.Right = min(box.Left, x), max(box.Right, x)
		box.Bottom, box.Top = min(box.Bottom, y), max(box.Top, y)
	}
	return box
}

// fontOf estimates the font size of a line and its baseline, in pixels from above. The height of a
// word's box depends on its letters.
func fontOf(words []recognisedWord) (size, baseline float64) {
	var sizes, bases []float64
	for _, w := range words {
		span, below, ok := letterSpan(w.text)
		if !ok {
			continue
		}
		one := float64(w.box.Dy()) / span
		// A long word says more than a short one.
		for range min(len(w.text), 12) {
			sizes = append(sizes, one)
			bases = append(bases, float64(w.box.Max.Y)-below*one)
		}
	}
	if len(sizes) == 0 {
		tallest, lowest := 0, 0
		for _, w := range words {
			tallest, lowest = max(tallest, w.box.Dy()), max(lowest, w.box.Max.Y)
		}
		return max(float64(tallest), 1), float64(lowest)
	}
	return max(median(sizes), 1), median(bases)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// letterSpan returns the height of a word's letters together, and how far they reach below the
// baseline, in font sizes.
func letterSpan(s string) (span, below float64, ok bool) {
	above := 0.0
	for _, r := range s {
		switch {
		case unicode.IsDigit(r), strings.ContainsRune("bdfhklt", r), unicode.IsLetter(r) && !unicode.IsLower(r):
			above = max(above, capitalHeight)
		case strings.ContainsRune("gpqyj", r):
			above, below = max(above, smallHeight), descent
		case unicode.IsLetter(r):
			above = max(above, smallHeight)
			if r > unicode.MaxASCII { // with an accent, or of another script
				above = capitalHeight
			}
		case strings.ContainsRune("()[]{}|/$§", r):
			above, below = max(above, capitalHeight), descent
		case r == ',' || r == ';':
			below = max(below, 0.12)
		}
	}
	return above + below, below, above > 0
}

// settleSizes replaces the font sizes of recognised lines, which are estimates, by those of a few
// fonts, so that no line becomes a heading by a pixel. Sizes near their median become body, the
// size of the page's other text; if body is 0 or far from the median, they become the median.
func settleSizes(lines []pdfLine, body float64) {
	var all []float64
	for _, l := range lines {
		for range len(l.text)/8 + 1 {
			all = append(all, l.size)
		}
	}
	if len(all) == 0 {
		return
	}
	own := median(all)
	if body < own*0.75 || body > own*1.33 {
		body = max(halfPoints(own), 0.5)
	}
	for i := range lines {
		ratio := lines[i].size / own
		if ratio > 0.78 && ratio < 1.28 {
			ratio = 1
		} else {
			ratio = max(math.Round(ratio*4)/4, 0.25)
		}
		lines[i].size = body * ratio
	}
}
