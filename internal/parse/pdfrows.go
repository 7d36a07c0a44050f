package parse

// Rows on PDF pages: lines at one height, split into cells at figures or wide gaps, and the
// sequences of rows that look like a table.

import (
	"regexp"
	"slices"
	"strings"
)

// interval is a horizontal interval, in points.
type interval struct{ left, right float64 }

func (s interval) center() float64 { return (s.left + s.right) / 2 }

func (s interval) overlap(o interval) float64 { return min(s.right, o.right) - max(s.left, o.left) }

// pdfCell is a cell of a row.
type pdfCell struct {
	interval
	words []pdfWord
}

// spaced reports whether a space precedes word i. There is none after a currency and before a
// bracket or a percent sign, even if they are apart on the page.
func (c pdfCell) spaced(i int) bool {
	return i > 0 && !currency.MatchString(c.words[i-1].text) && !trailing.MatchString(c.words[i].text)
}

func (c pdfCell) text() string {
	var b strings.Builder
	for i, w := range c.words {
		if c.spaced(i) {
			b.WriteByte(' ')
		}
		b.WriteString(w.text)
	}
	return b.String()
}

// pdfRow is the cells of the lines at one height, from left to right.
type pdfRow struct {
	cells       []pdfCell
	top, bottom float64
	size        float64
	bold        bool
	lines       []int
}

var (
	figure   = regexp.MustCompile(`^[(\[]?[-–—+~]?[$€£¥]?\s?[(]?[-–—]?\d[\d,.' ]*[)\]]?\s?[%x)]{0,2}(\(\w\)|\*{1,2})?$`)
	noFigure = regexp.MustCompile(`^([-–—−]+%?|N/?A|NM|n/?m|n/?a|\*+)$`)
	currency = regexp.MustCompile(`^[-–(]?(US)?[$€£¥]$`)
	trailing = regexp.MustCompile(`^[)%\]]+$|^\)%$`)
	year     = regexp.MustCompile(`^(FY|CY)?\s?'?((19|20)\d\d)(E|A)?$`)
	dateWord = regexp.MustCompile(`(?i)^(january|february|march|april|may|june|july|august|september|october|november|december|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec)\.?$`)
	unitNote = regexp.MustCompile(`(?i)\(?\b(dollars|amounts|figures|shares|usd|u\.s\. dollars|all amounts)?\s*,?\s*(expressed |stated |presented )?in (u\.?s\.? )?(\$ ?)?(dollars |whole )?(millions|thousands|billions|percent|percentages|units|[a-z]+ dollars)\b[^)]{0,80}\)?|\(\$? ?(millions|thousands|billions|000s?)[^)]{0,60}\)`)
)

// number reports whether a text is a figure or stands for a missing one.
func number(s string) bool { return figure.MatchString(s) || noFigure.MatchString(s) }

// pageColumns splits the lines of a page that is printed in two columns of text into left, right
// and others; else it returns all lines as one group.
func pageColumns(lines []pdfLine) [][]int {
	all := make([]int, len(lines))
	left, right := 1e9, 0.0
	for i, l := range lines {
		all[i] = i
		left, right = min(left, l.left), max(right, l.right)
	}
	width := right - left
	best, crossings := 0.0, len(lines)
	for step := range 31 {
		x := left + width*(0.35+0.01*float64(step))
		n := 0
		for _, l := range lines {
			if l.left < x && l.right > x {
				n++
			}
		}
		if n < crossings {
			best, crossings = x, n
		}
	}
	prose := func(l pdfLine) bool {
		return l.cells == 1 && len(l.text) > 30 && l.right-l.left > 0.25*width && !columns(l.text)
	}
	var beside [2]int
	var parts [3][]int
	for i, l := range lines {
		side := 2
		switch {
		case l.right <= best:
			side = 0
		case l.left >= best:
			side = 1
		}
		if side < 2 && prose(l) {
			beside[side]++
		}
		parts[side] = append(parts[side], i)
	}
	if beside[0] < 8 || beside[1] < 8 || crossings*8 > len(lines) {
		return [][]int{all}
	}
	return parts[:]
}

// rowsOf groups the lines at the same height into rows, from top to bottom.
func rowsOf(lines []pdfLine, part []int) []pdfRow {
	order := slices.Clone(part)
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := lines[a].bottom+lines[a].top, lines[b].bottom+lines[b].top
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	var groups [][]int
	for _, i := range order {
		l := lines[i]
		if n := len(groups); n > 0 {
			g := groups[n-1]
			h := lines[g[0]]
			level := min(l.top, h.top)-max(l.bottom, h.bottom) > 0.6*min(l.top-l.bottom, h.top-h.bottom)
			apart := !slices.ContainsFunc(g, func(j int) bool {
				return (interval{l.left, l.right}).overlap(interval{lines[j].left, lines[j].right}) > 0.25*min(l.size, lines[j].size)
			})
			if level && apart {
				groups[n-1] = append(g, i)
				continue
			}
		}
		groups = append(groups, []int{i})
	}
	rows := make([]pdfRow, len(groups))
	for i, g := range groups {
		rows[i] = rowOf(lines, g)
	}
	return rows
}

