package convert

// This file reads tables with tab-separated cells, as Python's csv module and pandas write them. A
// cell that begins with a quotation mark ends at the next single one, and may contain tabs, line
// breaks and doubled quotation marks. Quotation marks elsewhere stand for themselves.

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// lineReader reads lines of bounded length.
type lineReader struct {
	in   *bufio.Reader
	n    int // of the last line, from 1
	long []byte
}

// next returns the next line with its end, valid until the next call; io.EOF after the last line.
func (l *lineReader) next() ([]byte, error) {
	l.n++
	line, err := l.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		l.long = append(l.long[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(l.long) > maxRecord {
				return nil, errLong
			}
			line, err = l.in.ReadSlice('\n')
			l.long = append(l.long, line...)
		}
		line = l.long
	}
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil
	}
	return line, err
}

// tableReader reads the rows of a table.
type tableReader struct {
	lines lineReader
	line  int // where the last row began
	text  []byte
	ends  []int // of the cells, as offsets in text
}

type csvState int

const (
	atStart csvState = iota // of a cell
	plain
	quoted
	behindQuote // after a quotation mark in a quoted cell: its end, or the first of two
)

// next returns the next row that is not blank; io.EOF after the last row.
func (t *tableReader) next() ([]string, error) {
	for {
		cells, err := t.row()
		if err != nil || len(cells) != 1 || cells[0] != "" {
			return cells, err
		}
	}
}

func (t *tableReader) row() ([]string, error) {
	t.text, t.ends, t.line = t.text[:0], t.ends[:0], t.lines.n+1
	at := atStart
	for {
		line, err := t.lines.next()
		switch {
		case errors.Is(err, io.EOF) && at == quoted:
			t.lines.n = t.line
			return nil, errors.New("a quotation mark opens a cell that does not end")
		case err != nil:
			return nil, err
		case len(t.text) > maxRecord:
			t.lines.n = t.line
			return nil, fmt.Errorf("%w: is a quotation mark open?", errLong)
		}
		if at = t.scan(line, at); at != quoted {
			return t.cells(), nil
		}
	}
}

// scan adds the cells of a line, and returns the state at its end. If it is quoted the row
// continues.
func (t *tableReader) scan(line []byte, at csvState) csvState {
	for i := 0; i < len(line); {
		c := line[i]
		switch {
		case at == quoted:
			j := bytes.IndexByte(line[i:], '"')
			if j < 0 {
				t.text = append(t.text, line[i:]...)
				return quoted
			}
			t.text = append(t.text, line[i:i+j]...)
			i, at = i+j+1, behindQuote
		case at == behindQuote && c == '"':
			t.text = append(t.text, c)
			i, at = i+1, quoted
		case at == atStart && c == '"':
			i, at = i+1, quoted
		case c == '\t':
			t.ends = append(t.ends, len(t.text))
			i, at = i+1, atStart
		case len(bytes.TrimRight(line[i:], "\r\n")) == 0:
			i = len(line)
		default:
			j := bytes.IndexByte(line[i:], '\t')
			if j < 0 {
				j = len(bytes.TrimRight(line[i:], "\r\n"))
			}
			t.text = append(t.text, line[i:i+j]...)
			i, at = i+j, plain
		}
	}
	t.ends = append(t.ends, len(t.text))
	return plain
}

func (t *tableReader) cells() []string {
	text, begin := string(t.text), 0
	out := make([]string, len(t.ends))
	for i, end := range t.ends {
		out[i], begin = text[begin:end], end
	}
	return out
}

// rows calls one with every row of a table with a header, with access to cells by column. It
// returns an error if the header lacks one of columns, or if a row is longer than the header. A
// shorter row is an error if strict is set; otherwise its last cells are empty.
func rows(in *input, strict bool, columns []string, one func(line int, cell func(column string) string) error) error {
	t := &tableReader{lines: lineReader{in: in.Reader}}
	fail := func(err error) error { return fmt.Errorf("%s: line %d: %w", in.name, t.line, err) }
	header, err := t.next()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: is empty", in.name)
	}
	if err != nil {
		return fail(err)
	}
	at := map[string]int{}
	for i, name := range header {
		at[strings.TrimSpace(name)] = i
	}
	for _, c := range columns {
		if _, ok := at[c]; !ok {
			return fail(fmt.Errorf("the header has no column %s: %s", c, strings.Join(header, ", ")))
		}
	}
	for {
		cells, err := t.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && (len(cells) > len(header) || strict && len(cells) < len(header)) {
			err = fmt.Errorf("has %d columns, and the header %d", len(cells), len(header))
		}
		if err == nil {
			err = one(t.line, func(column string) string {
				if i, ok := at[column]; ok && i < len(cells) {
					return strings.TrimSpace(cells[i])
				}
				return ""
			})
		}
		if err != nil {
			return fail(err)
		}
	}
}

// header returns the first row of a table.
func header(text []byte) []string {
	t := &tableReader{lines: lineReader{in: bufio.NewReader(bytes.NewReader(text))}}
	cells, err := t.next()
	if err != nil {
		return nil
	}
	return slices.Clone(cells)
}
