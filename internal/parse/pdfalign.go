package parse

// Tables of words that are not separated into boxes by lines: the text of the rows leaves the same
// gaps free. Horizontal rules, shaded rows, a bold header, or a third column must show that they
// are a table, since text in two columns leaves a gap, too.

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxRunGap         = 0.45 // largest gap between words of a cell, in sizes of the font
	minGutter         = 0.4  // smallest gap between columns, in sizes of the font
	maxRowGap         = 2.2  // largest gap between rows, in sizes of the font
	minRows           = 3    // minWidth rows with two cells or more
	maxSpanWords      = 8    // most words of a row that spans all columns
	figureShare       = 0.6  // least share of figures in a column of figures
	wordShare         = 0.34 // largest share of figures in a column of words
	minTableRuleShare = 0.75 // share of a table's width that a rule under a header or around the table covers
	minRowRuleShare   = 0.45 // share of a table's width that a rule between rows covers
	proseShare        = 0.5  // share of cells that fill their column with words, as running text does
	maxCrowdedShare   = 0.1  // largest share of rows with several figures in a column
	maxAlignedColumns = 40   // limit of columns; with as many or more there is no table
	maxWrapDistance   = 1.8  // largest distance of a continuation line that is right of the labels, in least line distances
	maxLineDistance   = 1.2  // largest distance of lines of one cell, in least line distances
)

var (
	listMark = regexp.MustCompile(`^([•·▪◦‣●○■□–*-]|\(?[A-Za-z0-9]{1,4}[.)])$`)
	dots     = regexp.MustCompile(`[. …]*(\. ?){4}[. …]*`)
)

// runs splits a row at gaps that are larger than a space.
func (r pdfRow) runs() []pdfCell {
	var out []pdfCell
	for _, c := range r.cells {
		for _, w := range c.words {
			own := interval{float64(w.left), float64(w.right)}
			if n := len(out); n > 0 && (own.left-out[n-1].right <= maxRunGap*r.size || belongsToFigure(out[n-1], w)) {
				out[n-1].words = append(out[n-1].words, w)
				out[n-1].right = max(out[n-1].right, own.right)
				continue
			}
			out = append(out, pdfCell{own, []pdfWord{w}})
		}
	}
	return out
}

// belongsToFigure reports whether a word belongs to the same figure as the cell before it, which is
// a currency or the beginning of the figure.
func belongsToFigure(c pdfCell, w pdfWord) bool {
	return len(c.words) == 1 && currency.MatchString(c.words[0].text) && number(w.text) || trailing.MatchString(w.text) && number(c.text())
}

func (r pdfRow) middle() float64 { return (r.top + r.bottom) / 2 }

// freeGutters returns the parts of gutters that runs leave free.
func freeGutters(gutters []interval, runs []pdfCell, minWidth float64) []interval {
	var out []interval
	for _, g := range gutters {
		best := interval{}
		from := g.left
		for _, r := range runs {
			if r.right <= from || r.left >= g.right {
				continue
			}
			if r.left-from > best.right-best.left {
				best = interval{from, r.left}
			}
			from = r.right
		}
		if g.right-from > best.right-best.left {
			best = interval{from, g.right}
		}
		if best.right-best.left >= minWidth {
			out = append(out, best)
		}
	}
	return out
}

// aligned is the rows [first, last], which leave the same gutters free.
type aligned struct {
	first, last int
	gutters     []interval
	runs        [][]pdfCell // of the rows from first on
	fullWidth   []bool      // rows that span all columns
}