// rowOf splits the words of lines at one height into cells.
func rowOf(lines []pdfLine, group []int) pdfRow {
	row := pdfRow{lines: group, bold: true, bottom: 1e9}
	var words []pdfWord
	for _, i := range group {
		l := lines[i]
		row.size = max(row.size, l.size)
		row.top, row.bottom = max(row.top, l.top), min(row.bottom, l.bottom)
		row.bold = row.bold && l.bold
		words = append(words, l.words...)
	}
	slices.SortStableFunc(words, func(a, b pdfWord) int {
		switch {
		case a.left < b.left:
			return -1
		case a.left > b.left:
			return 1
		}
		return 0
	})
	for i, w := range words {
		own := interval{float64(w.left), float64(w.right)}
		if i > 0 {
			before := words[i-1]
			gap := float64(w.left - before.right)
			last := &row.cells[len(row.cells)-1]
			// Columns of figures may be closer together than columns of words.
			tight := number(w.text) && !dateWord.MatchString(before.text) || number(before.text) || currency.MatchString(w.text)
			join := gap <= 0.5*row.size || gap <= 1.3*row.size && !tight
			if currency.MatchString(w.text) && number(before.text) {
				join = false // the currency belongs to the next figure
			}
			if currency.MatchString(before.text) && len(last.words) == 1 && number(w.text) || trailing.MatchString(w.text) && number(last.text()) {
				join = true
			}
			if join {
				last.words = append(last.words, w)
				last.right = max(last.right, own.right)
				continue
			}
		}
		row.cells = append(row.cells, pdfCell{own, []pdfWord{w}})
	}
	return row
}

// figures returns how many cells are figures, and whether all of them are years.
func (r pdfRow) figures() (n int, years bool) {
	years = true
	for _, c := range r.cells {
		if s := c.text(); number(s) {
			n++
			years = years && year.MatchString(s)
		}
	}
	return n, years && n > 0
}

// strong reports whether a row has figures besides its first cell, or nothing but figures.
func (r pdfRow) strong() bool {
	n, years := r.figures()
	if n == 0 || years && n == 1 {
		return false
	}
	if n == len(r.cells) {
		return n > 1
	}
	return len(r.cells) > 1
}

const (
	weakRows   = 4   // most rows in sequence without figures within a table
	headerRows = 6   // most rows of a header above the first figures
	headerGap  = 2.5 // largest gap between rows of a header, in sizes of their font
	labelRows  = 3   // most rows between the header and the first figures
)

// region returns the next rows, from index at on, that belong to a table; first is -1 if there are
// none.
func region(rows []pdfRow, at int) (first, last int) {
	for first = at; first < len(rows); first++ {
		if !rows[first].strong() {
			continue
		}
		last = first
		strong := 1
		left, right := bounds(rows[first])
		for next := first + 1; next < len(rows) && next-last <= weakRows; next++ {
			r := rows[next]
			if rows[next-1].bottom-r.top > 3*max(r.size, rows[next-1].size) {
				break
			}
			if !r.strong() {
				if l, rr := bounds(r); len(r.cells) > 1 && !r.labels() || l < left-3*r.size || rr-l > 0.75*(right-left) && rr-l > 200 {
					break
				}
				continue
			}
			if !shares(rows[first:last+1], r) {
				break
			}
			l, rr := bounds(r)
			left, right = min(left, l), max(right, rr)
			last, strong = next, strong+1
		}
		if strong >= 2 {
			return first, last
		}
	}
	return -1, len(rows)
}

// labels reports whether none of the cells looks like running text.
func (r pdfRow) labels() bool {
	return !slices.ContainsFunc(r.cells, func(c pdfCell) bool { return len(c.words) > 8 })
}

func bounds(r pdfRow) (left, right float64) {
	left, right = 1e9, 0
	for _, c := range r.cells {
		left, right = min(left, c.left), max(right, c.right)
	}
	return left, right
}

// shares reports whether some figure of r is below a figure of one of the rows.
func shares(rows []pdfRow, r pdfRow) bool {
	for _, c := range r.cells {
		if !number(c.text()) {
			continue
		}
		for _, above := range rows {
			for _, o := range above.cells {
				if number(o.text()) && c.overlap(o.interval) > 0 {
					return true
				}
			}
		}
	}
	return false
}
