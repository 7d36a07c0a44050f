package parse

// DOCX: the body of a Word document, with headings from its styles, numbers from its numbering,
// tables, and footnotes. Deleted text and page headers and footers are left out; inserted text is
// included.

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

func parseDOCX(d *document, data []byte) error {
	c, err := openContainer(data, d.limits)
	if err != nil {
		return err
	}
	w := docxWalker{d: d, notes: map[string]*element{}, marks: map[string]int{}}
	if w.styles, err = readStyles(d, c); err != nil {
		return err
	}
	if w.numbering, err = readNumbering(d, c); err != nil {
		return err
	}
	for _, part := range []string{"footnote", "endnote"} {
		root, err := readXML(d, c, "word/"+part+"s.xml")
		if err != nil {
			return err
		}
		if list := root.child(part + "s"); list != nil {
			for _, n := range list.children {
				if n.name == part && n.attr("type") == "" {
					w.notes[part+n.attr("id")] = n
				}
			}
		}
	}
	name := "word/document.xml"
	if !c.has(name) {
		name = "word/document2.xml"
	}
	if w.links, err = readRelations(d, c, name, "/hyperlink", true); err != nil {
		return err
	}
	root, err := readXML(d, c, name)
	if err != nil {
		return err
	}
	body := root.child("document", "body")
	if body == nil {
		return fail(schema.ReasonBroken, "The document has no body (word/document.xml). Save it again and send that.")
	}
	w.blocks(body)
	w.flushList()
	w.addNotes()
	if d.out.Title, _ = coreTitle(d, c); d.out.Title == "" {
		d.out.Title = w.title
	}
	return d.err
}

// docxWalker walks the body.
type docxWalker struct {
	d         *document
	styles    map[string]style
	numbering *numbering
	notes     map[string]*element // "footnote2" -> its element
	cited     []string            // keys of notes in the order of their references
	marks     map[string]int      // and their numbers
	list      []string            // lines of the list under construction
	listLinks []string            // and the links in them
	links     map[string]string   // targets by relationship id
	title     string
}

// blocks adds the paragraphs and tables below e.
func (w *docxWalker) blocks(e *element) {
	for _, c := range e.children {
		if w.d.err != nil {
			return
		}
		switch c.name {
		case "p":
			w.paragraph(c)
		case "tbl":
			w.flushList()
			w.table(c)
		default:
			w.blocks(c) // content controls, inserted ranges
		}
	}
}

func (w *docxWalker) flushList() {
	if len(w.list) > 0 {
		w.d.link(w.listLinks...)
		w.d.add(schema.BlockList, 0, strings.Join(w.list, "\n"), 0)
		w.list, w.listLinks = nil, nil
	}
}

func (w *docxWalker) paragraph(p *element) {
	var t runText
	w.text(p, &t)
	s := squeeze(t.b.String())
	st := w.styles[p.val("pPr", "pStyle")]
	numID, level := st.numID, st.numLevel
	if num := p.child("pPr", "numPr"); num != nil {
		if v := num.val("numId"); v != "" {
			numID = v
		}
		level, _ = strconv.Atoi(num.val("ilvl"))
	}
	if s != "" {
		marker := w.numbering.next(numID, level)
		outline := st.outline
		if v := p.val("pPr", "outlineLvl"); v != "" {
			if n, err := strconv.Atoi(v); err == nil && n < 9 {
				outline = n + 1
			}
		}
		switch {
		case outline > 0:
			w.flushList()
			if st.title && w.title == "" {
				w.title = s
			}
			w.d.link(t.links...)
			w.d.heading(outline, strings.TrimSpace(numberOnly(marker)+" "+s))
		case marker != "":
			w.list = append(w.list, strings.Repeat("  ", min(level, 8))+marker+" "+s)
			w.listLinks = append(w.listLinks, t.links...)
		default:
			w.flushList()
			w.d.link(t.links...)
			w.d.paragraph(s)
		}
	}
	for _, box := range t.boxes {
		w.flushList()
		w.blocks(box)
	}
}

// numberOnly returns a list marker unless it is a bullet, which headings do not keep.
func numberOnly(marker string) string {
	if marker == "-" {
		return ""
	}
	return marker
}

// runText is the text of a paragraph and the text boxes anchored in it.
type runText struct {
	b     strings.Builder
	boxes []*element
	links []string
}

