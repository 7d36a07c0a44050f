// Package tabular reads figures from tables in text: a line for each row, with cells separated by
// bars, below header lines for the columns, as the parsers and Markdown write them. It is pure: no
// I/O and no state.
//
// All offsets are byte offsets in the given text.
package tabular

import (
	"regexp"
	"strings"

	"github.com/sluice-rag/sluice/internal/text"
)

// TableCell is bytes [Start, End) of a text.
type TableCell struct {
	Text       string
	Start, End int
}

// TableRow is a row of figures.
type TableRow struct {
	text.Range           // the whole line, without its line break
	Group      TableCell // the row above that names a group of rows; empty if there is none
	Label      string
	Cells      []TableCell // after the label
}

// Table is a table of figures.
type Table struct {
	Caption string        // the header above the labels: a caption, a unit
	Columns []string      // the header of each column, may be ""
	Over    [][]TableCell // the header cells of each column
	Header  []text.Range  // the header's lines
	Rows    []TableRow
}

var (
	figureForm = regexp.MustCompile(`^[-–—(\[]*(?:[A-Z]{0,3}[$€£¥])?\s?[-–—(]*\d[\d,.'\x{202f}\x{a0}]*\s?(?:%|x|bps|m|bn|k|pp)?[)\]]*%?\s?(?:\(\w{1,2}\)|\*{1,3}|[†‡§¹²³])?$`)
	noteMark   = regexp.MustCompile(`\s?(?:\(\w{1,2}\)|\*{1,3}|[†‡§¹²³])$`)
	yearForm   = regexp.MustCompile(`^(?:FY|CY|fiscal )?'?(?:19|20)\d\d(?:\s?\(?(?:restated|unaudited|audited|[a-z1-9])\)?)?[*]*$`)
	ruleForm   = regexp.MustCompile(`^[\s|:+=-]*-[\s|:+=-]*$`)
)

// Figure reports whether a cell is a figure and not a year.
func Figure(s string) bool {
	s = strings.TrimSpace(s)
	return figureForm.MatchString(s) && !yearForm.MatchString(s)
}

// Tables returns the tables of figures in a text.
func Tables(s string) []Table {
	var out []Table
	var open []line
	flush := func() {
		if t, ok := tableOf(open); ok {
			out = append(out, t)
		}
		open = nil
	}
	at := 0
	for whole := range strings.SplitAfterSeq(s, "\n") {
		l := lineOf(s, at, whole)
		at += len(whole)
		switch {
		case ruleForm.MatchString(strings.TrimSpace(whole)) && len(open) > 0: // Markdown's rule under the header
		case len(l.cells) > 1:
			open = append(open, l)
		case len(open) > 0 && l.Start < l.End && len(l.cells[0].Text) <= mostLabel:
			open = append(open, l) // the name of a group of rows
		default:
			flush()
		}
	}
	flush()
	return out
}

// mostLabel is the maximum length, in bytes, of a row that only names a group.
const mostLabel = 120

// line is a line of text, split at its bars.
type line struct {
	text.Range
	cells []TableCell
}

// lineOf splits a line that begins at byte start.
func lineOf(s string, start int, whole string) line {
	r := text.Range{Start: start, End: start + len(whole)}
	r = text.Trim(s, r)
	l := line{Range: r}
	from, end := r.Start, r.End
	if body := r.Of(s); strings.HasPrefix(body, "|") && strings.HasSuffix(body, "|") && len(body) > 1 { // Markdown
		from, end = from+1, end-1
	}
	for {
		bar := strings.IndexByte(s[from:end], '|')
		if bar < 0 {
			break
		}
		l.cells = append(l.cells, cellOf(s, from, from+bar))
		from += bar + 1
	}
	l.cells = append(l.cells, cellOf(s, from, end))
	return l
}

func cellOf(s string, start, end int) TableCell {
	r := text.Trim(s, text.Range{Start: start, End: end})
	return TableCell{r.Of(s), r.Start, r.End}
}