// alignedAt returns the rows from first on, as long as they leave gutters free.
func alignedAt(rows []pdfRow, first int) aligned {
	a := aligned{first: first, last: first}
	runs := rows[first].runs()
	for i := 1; i < len(runs); i++ {
		a.gutters = append(a.gutters, interval{runs[i-1].right, runs[i].left})
	}
	a.runs, a.fullWidth = [][]pdfCell{runs}, []bool{false}
	for next := first + 1; next < len(rows) && len(a.gutters) > 0; next++ {
		r := rows[next]
		if rows[next-1].bottom-r.top > maxRowGap*r.size {
			break
		}
		runs = r.runs()
		free := freeGutters(a.gutters, runs, minGutter*r.size)
		fullWidth := false
		if len(free) < len(a.gutters) {
			fits := func(i int) bool {
				return i < len(rows) && rows[i-1].bottom-rows[i].top <= maxRowGap*rows[i].size && len(rows[i].runs()) > 1 &&
					len(freeGutters(a.gutters, rows[i].runs(), minGutter*rows[i].size)) == len(a.gutters)
			}
			if len(runs) != 1 || len(runs[0].words) > maxSpanWords || !fits(next+1) {
				break
			}
			fullWidth = true
		} else {
			a.gutters = free
		}
		a.runs, a.fullWidth, a.last = append(a.runs, runs), append(a.fullWidth, fullWidth), next
	}
	return a
}

// alignedTables returns the tables of words in rows, and the rows that are in none of them.
func alignedTables(rows []pdfRow, rules pdfRuling) (out []pdfTable, rest []pdfRow) {
	rules.horizontal = withoutUnderlines(rows, rules.horizontal)
	floor := 0 // after the previous table
	for at := 0; at < len(rows); {
		a := alignedAt(rows, at)
		// A header that spans several columns leaves fewer gaps than the rows below.
		for next := at + 1; next <= at+2 && next < a.last; next++ {
			if b := alignedAt(rows, next); len(b.gutters) > len(a.gutters) && b.last >= a.last {
				a = b
			}
		}
		a.trim(rows, rules)
		if t, ok := a.table(rows, floor, rules); ok {
			out = append(out, t)
			taken := make(map[int]bool)
			for _, l := range t.lines {
				taken[l] = true
			}
			rest = slices.DeleteFunc(rest, func(r pdfRow) bool { return taken[r.lines[0]] })
			at = a.last + 1
			floor = at
			continue
		}
		rest = append(rest, rows[at])
		at++
	}
	return out, rest
}

// withoutUnderlines removes lines that only underline the words above them.
func withoutUnderlines(rows []pdfRow, rules []pdfRule) []pdfRule {
	const near = 2 // points
	underlines := func(r pdfRow, rule pdfRule) bool {
		if rule.y > r.middle() || rule.y < r.bottom-near {
			return false
		}
		begins, ends := false, false
		for _, c := range r.cells {
			for _, w := range c.words {
				begins = begins || math.Abs(float64(w.left)-rule.left) < near
				ends = ends || math.Abs(float64(w.right)-rule.right) < near
			}
		}
		return begins && ends
	}
	return slices.DeleteFunc(slices.Clone(rules), func(rule pdfRule) bool {
		return slices.ContainsFunc(rows, func(r pdfRow) bool { return underlines(r, rule) })
	})
}

// bounds returns the horizontal extent of the rows, without rows that span all columns.
func (a *aligned) bounds() interval {
	out := interval{1e9, 0}
	for i, runs := range a.runs {
		for _, r := range runs {
			if !a.fullWidth[i] {
				out.left, out.right = min(out.left, r.left), max(out.right, r.right)
			}
		}
	}
	return out
}

// trim removes rows at the end that are only text below the table.
func (a *aligned) trim(rows []pdfRow, rules pdfRuling) {
	for a.last > a.first {
		n := a.last - a.first
		runs := a.runs[n]
		r, above := rows[a.last], rows[a.last-1]
		near := 1e9
		for i := a.first; i < a.last-1; i++ {
			near = min(near, rows[i].middle()-rows[i+1].middle())
		}
		// A close line that is right of the labels belongs to the row above.
		right := !a.fullWidth[n] && len(a.gutters) > 0 && runs[0].left >= a.gutters[0].right-1
		distance := above.middle() - r.middle()
		if len(runs) > 1 || right && distance < maxWrapDistance*near || distance < maxLineDistance*near && startsLower(runs[0].text()) || distance < 2*near && rules.hasRuleBelow(r, a.bounds(), minTableRuleShare) {
			return
		}
		a.last--
		a.runs, a.fullWidth = a.runs[:n], a.fullWidth[:n]
	}
}

