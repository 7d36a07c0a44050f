package parse

// Tables whose cells are separated by lines, horizontally and vertically. Each cell is a box
// between lines; where a line is missing the cell spans several columns or rows.

import (
	"cmp"
	"slices"

	"github.com/sluice-rag/sluice/internal/tabular"
)

// gridCell is a cell of a table and the number of columns and rows that it spans.
type gridCell struct {
	pdfCell
	columnSpan, rowSpan int
}

const (
	nearLines       = 3.0 // lines that are closer, in points, are one line
	minEdgeShare    = 0.6 // share of a cell's edge that a line must cover
	minFilledShare  = 0.4 // least share of a grid's cells with text
	maxAverageWords = 40  // most words of a grid's cell, on average
	maxHeadingWords = 15  // most words of a heading
	maxGridSize     = 200 // most rows of a grid, and most columns
)

// segment is a line at the position at, from and to along its direction.
type segment struct{ pos, from, to float64 }

// lineSet is the lines of one direction at one position.
type lineSet struct {
	pos   float64
	parts []interval
}

// lineSets groups segments by position.
func lineSets(all []segment) []lineSet {
	slices.SortFunc(all, func(a, b segment) int { return cmp.Or(cmp.Compare(a.pos, b.pos), cmp.Compare(a.from, b.from)) })
	var out []lineSet
	for _, s := range all {
		if n := len(out); n > 0 && s.pos-out[n-1].pos < nearLines {
			out[n-1].parts = append(out[n-1].parts, interval{s.from, s.to})
			continue
		}
		out = append(out, lineSet{s.pos, []interval{{s.from, s.to}}})
	}
	return out
}

// covers reports whether the lines cover most of an edge.
func (l lineSet) covers(from, to float64) bool {
	sum := 0.0
	for _, p := range l.parts {
		sum += max(0, min(p.right, to)-max(p.left, from))
	}
	return sum >= minEdgeShare*(to-from)
}

// connected groups a page's lines into sets of lines that touch one another.
func (r pdfRuling) connected() []pdfRuling {
	if len(r.horizontal) < 3 || len(r.vertical) < 3 {
		return nil
	}
	down := slices.Clone(r.vertical)
	slices.SortFunc(down, func(a, b pdfVerticalRule) int { return cmp.Compare(a.x, b.x) })
	group := make([]int, len(r.horizontal)+len(down))
	for i := range group {
		group[i] = i
	}
	root := func(i int) int {
		for group[i] != i {
			group[i] = group[group[i]]
			i = group[i]
		}
		return i
	}
	for i, a := range r.horizontal {
		pos, _ := slices.BinarySearchFunc(down, a.left-nearLines, func(d pdfVerticalRule, x float64) int { return cmp.Compare(d.x, x) })
		for j := pos; j < len(down) && down[j].x <= a.right+nearLines; j++ {
			if a.y >= down[j].bottom-nearLines && a.y <= down[j].top+nearLines {
				group[root(i)] = root(len(r.horizontal) + j)
			}
		}
	}
	parts := make(map[int]*pdfRuling)
	var out []*pdfRuling
	part := func(i int) *pdfRuling {
		k := root(i)
		if parts[k] == nil {
			parts[k] = &pdfRuling{}
			out = append(out, parts[k])
		}
		return parts[k]
	}
	for i, a := range r.horizontal {
		p := part(i)
		p.horizontal = append(p.horizontal, a)
	}
	for j, d := range down {
		p := part(len(r.horizontal) + j)
		p.vertical = append(p.vertical, d)
	}
	var result []pdfRuling
	for _, p := range out {
		if len(p.horizontal) >= 3 && len(p.vertical) >= 2 {
			result = append(result, *p)
		}
	}
	return result
}

// ruledTables returns the tables whose cells are boxes between lines.
func ruledTables(lines []pdfLine, rules pdfRuling) []pdfTable {
	var out []pdfTable
	for _, part := range rules.connected() {
		if t, ok := ruledTable(lines, part); ok {
			out = append(out, t)
		}
	}
	return out
}

