package parse

// CSV: rows become lines of a table with its header.

import (
	"encoding/csv"
	"errors"
	"io"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/schema"
)

func parseCSV(d *document, s string, delimiter rune) error {
	r := reader(s, delimiter)
	t := tableWriter{d: d}
	first := true
	for n := 1; ; n++ {
		row, err := r.Read()
		if err == io.EOF {
			break
		}
		line, _ := r.FieldPos(0)
		switch {
		case err != nil:
			var at *csv.ParseError
			if errors.As(err, &at) {
				line = at.StartLine
			}
			return fail(schema.ReasonBroken, "Line %d is not well-formed CSV: %v.", line, errors.Unwrap(err)).because(err)
		case n > d.limits.Rows:
			return fail(schema.ReasonTooLarge, "The table has more than %d rows. Split it, or raise the limit.", d.limits.Rows)
		case len(row) > d.limits.Cells:
			return fail(schema.ReasonTooLarge, "Line %d has %d cells; the limit is %d.", line, len(row), d.limits.Cells)
		}
		for i, cell := range row {
			if len(cell) > d.limits.LineBytes {
				return fail(schema.ReasonTooLarge, "Cell %d of line %d has %s; the limit is %s. A quote that is never closed can be the cause.",
					i+1, line, schema.FormatBytes(int64(len(cell))), schema.FormatBytes(int64(d.limits.LineBytes)))
			}
		}
		if joinCells(row) == "" {
			continue
		}
		if first {
			first = false
			if isHeader(row) {
				t.header(append([]string(nil), row...))
				continue
			}
			t.header(nil)
		}
		if !t.row(row) {
			return d.err
		}
	}
	t.flush()
	return d.err
}

func reader(s string, delimiter rune) *csv.Reader {
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(s, "\uFEFF")))
	r.Comma = delimiter
	r.LazyQuotes = true
	r.FieldsPerRecord = -1
	r.ReuseRecord = true
	r.TrimLeadingSpace = true
	return r
}

// isHeader guesses whether the first row names the columns: at least half of its cells are filled,
// and each filled cell has a letter, at most 100 bytes, and another text than the others.
func isHeader(row []string) bool {
	seen := make(map[string]bool)
	named := 0
	for _, c := range row {
		c = squeeze(c)
		if c == "" {
			continue
		}
		if len(c) > 100 || seen[c] || strings.IndexFunc(c, unicode.IsLetter) < 0 {
			return false
		}
		seen[c] = true
		named++
	}
	return named > 0 && named*2 >= len(row)
}

// sniffDelimiter returns the delimiter under which the first rows have the same
// number of cells, at least two, and that number; 0 when there is none.
func sniffDelimiter(s string) (delimiter rune, columns int) {
	sample := s[:min(len(s), 64<<10)]
	if len(sample) < len(s) {
		sample = sample[:strings.LastIndexByte(sample, '\n')+1]
	}
	best := 0
	for _, c := range []rune{'\t', ';', ',', '|'} {
		rows, cells, same := 0, 0, 0
		r := reader(sample, c)
		for rows < 200 {
			row, err := r.Read()
			if err != nil {
				break
			}
			if rows++; rows == 1 {
				cells = len(row)
			}
			if len(row) == cells {
				same++
			}
		}
		// Prose has commas too, but never the same number in each line.
		if cells < 2 || rows < 2 || same*10 < rows*9 {
			continue
		}
		if score := same * cells; score > best {
			best, delimiter, columns = score, c, cells
		}
	}
	return delimiter, columns
}
