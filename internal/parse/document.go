package parse

// The document under construction: every parser adds its blocks here, where text is cleaned and
// limits are enforced.

import (
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/internal/tabular"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

// document collects blocks. After the first failure err is set and no more blocks are added.
type document struct {
	ctx    context.Context
	limits Limits
	out    schema.Parsed
	size   int
	links  []string // links of the next block
	linked int      // number of links in all blocks
	err    error

	in     enclosure
	ocr    *ocrSession
	unread *Error // why the first page that needed recognition was not recognised
}

// add appends a block; blank text is left out. It reports whether to continue.
func (d *document) add(kind schema.BlockKind, level int, s string, page int) bool {
	if d.err != nil {
		return false
	}
	s = strings.TrimSpace(text.Clean(s))
	if s == "" {
		return d.withinTime()
	}
	d.size += len(s)
	if d.size > d.limits.TextBytes {
		d.err = d.tooMuchText()
		return false
	}
	d.out.Blocks = append(d.out.Blocks, schema.Block{Kind: kind, Level: level, Text: s, Page: page, Links: d.blockLinks()})
	return d.withinTime()
}

// addWithLayout appends a block whose layout is known.
func (d *document) addWithLayout(kind schema.BlockKind, level int, s string, page int, layout []byte) bool {
	n := len(d.out.Blocks)
	ok := d.add(kind, level, s, page)
	if len(d.out.Blocks) > n {
		d.out.Blocks[n].Layout = layout
	}
	return ok
}

// extendWithLayout adds a line whose layout is known to the last block.
func (d *document) extendWithLayout(s string, layout []byte) bool {
	last := len(d.out.Blocks) - 1
	before := d.out.Blocks[last].Layout
	ok := d.extend(s)
	d.out.Blocks[last].Layout = text.JoinLayouts(before, layout)
	return ok
}

// extend adds a line to the last block.
func (d *document) extend(s string) bool {
	b := &d.out.Blocks[len(d.out.Blocks)-1]
	kind, level, page, before, links := b.Kind, b.Level, b.Page, b.Text, b.Links
	d.out.Blocks = d.out.Blocks[:len(d.out.Blocks)-1]
	d.size -= len(before)
	d.linked -= len(links)
	d.links = append(links, d.links...)
	return d.add(kind, level, before+"\n"+s, page)
}

func (d *document) paragraph(s string) bool { return d.add(schema.BlockParagraph, 0, squeeze(s), 0) }

func (d *document) heading(level int, s string) bool {
	return d.add(schema.BlockHeading, max(level, 1), squeeze(s), 0)
}

// withinTime reports whether the time limit is not exceeded and no other failure occurred.
func (d *document) withinTime() bool {
	if d.err == nil && d.ctx.Err() != nil {
		d.err = context.Cause(d.ctx)
	}
	return d.err == nil
}

func (d *document) warn(s string) {
	if len(d.out.Warnings) < 20 {
		d.out.Warnings = append(d.out.Warnings, text.Clean(s))
	}
}

func (d *document) tooMuchText() *Error {
	return fail(schema.ReasonTooLarge, "The file has more than %s of text. Split it, or raise the limit.", schema.FormatBytes(int64(d.limits.TextBytes)))
}

// fits returns an error for text over the limit, before it is parsed. White space does not count,
// since it is removed later.
func (d *document) fits(s string) error {
	n := 0
	for _, c := range []byte(s) {
		if c > ' ' {
			n++
		}
	}
	if n > d.limits.TextBytes {
		return d.tooMuchText()
	}
	return nil
}

func (d *document) tooDeep() *Error {
	return fail(schema.ReasonTooLarge, "Its elements are nested more than %d deep. Simplify the file.", d.limits.Nesting)
}

// Sizes in tokens of the blocks that tables are split into, so that the header stays near every
// row.
const (
	tableTokens  = 200 // for the rows of one block
	recordTokens = 80  // a longer cell makes its row a record of its own
)

// linkedTable adds rows as blocks of "a | b | c" lines, each block beginning with the header (which
// may be nil). A row with a long cell becomes a block of "column: value" lines. links[i] are the
// links of rows[i]; links may be shorter than rows. Links noted before go with the first block.
func (d *document) linkedTable(header []string, rows, links [][]string, page int) bool {
	wide := func(row []string) bool { return len(row) > d.limits.Cells }
	if wide(header) || slices.ContainsFunc(rows, wide) {
		d.err = fail(schema.ReasonTooLarge, "A row of a table has more than %d cells. Split it, or raise the limit.", d.limits.Cells)
		return false
	}
	t := tableWriter{d: d, page: page, links: d.takeLinks()}
	above := rowsAbove(header, rows)
	for _, row := range rows[:above] {
		header = appendCells(header, row)
	}
	for _, l := range links[:min(above, len(links))] {
		d.link(l...)
	}
	t.links = append(t.links, d.takeLinks()...)
	rows, links = rows[above:], links[min(above, len(links)):]
	t.header(header)
	for i, row := range rows {
		var rowLinks []string
		if i < len(links) {
			rowLinks = links[i]
		}
		if !t.row(row, rowLinks...) {
			return false
		}
	}
	return t.flush()
}

// maxRowsAbove is how many rows above the first row of figures may belong to the header.
const maxRowsAbove = 4

// rowsAbove returns how many rows at the beginning of rows belong to the header (which may be nil):
// those above the first row of figures, if there are not too many.
func rowsAbove(header []string, rows [][]string) int {
	for n, row := range rows {
		if n > maxRowsAbove || n > 0 && header != nil && len(row) > 0 && squeeze(row[0]) != "" && !hasFigures(row) {
			return 0
		}
		if hasFigures(row) {
			return n
		}
		filled := 0
		for _, c := range row[min(1, len(row)):] {
			if len(c) > 60 {
				return 0
			}
			if squeeze(c) != "" {
				filled++
			}
		}
		if filled == 0 {
			return n // the row is a heading of the rows below it
		}
	}
	return 0
}

// hasFigures reports whether a row has a figure, other than a year, after its first cell.
func hasFigures(row []string) bool {
	for _, c := range row[min(1, len(row)):] {
		if tabular.Figure(squeeze(c)) {
			return true
		}
	}
	return false
}

// appendCells returns header with the cells of row appended to its cells.
func appendCells(header, row []string) []string {
	out := make([]string, max(len(header), len(row)))
	copy(out, header)
	for i, c := range row {
		out[i] = strings.TrimSpace(out[i] + " " + c)
	}
	return out
}

// tableWriter writes the rows of a table into blocks.
type tableWriter struct {
	d       *document
	page    int
	columns []string
	head    string
	limit   int
	lines   []string
	links   []string
	tokens  int
	rows    int
}

func (t *tableWriter) header(columns []string) {
	t.columns = columns
	t.head = joinCells(columns)
	t.limit = max(tableTokens, 2*text.CountTokens(t.head))
}

// row adds a row of cells with the links in it.
func (t *tableWriter) row(cells []string, links ...string) bool {
	line := joinCells(cells)
	if line == "" {
		return t.d.withinTime()
	}
	t.rows++
	if t.isRecord(cells) {
		if !t.flush() {
			return false
		}
		t.d.link(links...)
		return t.d.add(schema.BlockTable, 0, t.record(cells), t.page)
	}
	n := text.CountTokens(line)
	if t.tokens > 0 && t.tokens+n > t.limit && !t.flush() {
		return false
	}
	t.lines = append(t.lines, line)
	t.links = append(t.links, links...)
	t.tokens += n
	return true
}

func (t *tableWriter) isRecord(cells []string) bool {
	if t.head == "" {
		return false
	}
	for _, c := range cells {
		if len(c) > recordTokens && text.CountTokens(c) > recordTokens {
			return true
		}
	}
	return false
}

// record returns cells as "column: value" lines.
func (t *tableWriter) record(cells []string) string {
	var lines []string
	for i, c := range cells {
		c = squeeze(c)
		if c == "" {
			continue
		}
		if i < len(t.columns) && squeeze(t.columns[i]) != "" {
			c = squeeze(t.columns[i]) + ": " + c
		}
		lines = append(lines, c)
	}
	return strings.Join(lines, "\n")
}

// flush ends the block. If the whole table has no row below its header, the header alone is a
// block.
func (t *tableWriter) flush() bool {
	if len(t.lines) == 0 && (t.rows > 0 || t.head == "") {
		return t.d.withinTime()
	}
	lines := t.lines
	if t.head != "" {
		lines = append([]string{t.head}, lines...)
	}
	t.rows++
	t.d.link(t.links...)
	t.lines, t.links, t.tokens = nil, nil, 0
	return t.d.add(schema.BlockTable, 0, strings.Join(lines, "\n"), t.page)
}

// joinCells returns cells as one line; empty cells at its end are left out.
func joinCells(cells []string) string {
	out := make([]string, len(cells))
	last := 0
	for i, c := range cells {
		if out[i] = squeeze(c); out[i] != "" {
			last = i + 1
		}
	}
	return strings.Join(out[:last], " | ")
}

// squeeze replaces each run of white space by one space, trims, and removes invisible characters.
func squeeze(s string) string {
	s = text.Clean(s)
	var b strings.Builder
	b.Grow(len(s))
	space := false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			space = true
			continue
		case invisible(r):
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		b.WriteRune(r)
	}
	return b.String()
}

// invisible reports whether r is a soft hyphen, a zero-width space, a control character or the
// like. Joiners (U+200C, U+200D) carry meaning in some scripts and are kept.
func invisible(r rune) bool {
	switch r {
	case '\u00AD', '\u200B', '\u2060', '\uFFFE', '\uFFFF':
		return true
	}
	return r != '\n' && r != '\t' && unicode.IsControl(r)
}

// tidyLines cleans text whose line breaks matter: it removes invisible characters, white space at
// the ends of lines, and blank lines at both ends. Tabs become four spaces; indentation is kept.
func tidyLines(s string) string {
	s = strings.ReplaceAll(text.Clean(s), "\t", "    ")
	s = strings.Map(func(r rune) rune {
		if invisible(r) {
			return -1
		}
		return r
	}, s)
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRightFunc(lines[i], unicode.IsSpace)
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}