// ruledTable returns the table of lines that touch one another and the text between them.
func ruledTable(lines []pdfLine, part pdfRuling) (pdfTable, bool) {
	var flat, upright []segment
	left, right, bottom, top := 1e9, 0.0, 1e9, 0.0
	for _, a := range part.horizontal {
		flat = append(flat, segment{-a.y, a.left, a.right}) // from the top down
		left, right = min(left, a.left), max(right, a.right)
		bottom, top = min(bottom, a.y), max(top, a.y)
	}
	for _, d := range part.vertical {
		upright = append(upright, segment{d.x, d.bottom, d.top})
		bottom, top = min(bottom, d.bottom), max(top, d.top)
		left, right = min(left, d.x), max(right, d.x)
	}
	across, down := lineSets(flat), lineSets(upright)
	// A table may have no line at its left and right sides.
	if down[0].pos > left+2*nearLines {
		down = slices.Insert(down, 0, lineSet{left, []interval{{bottom, top}}})
	}
	if down[len(down)-1].pos < right-2*nearLines {
		down = append(down, lineSet{right, []interval{{bottom, top}}})
	}
	columns, rows := len(down)-1, len(across)-1
	if columns < 2 || rows < 2 || columns > maxGridSize || rows > maxGridSize {
		return pdfTable{}, false
	}
	var t pdfTable
	words := make([][]pdfCell, rows)
	bold, filledRows := make([]bool, rows), make([]bool, rows)
	for i := range words {
		words[i], bold[i] = make([]pdfCell, columns), true
	}
	for i, l := range lines {
		inside := 0
		for _, w := range l.words {
			x, y := float64(w.left+w.right)/2, float64(w.bottom+w.top)/2
			column, row := slotIndex(down, x), slotIndex(across, -y)
			if column < 0 || row < 0 {
				continue
			}
			inside++
			words[row][column] = join(words[row][column], pdfCell{interval{float64(w.left), float64(w.right)}, []pdfWord{w}})
			bold[row], filledRows[row] = bold[row] && l.bold, true
		}
		if inside > 0 && inside < len(l.words) {
			return t, false // a line that continues outside of the table
		}
		if inside > 0 {
			t.lines = append(t.lines, i)
		}
	}
	cells, ok := mergeCells(words, across, down)
	if !ok || len(t.lines) == 0 {
		return t, false
	}
	filled, all, count := 0, 0, 0
	for _, row := range cells {
		for _, c := range row {
			all++
			count += len(c.words)
			if len(c.words) > 0 {
				filled++
			}
		}
	}
	if filled < 4 || float64(filled) < minFilledShare*float64(all) || count > maxAverageWords*filled {
		return t, false
	}
	for i := range columns {
		t.columns = append(t.columns, interval{down[i].pos, down[i+1].pos})
	}
	for i := range bold {
		bold[i] = bold[i] && filledRows[i]
	}
	t.cells, t.head = cells, headRows(cells, bold)
	t.page, t.first = lines[t.lines[0]].page, slices.Min(t.lines)
	return t, true
}

// slotIndex returns the index of the space between two lines that contains a position; -1: outside.
func slotIndex(lines []lineSet, pos float64) int {
	i, _ := slices.BinarySearchFunc(lines, pos, func(l lineSet, x float64) int { return cmp.Compare(l.pos, x) })
	if i == 0 || i == len(lines) {
		return -1
	}
	return i - 1
}

// mergeCells joins the cells that no line separates. It returns false if a cell would not be a
// rectangle.
func mergeCells(words [][]pdfCell, across, down []lineSet) ([][]gridCell, bool) {
	rows, columns := len(words), len(words[0])
	taken := make([][]bool, rows)
	for i := range taken {
		taken[i] = make([]bool, columns)
	}
	closedRight := func(i, j int) bool { return j == columns-1 || down[j+1].covers(-across[i+1].pos, -across[i].pos) }
	closedBelow := func(i, j int) bool { return i == rows-1 || across[i+1].covers(down[j].pos, down[j+1].pos) }
	out := make([][]gridCell, rows)
	for i := range rows {
		for j := range columns {
			if taken[i][j] {
				continue
			}
			c := gridCell{columnSpan: 1, rowSpan: 1}
			for !closedRight(i, j+c.columnSpan-1) {
				c.columnSpan++
			}
			for !closedBelow(i+c.rowSpan-1, j) {
				c.rowSpan++
			}
			for a := range c.rowSpan {
				for b := range c.columnSpan {
					if taken[i+a][j+b] {
						return nil, false
					}
					taken[i+a][j+b] = true
					if len(words[i+a][j+b].words) > 0 {
						c.pdfCell = join(c.pdfCell, words[i+a][j+b])
					}
				}
			}
			c.sortWords()
			out[i] = append(out[i], c)
		}
	}
	return out, true
}

