package parse

// Tables, sheets and slides of OpenDocument files. A cell or row may declare that it is repeated a
// million times: empty ones are not expanded, and the limits apply to the others.

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

// table adds a table of a text or a slide. A table with a single cell is treated as a frame around
// paragraphs.
func (w *odfWalker) table(table *element) {
	var rows, links [][]string
	var only *element
	cells, headed := 0, false
	_ = w.eachRow(table, func(row *element, inHeader bool, times int) error {
		line, err := w.row(row, "table "+quoteName(table))
		if err != nil {
			return err
		}
		own := w.d.takeLinks()
		for _, c := range row.children {
			if c.name == "table:table-cell" {
				cells++
				only = c
			}
		}
		if len(line) == 0 {
			return nil
		}
		if len(rows)+times > w.d.limits.Rows {
			return fail(schema.ReasonTooLarge, "The table %s has more than %d rows. Split it, or raise the limit.", quoteName(table), w.d.limits.Rows)
		}
		headed = headed || inHeader && len(rows) == 0
		for range times {
			rows, links = append(rows, line), append(links, own)
		}
		return nil
	})
	if w.d.err != nil {
		return
	}
	if cells == 1 && only.attr("number-columns-repeated") == "" {
		w.blocks(only)
		w.flushList()
		return
	}
	var header []string
	if len(rows) > 1 && (headed || isHeader(rows[0])) {
		w.d.link(links[0]...)
		header, rows, links = rows[0], rows[1:], links[1:]
	}
	w.d.linkedTable(header, rows, links, w.page)
}

func quoteName(table *element) string { return strconv.Quote(table.attr("name")) }

// eachRow calls give for the rows of a table, with the number of their repetitions. An error of
// give becomes the document's error.
func (w *odfWalker) eachRow(table *element, yield func(row *element, inHeader bool, times int) error) error {
	var walk func(e *element, inHeader bool) error
	walk = func(e *element, inHeader bool) error {
		for _, c := range e.children {
			if !w.d.withinTime() {
				return w.d.err
			}
			var err error
			switch c.name {
			case "table:table-header-rows":
				err = walk(c, true)
			case "table:table-rows", "table:table-row-group":
				err = walk(c, inHeader)
			case "table:table-row":
				err = yield(c, inHeader, repeated(c, "number-rows-repeated"))
			}
			if err != nil {
				if w.d.err == nil {
					w.d.err = err
				}
				return w.d.err
			}
		}
		return nil
	}
	return walk(table, false)
}

