package parse

// Tables of figures on PDF pages. Rows are lines at one height (pdfrows.go); columns are where
// figures are below one another; text above the first row of figures and over a column is its
// heading. pdftablewrite.go turns them into blocks.

import (
	"slices"
	"strconv"
	"strings"
)

// pdfTable is a table of one page.
type pdfTable struct {
	page    int
	columns []interval // columns of figures, from left to right; labels are left of the first
	headers [][]pdfCell
	rows    []pdfRow
	cells   [][]gridCell // replaces headers and rows if cells have spans
	head    int          // number of rows of cells that are the header
	caption string
	unit    string
	first   int   // index, on the page, of the line whose position the table takes
	lines   []int // all of its lines
	notes   []tableNote
}

// pageTables returns the tables in a page's lines.
func pageTables(lines []pdfLine, rules pdfRuling) []pdfTable {
	out := ruledTables(lines, rules)
	taken := make(map[int]bool)
	for i := range out {
		for _, l := range out[i].lines {
			taken[l] = true
		}
	}
	for _, part := range pageColumns(lines) {
		rows := rowsOf(lines, slices.DeleteFunc(part, func(i int) bool { return taken[i] }))
		words, rows := alignedTables(rows, rules)
		for i := range words {
			words[i].page = lines[words[i].first].page
		}
		out = append(out, words...)
		for at := 0; at < len(rows); {
			first, last := region(rows, at)
			if first < 0 {
				break
			}
			if t, ok := tableOf(lines, rows, first, last, at, rules); ok && !t.contents() {
				out = append(out, t)
			}
			at = last + 1
		}
	}
	for i := range out {
		for _, l := range out[i].lines {
			taken[l] = true
		}
	}
	for i := range out {
		out[i].extractNotes(lines, taken)
	}
	return out
}

// tableOf returns the table of the rows [first, last], whose header may begin at row from.
func tableOf(lines []pdfLine, rows []pdfRow, first, last, from int, rules pdfRuling) (pdfTable, bool) {
	t := pdfTable{page: lines[rows[first].lines[0]].page}
	body := first
	for body < last {
		if _, years := rows[body].figures(); !years && !rows[body].dates() {
			break
		}
		body++
	}
	t.columns = columnsOf(rows[body : last+1])
	if len(t.columns) == 0 || len(t.columns) > 40 {
		return t, false
	}
	head := first
	if body == first {
		// A row between header and figures may be a heading of the rows below.
		for head > from && first-head < labelRows && t.labelled(rows[head-1], rows[head]) {
			head--
		}
		body = head
	}
	top := head
	for head > from && top-head < headerRows && t.isHeaderRow(rows[head-1], rows[head]) {
		head--
	}
	if head == top && body == top {
		head, body = first, first // the rows after the header turned out not to belong to the table
	}
	for _, r := range rows[head:body] {
		if len(r.cells) == 1 && unitNote.MatchString(r.cells[0].text()) {
			t.unit = r.cells[0].text()
			continue
		}
		t.headers = append(t.headers, t.spreadHeader(r, rules.horizontal))
	}
	t.rows = rows[body : last+1]
	t.describe(rows, head, from)
	for _, r := range rows[head : last+1] {
		t.lines = append(t.lines, r.lines...)
	}
	t.first = slices.Min(t.lines)
	return t, true
}

// minContentsRows is the least number of rows of a table of contents.
const minContentsRows = 5