// text collects the text below e.
func (w *docxWalker) text(e *element, t *runText) {
	for _, c := range e.children {
		switch c.name {
		case "t", "m:t":
			t.b.WriteString(c.text)
		case "tab", "br", "cr", "ptab":
			t.b.WriteByte(' ')
		case "noBreakHyphen":
			t.b.WriteByte('-')
		case "sym":
			if n, err := strconv.ParseUint(c.attr("char"), 16, 32); err == nil && n >= 0x20 && (n < 0xE000 || n > 0xF8FF) {
				t.b.WriteRune(rune(n))
			}
		case "footnoteReference", "endnoteReference":
			key := strings.TrimSuffix(c.name, "Reference") + c.attr("id")
			if w.notes[key] == nil {
				continue
			}
			if w.marks[key] == 0 {
				w.cited = append(w.cited, key)
				w.marks[key] = len(w.cited)
			}
			fmt.Fprintf(&t.b, "[%d]", w.marks[key])
		case "r":
			if c.on("rPr", "vanish") {
				continue
			}
			w.text(c, t)
		case "txbxContent":
			t.boxes = append(t.boxes, c)
		case "pPr", "rPr", "tbl":
		case "hyperlink":
			if target := w.links[c.attr("id")]; target != "" {
				t.links = append(t.links, target)
			}
			w.text(c, t)
		default:
			w.text(c, t)
		}
	}
}

// table adds a table. A table with a single cell is treated as a frame around paragraphs.
func (w *docxWalker) table(tbl *element) {
	var rows, links [][]string
	cells := 0
	var only *element
	var collect func(e *element)
	collect = func(e *element) {
		for _, c := range e.children {
			switch c.name {
			case "tr":
				if c.child("trPr", "del") != nil {
					continue
				}
				var row []string
				for _, tc := range cellsOf(c) {
					only = tc
					cells++
					s := w.cell(tc)
					if merged := tc.child("tcPr", "vMerge"); merged != nil && merged.attr("val") != "restart" && len(rows) > 0 && len(row) < len(rows[len(rows)-1]) {
						s = rows[len(rows)-1][len(row)] // text of the cell above, which spans this row, too
					}
					row = append(row, s)
					// A cell that spans several columns is padded with empty cells, so that the
					// others keep their columns.
					span, _ := strconv.Atoi(tc.val("tcPr", "gridSpan"))
					for range min(span, 64) - 1 {
						row = append(row, "")
					}
				}
				rows, links = append(rows, row), append(links, w.d.takeLinks())
			case "tblPr", "tblGrid":
			default:
				collect(c)
			}
		}
	}
	collect(tbl)
	if cells == 1 {
		w.blocks(only)
		w.flushList()
		return
	}
	var header []string
	if len(rows) > 1 && (tbl.headed() || isHeader(rows[0])) {
		w.d.link(links[0]...)
		header, rows, links = rows[0], rows[1:], links[1:]
	}
	w.d.linkedTable(header, rows, links, 0)
}

// headed reports whether the first row is marked to repeat as a header.
func (e *element) headed() bool {
	tr := e.child("tr")
	return tr != nil && tr.on("trPr", "tblHeader")
}

func cellsOf(tr *element) []*element {
	var out []*element
	for _, c := range tr.children {
		switch c.name {
		case "tc":
			out = append(out, c)
		case "trPr", "tblPrEx":
		default:
			out = append(out, cellsOf(c)...)
		}
	}
	return out
}

// cell returns the text of a cell, nested tables included.
func (w *docxWalker) cell(tc *element) string {
	var parts []string
	var collect func(e *element)
	collect = func(e *element) {
		for _, c := range e.children {
			switch c.name {
			case "p":
				var t runText
				w.text(c, &t)
				w.d.link(t.links...)
				if s := squeeze(t.b.String()); s != "" {
					parts = append(parts, s)
				}
				for _, box := range t.boxes {
					collect(box)
				}
			case "tcPr":
			default:
				collect(c)
			}
		}
	}
	collect(tc)
	return strings.Join(parts, " ")
}

// addNotes adds the notes that the text refers to, in the order of their references. A note may
// refer to another one.
func (w *docxWalker) addNotes() {
	for i := 0; i < len(w.cited) && w.d.err == nil; i++ {
		if s := w.cell(w.notes[w.cited[i]]); s != "" {
			w.d.paragraph(fmt.Sprintf("[%d] %s", i+1, s))
		}
	}
}