// repeated returns how often a cell or a row is repeated.
func repeated(e *element, attr string) int {
	n, err := strconv.Atoi(e.attr(attr))
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// row returns the cells of a row without the empty ones at its end. where names the table in
// errors.
func (w *odfWalker) row(row *element, where string) ([]string, error) {
	var cells []string
	empty, size := 0, 0
	for _, c := range row.children {
		if c.name != "table:table-cell" && c.name != "table:covered-table-cell" {
			continue
		}
		times, s := repeated(c, "number-columns-repeated"), ""
		if c.name == "table:table-cell" {
			s = w.value(c)
		}
		if s == "" {
			empty = min(empty+min(times, w.d.limits.Cells+1), w.d.limits.Cells+1)
			continue
		}
		if len(s) > w.d.limits.LineBytes {
			return nil, fail(schema.ReasonTooLarge, "A cell of %s has %s; the limit is %s.", where, schema.FormatBytes(int64(len(s))), schema.FormatBytes(int64(w.d.limits.LineBytes)))
		}
		if times > w.d.limits.Cells || len(cells)+empty+times > w.d.limits.Cells {
			return nil, fail(schema.ReasonTooLarge, "A row of %s has more than %d cells. Split it, or raise the limit.", where, w.d.limits.Cells)
		}
		if size += times * len(s); size > w.d.limits.TextBytes {
			return nil, w.d.tooMuchText()
		}
		for range empty {
			cells = append(cells, "")
		}
		empty = 0
		for range times {
			cells = append(cells, s)
		}
	}
	return cells, nil
}

// value returns the text that a cell shows, or its value if it shows none.
func (w *odfWalker) value(c *element) string {
	if s := w.cell(c); s != "" {
		return s
	}
	switch c.attr("value-type") {
	case "float", "percentage", "currency":
		return c.attr("value")
	case "date":
		return c.attr("date-value")
	case "time":
		return c.attr("time-value")
	case "boolean":
		return c.attr("boolean-value")
	case "string":
		return squeeze(c.attr("string-value"))
	}
	return ""
}

// sheets adds the visible sheets of a workbook.
func (w *odfWalker) sheets(book *element) error {
	if book == nil {
		return fail(schema.ReasonBroken, "The workbook has no sheets (content.xml). Save it again and send that.")
	}
	seen := 0
	for _, table := range book.children {
		if table.name != "table:table" || w.hides("table", table.attr("style-name")) {
			continue
		}
		s := sheet{d: w.d, name: table.attr("name")}
		err := w.eachRow(table, func(row *element, _ bool, times int) error {
			cells, err := w.row(row, "sheet "+quoteName(table))
			if err != nil {
				return err
			}
			if len(cells) == 0 {
				times = 1
			}
			if times > w.d.limits.Rows || seen+times > w.d.limits.Rows {
				return fail(schema.ReasonTooLarge, "The workbook has more than %d rows, the last of them in sheet %s. Split it, or raise the limit.", w.d.limits.Rows, quoteName(table))
			}
			seen += times
			for range times {
				if !s.row(cells) {
					return w.d.err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		s.end()
	}
	return w.d.err
}

// slides adds the visible slides of a presentation. A slide is a page.
func (w *odfWalker) slides(show *element) error {
	if show == nil {
		return fail(schema.ReasonBroken, "The presentation has no slides (content.xml). Save it again and send that.")
	}
	for _, page := range show.children {
		if page.name != "drawing:page" {
			continue
		}
		if w.page++; w.page > w.d.limits.Pages {
			return fail(schema.ReasonTooLarge, "The presentation has more than %d slides. Split it, or raise the limit.", w.d.limits.Pages)
		}
		w.d.out.Pages = w.page
		if !w.hides("drawing-page", page.attr("style-name")) {
			w.slide(page)
		}
		if w.d.err != nil {
			return w.d.err
		}
	}
	return w.d.err
}

// slide adds a slide's title, its content, and the speaker's notes.
func (w *odfWalker) slide(page *element) {
	number := fmt.Sprintf("Slide %d", w.page)
	title := ""
	for _, c := range page.children {
		if c.attr("class") == "title" && title == "" {
			title = w.cell(c)
		}
	}
	if title != "" && w.page == 1 {
		w.title = title
	}
	before := len(w.d.out.Blocks)
	if title == "" {
		title = number
	}
	w.d.add(schema.BlockHeading, 1, title, w.page)
	for _, c := range page.children {
		w.shape(c)
	}
	// A slide without text would only consist of its number; leave it out.
	if len(w.d.out.Blocks) == before+1 && title == number {
		w.d.size -= len(w.d.out.Blocks[before].Text)
		w.d.out.Blocks = w.d.out.Blocks[:before]
	}
}

// shape adds the text of a shape on a slide.
func (w *odfWalker) shape(c *element) {
	switch class := c.attr("class"); {
	case w.d.err != nil, class == "title", class == "header", class == "footer", class == "date-time", class == "page-number", class == "page":
	case c.name == "drawing:frame":
		w.frame(c)
	case c.name == "drawing:g", c.name == "presentation:notes":
		for _, in := range c.children {
			w.shape(in)
		}
	case strings.HasPrefix(c.name, "drawing:"):
		w.blocks(c)
	}
}