// hasRuleBelow reports whether a line, or the edge of a shade, is close below a row.
func (r pdfRuling) hasRuleBelow(row pdfRow, wide interval, share float64) bool {
	return r.hasRuleBetween(row.bottom-row.size, row.middle(), wide, share)
}

// hasRuleBetween reports whether, at some height between bottom and top, lines or the edges of
// shades cover a share of the width.
func (r pdfRuling) hasRuleBetween(bottom, top float64, wide interval, share float64) bool {
	type edge struct{ y, length float64 }
	var edges []edge
	add := func(y, left, right float64) {
		if y > bottom && y < top {
			if o := wide.overlap(interval{left, right}); o > 0 {
				edges = append(edges, edge{y, o})
			}
		}
	}
	for _, a := range r.horizontal {
		add(a.y, a.left, a.right)
	}
	for _, s := range r.shades {
		add(s.top, s.left, s.right)
		add(s.bottom, s.left, s.right)
	}
	for _, p := range edges {
		sum := 0.0
		for _, o := range edges {
			if math.Abs(o.y-p.y) < 1.5 {
				sum += o.length
			}
		}
		if sum >= share*(wide.right-wide.left) {
			return true
		}
	}
	return false
}

// underlinedColumns returns how many columns are underlined by lines or the edges of shades between
// two heights.
func (r pdfRuling) underlinedColumns(columns []interval, bottom, top float64) int {
	n := 0
	for _, c := range columns {
		if r.hasRuleBetween(bottom, top, c, minEdgeShare) {
			n++
		}
	}
	return n
}

// table returns the table of the rows, if they are one. Its header may begin at row from.
func (a *aligned) table(rows []pdfRow, from int, rules pdfRuling) (pdfTable, bool) {
	var t pdfTable
	if len(a.gutters) == 0 || len(a.gutters) >= maxAlignedColumns || !a.isTable(rows, rules) {
		return t, false
	}
	head := a.first
	for head > from && a.isHeaderRow(rows[head-1], rows[head]) {
		head--
		a.runs, a.fullWidth = slices.Insert(a.runs, 0, rows[head].runs()), slices.Insert(a.fullWidth, 0, false)
	}
	a.first = head
	t.columns = a.columns()
	g := a.grid(rows, rules)
	t.cells, t.head = g.cells, headRows(g.cells, g.bold)
	t.findSpans()
	for _, r := range rows[a.first : a.last+1] {
		t.lines = append(t.lines, r.lines...)
	}
	t.first = slices.Min(t.lines)
	t.describe(rows, a.first, from)
	return t, true
}

// columns is what lies between the gutters.
func (a *aligned) columns() []interval {
	wide := a.bounds()
	out := []interval{{wide.left, 0}}
	for _, g := range a.gutters {
		out[len(out)-1].right = g.left
		out = append(out, interval{left: g.right})
	}
	out[len(out)-1].right = wide.right
	return out
}

// isHeaderRow reports whether a row above the rows is of their header.
func (a *aligned) isHeaderRow(r, below pdfRow) bool {
	if r.bottom-below.top > maxRowGap*below.size {
		return false
	}
	runs, wide := r.runs(), a.bounds()
	for _, c := range runs {
		if c.left < wide.left-2 || c.right > wide.right+r.size || len(c.words) > maxSpanWords {
			return false
		}
	}
	return len(runs) > 1 || runs[0].left >= a.gutters[0].right-2
}

