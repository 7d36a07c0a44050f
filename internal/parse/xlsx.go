package parse

// XLSX: the visible sheets of a workbook, each a heading with its tables. Values are as Excel shows
// them; formulas have their last calculated value.

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/schema"
	"github.com/xuri/excelize/v2"
)

func parseXLSX(d *document, data []byte) error {
	if _, err := openContainer(data, d.limits); err != nil {
		return err
	}
	// With equal limits, excelize does not write sheets to temporary files.
	book, err := excelize.OpenReader(bytes.NewReader(data), excelize.Options{
		UnzipSizeLimit: d.limits.ExpandedBytes, UnzipXMLSizeLimit: d.limits.ExpandedBytes})
	if err != nil {
		if strings.Contains(err.Error(), "unzip size exceeds") {
			return fail(schema.ReasonTooLarge, "The container expands to more than %s.", schema.FormatBytes(d.limits.ExpandedBytes)).because(err)
		}
		return fail(schema.ReasonBroken, "The workbook is damaged. Save it again and send that.").because(err)
	}
	defer func() { _ = book.Close() }()
	shortFormats(d, book)
	if props, err := book.GetDocProps(); err == nil {
		d.out.Title = squeeze(props.Title)
	}
	rows := 0
	for _, name := range book.GetSheetList() {
		if visible, err := book.GetSheetVisible(name); err != nil || !visible {
			continue
		}
		if err := parseSheet(d, book, name, &rows); err != nil {
			return err
		}
	}
	return d.err
}

// longestFormat is the most characters of a number format in Excel.
const longestFormat = 255

// shortFormats removes number formats that are longer than Excel allows, so that their numbers are
// shown as they are: parsing a format takes time that grows with the square of its length.
func shortFormats(d *document, book *excelize.File) {
	if book.Styles == nil || book.Styles.NumFmts == nil {
		return
	}
	warned := false
	for _, f := range book.Styles.NumFmts.NumFmt {
		if f == nil || len(f.FormatCode) <= 4*longestFormat {
			continue
		}
		f.FormatCode = "General"
		if !warned {
			warned = true
			d.warn(fmt.Sprintf("Numbers whose format has more than %d characters are given without it.", longestFormat))
		}
	}
}

// cellsOfRow returns a row's cells. An index out of range in a damaged workbook becomes an error.
func cellsOfRow(rows *excelize.Rows) (cells []string, err error) {
	defer func() {
		if p := recover(); p != nil {
			cells, err = nil, fmt.Errorf("its cells: %v", p)
		}
	}()
	return rows.Columns()
}

// parseSheet adds a sheet; seen counts the rows of the whole workbook.
func parseSheet(d *document, book *excelize.File, name string, seen *int) error {
	rows, err := book.Rows(name)
	if err != nil {
		d.warn(fmt.Sprintf("Sheet %q has no cells that can be read.", name)) // a chart sheet
		return d.err
	}
	defer func() { _ = rows.Close() }()
	s := sheet{d: d, name: name}
	for rows.Next() {
		if *seen++; *seen > d.limits.Rows {
			return fail(schema.ReasonTooLarge, "The workbook has more than %d rows. Split it, or raise the limit.", d.limits.Rows)
		}
		cells, err := cellsOfRow(rows)
		if err != nil {
			return brokenSheet(name, err)
		}
		if len(cells) > d.limits.Cells {
			return fail(schema.ReasonTooLarge, "A row of sheet %q has %d cells; the limit is %d.", name, len(cells), d.limits.Cells)
		}
		for i, c := range cells {
			if len(c) > d.limits.LineBytes {
				return fail(schema.ReasonTooLarge, "Cell %d of a row of sheet %q has %s; the limit is %s.", i+1, name,
					schema.FormatBytes(int64(len(c))), schema.FormatBytes(int64(d.limits.LineBytes)))
			}
		}
		if !s.row(cells) {
			return d.err
		}
	}
	if err := rows.Error(); err != nil {
		return brokenSheet(name, err)
	}
	s.end()
	return d.err
}

func brokenSheet(name string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return fail(schema.ReasonBroken, "Sheet %q is damaged. Save the workbook again and send that.", name).because(err)
}

// sheet is a sheet under construction: rows with one cell become paragraphs, rows with more become
// tables. An empty row ends a table if other columns follow.
type sheet struct {
	d           *document
	name        string
	named       bool
	table       *tableWriter
	header      []string // header of a table without rows yet, whose rows may begin further left
	first, last int      // columns of the table's first row
	gap         bool
}

// row adds a row and reports whether to continue.
func (s *sheet) row(cells []string) bool {
	first, last, filled := extent(cells)
	if filled == 0 {
		s.gap = true
		return s.d.withinTime()
	}
	if !s.named {
		s.named = true
		s.d.heading(1, s.name)
	}
	gap := s.gap
	s.gap = false
	if s.table != nil && gap && (filled == 1 || first != s.first || last != s.last) {
		s.end()
	}
	if s.table == nil {
		if filled == 1 {
			return s.d.paragraph(cells[first])
		}
		s.table, s.first, s.last = &tableWriter{d: s.d}, first, last
		if isHeader(cells[first : last+1]) {
			s.header = append([]string(nil), cells...)
			return s.d.withinTime()
		}
		s.table.header(nil)
	}
	if s.header != nil {
		s.first = min(s.first, first)
		s.table.header(s.header[s.first:])
		s.header = nil
	}
	return s.table.row(cells[min(s.first, first):])
}

func (s *sheet) end() {
	if s.table == nil {
		return
	}
	if s.header != nil {
		s.table.header(s.header[s.first:])
	}
	s.table.flush()
	s.table, s.header = nil, nil
}

// extent returns the first and the last column with text, and the number of columns with text.
func extent(cells []string) (first, last, filled int) {
	for i, c := range cells {
		if squeeze(c) == "" {
			continue
		}
		if filled == 0 {
			first = i
		}
		last = i
		filled++
	}
	return first, last, filled
}