// contents reports whether a table is a table of contents: its only column has numbers that never
// decrease, and at most "Page" over it.
func (t *pdfTable) contents() bool {
	if len(t.columns) != 1 || len(t.rows) < minContentsRows {
		return false
	}
	for _, h := range t.headers {
		if s := strings.ToLower(h[1].text()); s != "" && !strings.HasPrefix(s, "page") && !pageNum.MatchString(s) {
			return false
		}
	}
	last, numbers := 0, 0
	for _, r := range t.rows {
		_, cells := t.assignColumns(r)
		s := cells[0].text()
		if s == "" {
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < last || n > 9999 {
			return false
		}
		last = n
		numbers++
	}
	return numbers >= minContentsRows-1
}

// dates reports whether a row has nothing but dates and years besides a label.
func (r pdfRow) dates() bool {
	n := 0
	for i, c := range r.cells {
		s := c.text()
		if dated(c) {
			n++
		} else if number(s) || i > 0 {
			return false
		}
	}
	return n > 0
}

// dated reports whether a cell is a year, or a date written out.
func dated(c pdfCell) bool {
	if year.MatchString(strings.TrimRight(c.text(), ",")) {
		return true
	}
	return len(c.words) > 1 && len(c.words) < 5 && dateWord.MatchString(c.words[0].text)
}

// columnsOf returns the columns: where figures of the rows are below one another.
func columnsOf(rows []pdfRow) []interval {
	var all []interval
	for _, r := range rows {
		for i, c := range r.cells {
			if number(c.text()) && (i > 0 || len(r.cells) > 1) {
				all = append(all, c.interval)
			}
		}
	}
	slices.SortFunc(all, func(a, b interval) int {
		switch {
		case a.left < b.left:
			return -1
		case a.left > b.left:
			return 1
		}
		return 0
	})
	var out []interval
	for _, s := range all {
		if n := len(out); n > 0 && s.left < out[n-1].right {
			out[n-1].right = max(out[n-1].right, s.right)
			continue
		}
		out = append(out, s)
	}
	return out
}

// labelled reports whether a row above the table has only a label.
func (t *pdfTable) labelled(r, below pdfRow) bool {
	return r.bottom-below.top <= headerGap*max(r.size, below.size) && len(r.cells) == 1 &&
		r.cells[0].left < t.columns[0].left-2*r.size && len(r.cells[0].words) <= 14 && !unitNote.MatchString(r.cells[0].text())
}

// isHeaderRow reports whether a row above the table may belong to its header.
func (t *pdfTable) isHeaderRow(r, below pdfRow) bool {
	if r.bottom-below.top > headerGap*max(r.size, below.size) {
		return false
	}
	first, last := t.columns[0], t.columns[len(t.columns)-1]
	over := 0
	for _, c := range r.cells {
		switch {
		case c.right <= first.left && (len(r.cells) > 1 || unitNote.MatchString(c.text())): // heading of the labels
		case c.left >= first.left-6*r.size && c.right <= last.right+3*r.size && len(c.words) <= 12:
			over++
		default:
			return false
		}
	}
	return over > 0
}

// spreadHeader returns a header's cells, one for each column after that of the labels. A cell over
// several columns is repeated in all of them.
func (t *pdfTable) spreadHeader(r pdfRow, rules []pdfRule) []pdfCell {
	out := make([]pdfCell, len(t.columns)+1)
	var over []pdfCell
	for _, c := range r.cells {
		if c.right < t.columns[0].left && c.center() < t.columns[0].left-r.size {
			out[0] = join(out[0], c)
			continue
		}
		over = append(over, c)
	}
	if len(over) == len(t.columns) {
		copy(out[1:], over)
		return out
	}
	for _, c := range over {
		reach := c.interval
		for _, rule := range rules {
			line := interval{rule.left, rule.right}
			if under := r.bottom - rule.y; under > -0.4*r.size && under < 0.8*r.size && c.overlap(line) > 0 &&
				rule.left > t.columns[0].left-4*r.size && underlinesOnly(c, over, line) {
				reach.left, reach.right = min(reach.left, rule.left), max(reach.right, rule.right)
			}
		}
		found := false
		for i, column := range t.columns {
			if reach.overlap(column) > 0 {
				out[i+1] = join(out[i+1], c)
				found = true
			}
		}
		if !found {
			out[t.nearest(c.interval)+1] = join(out[t.nearest(c.interval)+1], c)
		}
	}
	if len(over) == 1 && len(t.columns) > 1 {
		// A single heading in the middle of all columns is the heading of all of them.
		whole := interval{t.columns[0].left, t.columns[len(t.columns)-1].right}
		if d := over[0].center() - whole.center(); d < 2*r.size && d > -4*r.size {
			for i := range t.columns {
				out[i+1] = over[0]
			}
		}
	}
	return out
}

// underlinesOnly reports whether a rule is under this cell and no other.
func underlinesOnly(c pdfCell, cells []pdfCell, rule interval) bool {
	return !slices.ContainsFunc(cells, func(o pdfCell) bool { return o.interval != c.interval && o.overlap(rule) > 0 })
}

func join(a, b pdfCell) pdfCell {
	if len(a.words) == 0 {
		return b
	}
	a.words = append(slices.Clone(a.words), b.words...)
	a.left, a.right = min(a.left, b.left), max(a.right, b.right)
	return a
}

// nearest returns the index of the column nearest to a stretch.
func (t *pdfTable) nearest(s interval) int {
	best, distance := 0, 1e9
	for i, c := range t.columns {
		d := max(c.left-s.right, s.left-c.right, 0)
		if d < distance {
			best, distance = i, d
		}
	}
	return best
}

// maxCaptionRows is how many rows above a table are searched for its caption.
const maxCaptionRows = 4

// describe finds the caption and the unit in the rows above the table.
func (t *pdfTable) describe(rows []pdfRow, head, from int) {
	for _, h := range t.headers {
		if s := h[0].text(); unitNote.MatchString(s) {
			t.unit = s
		}
		for _, c := range h[1:] {
			if s := c.text(); t.unit == "" && unitNote.MatchString(s) {
				t.unit = unitNote.FindString(s)
			}
		}
	}
	for i := head - 1; i >= from && head-i <= maxCaptionRows; i-- {
		r := rows[i]
		if r.bottom-rows[i+1].top > 3*r.size {
			return
		}
		var texts []string
		for _, c := range r.cells {
			texts = append(texts, c.text())
		}
		s := strings.Join(texts, " ")
		if found := unitNote.FindString(s); t.unit == "" && found != "" && len(found)*2 > len(s) {
			t.unit = s
			continue
		}
		if t.caption == "" && (r.bold || capitals(s)) && headline(s) && len(s) <= 120 {
			t.caption = s
			if found := unitNote.FindString(s); found != "" && t.unit == "" {
				t.unit = found
			}
			return
		}
	}
}
