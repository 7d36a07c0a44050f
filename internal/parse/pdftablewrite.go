package parse

// From a page's tables to blocks: each row becomes a line under the header, and blocks are short,
// so that the header stays near every row.

import (
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

// layoutText is text under construction, with its layout.
type layoutText struct {
	b    strings.Builder
	runs []text.LayoutRun
}

// write adds text without a position.
func (l *layoutText) write(s string) {
	l.b.WriteString(s)
	if n := text.CountNonSpace(s); n > 0 {
		l.runs = append(l.runs, text.LayoutRun{Chars: n})
	}
}

// words adds a cell's words.
func (l *layoutText) words(c pdfCell, page int) {
	for i, w := range c.words {
		if c.spaced(i) {
			l.b.WriteByte(' ')
		}
		l.b.WriteString(w.text)
		l.runs = append(l.runs, text.LayoutRun{Chars: text.CountNonSpace(w.text), Box: w.box(page)})
	}
}

func (l *layoutText) add(o *layoutText) {
	l.b.WriteString(o.b.String())
	l.runs = append(l.runs, o.runs...)
}

// tableHeader is the header that every block of a table begins with, also that of its continuation
// on the next page.
type tableHeader struct {
	columns []interval
	text    *layoutText
	page    int
}

// fits reports whether the header is also that of a table without one on the next page.
func (h *tableHeader) fits(t *pdfTable) bool {
	if h == nil || t.page != h.page+1 || len(t.headers)+t.head > 0 || len(h.columns) != len(t.columns) {
		return false
	}
	for i, c := range t.columns {
		if math.Abs(c.right-h.columns[i].right) > 12 && c.overlap(h.columns[i]) <= 0 {
			return false
		}
	}
	return true
}

// header returns the header above the table's rows, or nil if there is none.
func (t *pdfTable) header() *tableHeader {
	out := &layoutText{}
	var about []string
	for _, s := range []string{t.caption, t.unit} {
		if s != "" && (len(about) == 0 || !strings.Contains(about[0], s)) {
			about = append(about, s)
		}
	}
	out.write(strings.Join(about, " "))
	filled := len(about) > 0
	if t.cells != nil {
		return t.gridHeader(out, filled)
	}
	for _, h := range t.headers {
		if s := h[0].text(); s != "" && s != t.unit {
			if filled {
				out.write(" ")
			}
			out.words(h[0], t.page)
			filled = true
		}
	}
	named := false
	for i := range t.columns {
		out.write(" | ")
		first := true
		var last string
		for _, h := range t.headers {
			s := h[i+1].text()
			if s == "" || s == last {
				continue
			}
			if !first {
				out.write(" ")
			}
			out.words(h[i+1], t.page)
			first, last, named = false, s, true
		}
	}
	if !named && !filled {
		return nil
	}
	return &tableHeader{t.columns, out, t.page}
}

// rowLine is a row of a table as a line of text.
type rowLine struct{ text *layoutText }

// maxGroupWords is the most words of a label that is repeated before each of its rows; a longer
// label is a line of its own.
const maxGroupWords = 6

// rowLines returns a line for every row. A row that only names the rows below it, which are
// indented or follow its colon, is repeated before each of them. A row that is the beginning or the
// end of a label is joined to it.
func (t *pdfTable) rowLines() []rowLine {
	if t.cells != nil {
		return t.gridLines()
	}
	var out []rowLine
	var group string
	var groupLeft float64
	var pending []pdfCell // a label whose figures follow
	flush := func() {
		for _, c := range pending {
			l := &layoutText{}
			l.words(c, t.page)
			out = append(out, rowLine{text: l})
		}
		pending = nil
	}
	for i, r := range t.rows {
		label, cells := t.assignColumns(r)
		empty := true
		for _, c := range cells {
			empty = empty && len(c.words) == 0
		}
		left := label.left
		if empty {
			s := label.text()
			switch {
			case startsLower(s) && i > 0 && len(out) > 0 && len(pending) == 0 && t.rows[i-1].strong():
				// The label above continues here.
				l := out[len(out)-1].text
				joined := &layoutText{}
				joined.add(l)
				joined.write(" | ")
				joined.words(label, t.page)
				out[len(out)-1].text = joined
			case strings.HasSuffix(s, ":"):
				if len(pending) > 0 {
					label = join(pending[0], label)
					pending = nil
				}
				group, groupLeft = strings.TrimSuffix(label.text(), ":"), label.left
				if len(label.words) > maxGroupWords {
					pending, group = []pdfCell{label}, ""
				}
			case len(pending) > 0 && (startsLower(s) || len(pending[0].words) > 5):
				pending[0] = join(pending[0], label)
			default:
				flush()
				group = ""
				pending = []pdfCell{label}
			}
			continue
		}
		if len(pending) > 0 && startsLower(label.text()) {
			label = join(pending[0], label)
			pending = nil
		} else if len(pending) > 0 {
			p := pending[0]
			if left > p.left+1.5 && len(p.words) <= maxGroupWords {
				group, groupLeft = p.text(), p.left
				pending = nil
			}
			flush()
		}
		if group != "" && len(label.words) > 0 && left <= groupLeft+1 && !t.flat(i) {
			group = ""
		}
		l := &layoutText{}
		if group != "" && !strings.HasPrefix(strings.ToLower(label.text()), "total") {
			l.write(group + ": ")
		}
		l.words(label, t.page)
		last := 0
		for j, c := range cells {
			if len(c.words) > 0 {
				last = j
			}
		}
		for _, c := range cells[:last+1] {
			l.write(" | ")
			l.words(c, t.page)
		}
		out = append(out, rowLine{text: l})
	}
	flush()
	return out
}

// flat reports whether the labels of the table are not indented, so that indentation does not end a
// group; then a total does.
func (t *pdfTable) flat(row int) bool {
	label, _ := t.assignColumns(t.rows[row])
	if strings.HasPrefix(strings.ToLower(label.text()), "total") {
		return false
	}
	first := -1.0
	for _, r := range t.rows {
		l, _ := t.assignColumns(r)
		if len(l.words) == 0 {
			continue
		}
		if first >= 0 && math.Abs(l.left-first) > 1 {
			return false
		}
		first = l.left
	}
	return true
}

// assignColumns returns a row's label and its cell in each column.
func (t *pdfTable) assignColumns(r pdfRow) (label pdfCell, cells []pdfCell) {
	cells = make([]pdfCell, len(t.columns))
	for i, c := range r.cells {
		if i == 0 && !number(c.text()) || c.center() < t.columns[0].left && c.right < t.columns[0].right {
			label = join(label, c)
			continue
		}
		best, bestOverlap := t.nearest(c.interval), 0.0
		for j, column := range t.columns {
			if o := c.overlap(column); o > bestOverlap {
				best, bestOverlap = j, o
			}
		}
		cells[best] = join(cells[best], c)
	}
	return label, cells
}

// addTable adds a table's blocks and returns its header, for a continuation.
func addTable(d *document, t *pdfTable, before *tableHeader) (*tableHeader, bool) {
	h := t.header()
	if before.fits(t) {
		h = &tableHeader{t.columns, before.text, t.page}
	}
	limit, head := tableTokens, 0
	if h != nil {
		head = text.CountTokens(h.text.b.String())
		limit = max(limit, 2*head)
	}
	block, tokens, rows := &layoutText{}, 0, 0
	flush := func() bool {
		if rows == 0 {
			return d.withinTime()
		}
		t.notesOf(block)
		ok := d.addWithLayout(schema.BlockTable, 0, block.b.String(), t.page, text.EncodeLayout(block.runs))
		block, tokens, rows = &layoutText{}, 0, 0
		return ok
	}
	for _, row := range t.rowLines() {
		n := text.CountTokens(row.text.b.String())
		if rows > 0 && tokens+n > limit && !flush() {
			return h, false
		}
		if rows == 0 && h != nil {
			block.add(h.text)
			tokens = head
		}
		if block.b.Len() > 0 {
			block.write("\n")
		}
		block.add(row.text)
		tokens += n
		rows++
	}
	return h, flush()
}

// charBoxesOf returns the characters of lines with their positions.
func charBoxesOf(lines []pdfLine) []text.CharBox {
	var out []text.CharBox
	for _, l := range lines {
		for _, w := range l.words {
			box := w.box(l.page)
			for i := 0; i < len(w.text); {
				r, n := utf8.DecodeRuneInString(w.text[i:])
				i += n
				if !unicode.IsSpace(r) {
					out = append(out, text.CharBox{Rune: r, Box: box})
				}
			}
		}
	}
	return out
}