// isTable reports whether the rows are those of a table that the search for figures does not read.
func (a *aligned) isTable(rows []pdfRow, rules pdfRuling) bool {
	columns := a.columns()
	cells, figures, marks, filling := make([]int, len(columns)), make([]int, len(columns)), 0, 0
	several, all, words, crowded := 0, 0, 0, 0
	for i, runs := range a.runs {
		if a.fullWidth[i] {
			continue
		}
		seen := make(map[int]bool)
		figure, doubled := make(map[int]bool), false
		for _, r := range runs {
			s := r.text()
			if dots.MatchString(s) {
				return false
			}
			column := columnOf(columns, r.interval)
			doubled = doubled || seen[column] && (figure[column] || number(s)) && !trailing.MatchString(s) && !currency.MatchString(s)
			seen[column], figure[column] = true, number(s)
			cells[column]++
			all++
			words += len(r.words)
			if number(strings.TrimLeft(s, "$€£¥ ")) {
				figures[column]++
			}
			if column == 0 && (listMark.MatchString(s) || utf8.RuneCountInString(s) < 2) {
				marks++
			}
			if w := columns[column].right - columns[column].left; len(r.words) > 2 && r.right-r.left > 0.7*w {
				filling++
			}
		}
		if len(seen) > 1 {
			several++
		}
		if doubled {
			crowded++
		}
	}
	if float64(crowded) > maxCrowdedShare*float64(several) {
		return false // a table of figures, whose columns are closer together
	}
	if several < minRows || float64(marks) > figureShare*float64(cells[0]) {
		return false
	}
	worded, figured, others := 0, 0, 0
	for i, n := range figures {
		if i > 0 {
			figured, others = figured+n, others+cells[i]
		}
		// The header of a column of figures is not a figure.
		switch {
		case i == 0 || float64(n) >= figureShare*float64(cells[i]-1):
		case float64(n) > wordShare*float64(cells[i]):
			return false // figures with headings in between
		case cells[i]*2 > several:
			worded++
		}
	}
	if worded == 0 || float64(figured) > figureShare*float64(others) {
		return false
	}
	wide := a.bounds()
	first, last := rows[a.first], rows[a.last]
	ruled := 0
	for i := a.first; i <= a.last; i++ {
		if rules.hasRuleBelow(rows[i], wide, minTableRuleShare) {
			ruled++
		}
	}
	if rules.hasRuleBetween(first.middle(), first.top+first.size, wide, minTableRuleShare) {
		ruled++
	}
	prose := float64(filling) > proseShare*float64(all)
	bold := first.bold && !last.bold
	switch {
	case ruled >= 2:
		return words < maxAverageWords*all
	case prose:
		return false
	case bold:
		return several > minRows || len(columns) > 2
	}
	return len(columns) > 2 && a.columnsAligned(columns)
}

// columnsAligned reports whether nearly all cells of the columns are aligned: at the left, the
// right or the middle.
func (a *aligned) columnsAligned(columns []interval) bool {
	for i := range columns {
		var lefts, rights, centers []float64
		for _, runs := range a.runs {
			for _, r := range runs {
				if columnOf(columns, r.interval) == i {
					lefts, rights, centers = append(lefts, r.left), append(rights, r.right), append(centers, r.center())
				}
			}
		}
		if max(alignedShare(lefts), alignedShare(rights), alignedShare(centers)) < 0.75 {
			return false
		}
	}
	return true
}

// alignedShare returns the largest share of the positions that are within 2 points of one another.
func alignedShare(positions []float64) float64 {
	slices.Sort(positions)
	largest := 0
	for i := range positions {
		n := i
		for n < len(positions) && positions[n]-positions[i] <= 2 {
			n++
		}
		largest = max(largest, n-i)
	}
	return float64(largest) / float64(max(len(positions), 1))
}

// columnOf returns the column that overlaps a stretch most.
func columnOf(columns []interval, s interval) int {
	best, bestOverlap := 0, math.Inf(-1)
	for i, c := range columns {
		if o := c.overlap(s); o > bestOverlap {
			best, bestOverlap = i, o
		}
	}
	return best
}