// sortWords sorts a cell's words into reading order: by lines, then from left to right.
func (c *gridCell) sortWords() {
	slices.SortStableFunc(c.words, func(a, b pdfWord) int {
		if low, high := max(a.bottom, b.bottom), min(a.top, b.top); high-low > 0.5*min(a.top-a.bottom, b.top-b.bottom) {
			return cmp.Compare(a.left, b.left)
		}
		return cmp.Compare(b.top, a.top)
	})
}

// headRows returns the number of header rows at the top: those in bold, or else the first row with
// the rows that its cells span, unless it has figures.
func headRows(cells [][]gridCell, bold []bool) int {
	head := 0
	for head < len(cells) && bold[head] {
		head++
	}
	if head == len(cells) {
		head = 0
	}
	figures, named := 0, 0
	for _, c := range cells[0] {
		switch s := c.text(); {
		case len(c.words) > maxHeadingWords:
			return 0
		case tabular.Figure(s):
			figures++
		case s != "":
			named++
		}
	}
	if head == 0 && (figures > 0 || named == 0) {
		return 0
	}
	head = max(head, 1)
	for i := 0; i < head && i < len(cells); i++ {
		for _, c := range cells[i] {
			head = max(head, min(i+c.rowSpan, len(cells)-1))
			if c.columnSpan > 1 && c.columnSpan < width(cells[i]) && len(c.words) > 0 {
				head = max(head, min(i+2, len(cells)-1)) // the row below names the columns that the cell spans
			}
		}
	}
	return head
}

// width returns how many columns the cells of a row span.
func width(row []gridCell) int {
	n := 0
	for _, c := range row {
		n += c.columnSpan
	}
	return n
}

// spreadGrid returns the cells of a grid's rows, one for each column. A cell that spans several
// columns is repeated in each of them, except in the first column, which names the row. A cell that
// spans several rows is repeated in each of them.
func spreadGrid(cells [][]gridCell, columns int) [][]pdfCell {
	out := make([][]pdfCell, len(cells))
	taken := make([][]bool, len(cells))
	for i := range out {
		out[i], taken[i] = make([]pdfCell, columns), make([]bool, columns)
	}
	for i, row := range cells {
		pos := 0
		for _, c := range row {
			for pos < columns && taken[i][pos] {
				pos++
			}
			for a := i; a < min(i+c.rowSpan, len(cells)); a++ {
				for b := pos; b < min(pos+c.columnSpan, columns); b++ {
					taken[a][b] = true
					if b == pos || pos > 0 {
						out[a][b] = c.pdfCell
					}
				}
			}
		}
	}
	return out
}

// gridHeader writes the headings of the columns to out, which contains the caption if filled, and
// returns the header; nil if there is neither.
func (t *pdfTable) gridHeader(out *layoutText, filled bool) *tableHeader {
	head := spreadGrid(t.cells, len(t.columns))[:t.head]
	for i := range t.columns {
		if i > 0 {
			out.write(" | ")
		}
		last := ""
		for _, row := range head {
			s := row[i].text()
			if s == "" || s == last {
				continue
			}
			if last != "" || i == 0 && filled {
				out.write(" ")
			}
			out.words(row[i], t.page)
			last = s
		}
	}
	if t.head == 0 && !filled {
		return nil
	}
	return &tableHeader{t.columns, out, t.page}
}

// gridLines returns the rows of a grid as lines of text.
func (t *pdfTable) gridLines() []rowLine {
	var out []rowLine
	for _, row := range spreadGrid(t.cells, len(t.columns))[t.head:] {
		last := -1
		for i, c := range row {
			if len(c.words) > 0 {
				last = i
			}
		}
		if last < 0 {
			continue
		}
		l := &layoutText{}
		for i, c := range row[:last+1] {
			if i > 0 {
				l.write(" | ")
			}
			l.words(c, t.page)
		}
		out = append(out, rowLine{text: l})
	}
	return out
}
