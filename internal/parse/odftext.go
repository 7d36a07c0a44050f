package parse

// The text of OpenDocument files: paragraphs, headings, lists, and the notes that
// they refer to.

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

// odfWalker walks the body of a document.
type odfWalker struct {
	d      *document
	page   int // number of the slide in a presentation
	styles map[string]odfStyle
	lists  map[string]odfList
	notes  []*element // in the order of their marks

	list      []string // lines of the list under construction
	listLinks []string
	title     string
}

// blocks adds the blocks below e.
func (w *odfWalker) blocks(e *element) {
	for _, c := range e.children {
		if w.d.err != nil {
			return
		}
		switch c.name {
		case "text:h":
			level, _ := strconv.Atoi(c.attr("outline-level"))
			w.paragraph(c, min(max(level, 1), 9))
		case "text:p":
			level := 0
			if w.page == 0 && w.isTitleStyle(c.attr("style-name")) {
				level = 1
			}
			w.paragraph(c, level)
		case "text:list":
			w.lines(c, "", 0)
			w.flushList()
		case "table:table":
			w.flushList()
			w.table(c)
		case "text:section":
			if c.attr("display") != "none" {
				w.blocks(c)
			}
		case "drawing:frame":
			w.frame(c)
		case "":
		default:
			w.blocks(c) // indexes, groups, shapes
		}
	}
}

// frame adds the first content of a frame that has text; the others are alternatives of it.
func (w *odfWalker) frame(frame *element) {
	for _, c := range frame.children {
		switch c.name {
		case "drawing:text-box":
			w.blocks(c)
			return
		case "table:table":
			w.flushList()
			w.table(c)
			return
		}
	}
}

func (w *odfWalker) flushList() {
	if len(w.list) > 0 {
		w.d.link(w.listLinks...)
		w.d.add(schema.BlockList, 0, strings.Join(w.list, "\n"), w.page)
		w.list, w.listLinks = nil, nil
	}
}

// paragraph adds a paragraph, or a heading if level is above 0, and the text boxes anchored in it.
func (w *odfWalker) paragraph(p *element, level int) {
	w.flushList()
	var t runText
	if !w.hides("paragraph", p.attr("style-name")) {
		w.text(p, &t)
	}
	s := squeeze(t.b.String())
	w.d.link(t.links...)
	switch {
	case level > 0:
		if w.title == "" && p.name == "text:p" {
			w.title = s
		}
		w.d.add(schema.BlockHeading, level, s, w.page)
	default:
		w.d.add(schema.BlockParagraph, 0, s, w.page)
	}
	for _, box := range t.boxes {
		w.frame(box)
	}
}

// text collects the text of a paragraph.
func (w *odfWalker) text(e *element, t *runText) {
	for _, c := range e.children {
		switch c.name {
		case "":
			t.b.WriteString(c.text)
		case "text:s", "text:tab", "text:line-break":
			t.b.WriteByte(' ')
		case "text:soft-page-break":
		case "text:note":
			if body := c.child("text:note-body"); body != nil {
				w.notes = append(w.notes, body)
				fmt.Fprintf(&t.b, "[%d]", len(w.notes))
			}
		case "text:span":
			if !w.hides("text", c.attr("style-name")) {
				w.text(c, t)
			}
		case "text:a":
			t.links = append(t.links, c.attr("href"))
			w.text(c, t)
		case "drawing:frame":
			t.boxes = append(t.boxes, c)
		default:
			w.text(c, t)
		}
	}
}

// lines adds the lines of a list. style is that of the enclosing list; level counts from 0.
func (w *odfWalker) lines(list *element, style string, level int) {
	if own := list.attr("style-name"); own != "" {
		style = own
	}
	numbered := w.lists[style][strconv.Itoa(level+1)]
	n := 0
	for _, item := range list.children {
		if item.name != "text:list-item" && item.name != "text:list-header" {
			continue
		}
		marker := "-"
		if numbered && item.name == "text:list-item" {
			n++
			if start, err := strconv.Atoi(item.attr("start-value")); err == nil {
				n = start
			}
			marker = strconv.Itoa(n) + "."
		}
		for _, c := range item.children {
			if w.d.err != nil {
				return
			}
			indent := strings.Repeat("  ", min(level, 8))
			switch c.name {
			case "text:list":
				w.lines(c, style, level+1)
			case "text:h": // LibreOffice stores numbered headings as list items
				outline, _ := strconv.Atoi(c.attr("outline-level"))
				w.paragraph(c, min(max(outline, 1), 9))
			case "text:p":
				var t runText
				if !w.hides("paragraph", c.attr("style-name")) {
					w.text(c, &t)
				}
				if s := squeeze(t.b.String()); s != "" {
					w.list = append(w.list, indent+marker+" "+s)
					w.listLinks = append(w.listLinks, t.links...)
					marker = " " // for the other paragraphs of the item
				}
				for _, box := range t.boxes {
					w.frame(box)
				}
			case "table:table":
				w.flushList()
				w.table(c)
			}
		}
	}
}

// cell returns the text of a cell or a note, nested tables and lists included.
func (w *odfWalker) cell(e *element) string {
	var parts []string
	var collect func(e *element)
	collect = func(e *element) {
		for _, c := range e.children {
			switch c.name {
			case "text:p", "text:h":
				if w.hides("paragraph", c.attr("style-name")) {
					continue
				}
				var t runText
				w.text(c, &t)
				w.d.link(t.links...)
				if s := squeeze(t.b.String()); s != "" {
					parts = append(parts, s)
				}
				for _, box := range t.boxes {
					collect(box)
				}
			case "":
			default:
				collect(c)
			}
		}
	}
	collect(e)
	return strings.Join(parts, " ")
}

// addNotes adds the notes that the text refers to. A note may refer to another one.
func (w *odfWalker) addNotes() {
	for i := 0; i < len(w.notes) && w.d.err == nil; i++ {
		if s := w.cell(w.notes[i]); s != "" {
			w.d.add(schema.BlockParagraph, 0, fmt.Sprintf("[%d] %s", i+1, s), 0)
		}
	}
}