// withoutMark returns a figure without the mark of a note after it: 1,234 for 1,234(1).
func (c TableCell) withoutMark() TableCell {
	at := noteMark.FindStringIndex(c.Text)
	if at == nil || !Figure(c.Text) || !Figure(c.Text[:at[0]]) {
		return c
	}
	return TableCell{c.Text[:at[0]], c.Start, c.Start + at[0]}
}

// figures counts the figures after the first cell.
func (l line) figures() int {
	n := 0
	for _, c := range l.cells[1:] {
		if Figure(c.Text) {
			n++
		}
	}
	return n
}

// tableOf makes a table of lines; those above the first figures are its header.
func tableOf(lines []line) (Table, bool) {
	body := 0
	for body < len(lines) && lines[body].figures() == 0 {
		body++
	}
	if body == len(lines) {
		return Table{}, false
	}
	var t Table
	var group TableCell
	for i, l := range lines[:body] {
		if len(l.cells) == 1 {
			if i > 0 { // after the first line it names the rows below
				group = l.cells[0]
			}
			continue
		}
		group = TableCell{}
		t.Header = append(t.Header, l.Range)
		t.Caption = strings.TrimSpace(t.Caption + " " + l.cells[0].Text)
		for j, c := range l.cells[1:] {
			for len(t.Columns) <= j {
				t.Columns, t.Over = append(t.Columns, ""), append(t.Over, nil)
			}
			if c.Text != "" {
				t.Over[j] = append(t.Over[j], c)
			}
			t.Columns[j] = strings.TrimSpace(t.Columns[j] + " " + c.Text)
		}
	}
	for _, l := range lines[body:] {
		switch {
		case len(l.cells) == 1:
			group = l.cells[0]
			continue
		case l.figures() == 0 && l.cells[0].Text != "" && empty(l.cells[1:]):
			group = l.cells[0]
			continue
		}
		for i, c := range l.cells {
			l.cells[i] = c.withoutMark()
		}
		r := TableRow{Range: l.Range, Group: group, Label: l.cells[0].Text, Cells: l.cells[1:]}
		if Figure(r.Label) {
			r.Label, r.Cells = "", l.cells
		}
		t.Rows = append(t.Rows, r)
	}
	return t, true
}

func empty(cells []TableCell) bool {
	for _, c := range cells {
		if c.Text != "" {
			return false
		}
	}
	return true
}

// Column returns the header of a row's cell, or "" if that is unknown.
func (t Table) Column(r TableRow, cell int) string {
	if i := t.index(r, cell); i >= 0 {
		return t.Columns[i]
	}
	return ""
}

// index returns the column of a row's cell, or -1 if that is unknown. The first cell of a row
// without a label is below the caption.
func (t Table) index(r TableRow, cell int) int {
	if r.Label == "" && len(r.Cells) > len(t.Columns) {
		cell--
	}
	if cell < 0 || cell >= len(t.Columns) {
		return -1
	}
	return cell
}

var quarterForm = regexp.MustCompile(`(?i)\b(first|second|third|fourth|1\s?st|2\s?nd|3\s?rd|4\s?th)\s+(?:fiscal\s+)?quarter\b|\bQ\s?([1-4])\b`)

// quarterOf returns the only quarter that a text names, 1 to 4, or 0 if there is none or several.
func quarterOf(s string) int {
	out := 0
	for _, m := range quarterForm.FindAllStringSubmatch(s, -1) {
		n := strings.Index("1234", m[2]) + 1
		if m[2] == "" {
			switch strings.ToLower(m[1])[:1] {
			case "f":
				n = 1
				if strings.EqualFold(m[1], "fourth") {
					n = 4
				}
			case "s", "2":
				n = 2
			case "t", "3":
				n = 3
			case "1":
				n = 1
			case "4":
				n = 4
			}
		}
		if out != 0 && out != n {
			return 0
		}
		out = n
	}
	return out
}
