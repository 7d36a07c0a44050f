package parse

// RTF: paragraphs, headings by style or outline level, lists, tables and footnotes. Pictures, page
// headers and deleted text are left out.

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/sluice-rag/sluice/schema"
)

func parseRTF(d *document, data []byte) error {
	r := rtfReader{d: d, in: rtfTokens{data: data}, fonts: map[int]int{}, styles: map[int]int{}, page: defaultCodePage,
		body: &rtfText{}, state: rtfState{skip: 1}}
	if err := r.read(); err != nil {
		return err
	}
	if len(r.stack) > 0 {
		d.warn("The file is cut off; what could be read of it was taken.")
	}
	r.flushText()
	r.endParagraph()
	r.endTable()
	for i, note := range r.notes {
		d.paragraph(fmt.Sprintf("[%d] %s", i+1, note))
	}
	return d.err
}

// destination is where the text of a group goes.
type destination int

const (
	toBody destination = iota
	toNowhere
	toFonts
	toStyles
	toInfo
	toTitle
	toNote
	toMarker // the marker of a list item
	toField  // the instruction of a field
)

// destinations maps the control words that begin a destination. Other destinations that are marked
// as optional are left out.
var destinations = map[string]destination{
	"fonttbl": toFonts, "stylesheet": toStyles, "info": toInfo, "title": toTitle, "footnote": toNote,
	"listtext": toMarker, "pntext": toMarker, "fldinst": toField,
	"shpinst": toBody, "shptxt": toBody, "fldrslt": toBody,
	"colortbl": toNowhere, "pict": toNowhere, "object": toNowhere, "header": toNowhere, "headerl": toNowhere, "headerr": toNowhere,
	"headerf": toNowhere, "footer": toNowhere, "footerl": toNowhere, "footerr": toNowhere, "footerf": toNowhere, "sp": toNowhere,
	"nonshppict": toNowhere, "annotation": toNowhere, "atnid": toNowhere, "atnauthor": toNowhere, "xe": toNowhere, "tc": toNowhere,
	"revtbl": toNowhere, "listtable": toNowhere, "themedata": toNowhere, "bkmkstart": toNowhere, "bkmkend": toNowhere,
}

// rtfState is the state that a group inherits and that is restored at its end.
type rtfState struct {
	to      destination
	font    int
	skip    int // number of fallback characters after \u
	hidden  bool
	deleted bool
	note    *rtfText // the paragraph that the footnote of this group interrupts
}

// rtfText is a paragraph under construction.
type rtfText struct {
	b       strings.Builder
	outline int // heading level; 0: none
	marker  string
	list    bool
	level   int
	inTable bool
	links   []string
}

// rtfReader turns tokens into blocks.
type rtfReader struct {
	d      *document
	in     rtfTokens
	state  rtfState
	stack  []rtfState
	page   int         // code page of the file
	fonts  map[int]int // code pages by font
	styles map[int]int // outline level by style

	raw    []byte // bytes of a code page that are not decoded yet
	high   rune   // first half of a surrogate pair
	toSkip int

	font   int // the current entry of the font table
	style  int
	name   strings.Builder
	field  strings.Builder
	body   *rtfText
	notes  []string
	cells  []string
	rows   [][]string
	tokens int
}

func (r *rtfReader) read() error {
	for {
		t, ok := r.in.next()
		if !ok {
			return r.d.err
		}
		if r.tokens++; r.tokens%4096 == 0 && !r.d.withinTime() {
			return r.d.err
		}
		if err := r.token(t); err != nil {
			return err
		}
		if r.d.err != nil {
			return r.d.err
		}
		if len(r.stack) == 0 && t.kind == rtfClose {
			return nil // text after the end of the document is ignored
		}
	}
}

func (r *rtfReader) token(t rtfToken) error {
	switch t.kind {
	case rtfOpen:
		r.flushText()
		if r.stack = append(r.stack, r.state); len(r.stack) > r.d.limits.Nesting {
			return r.d.tooDeep()
		}
		r.state.note = nil
		r.toSkip = 0
	case rtfClose:
		r.flushText()
		r.toSkip = 0
		if len(r.stack) == 0 {
			return fail(schema.ReasonBroken, "The RTF closes a group that it did not open. Save it again and send that.")
		}
		r.closeGroup()
	case rtfByte:
		if r.toSkip > 0 {
			r.toSkip--
			return nil
		}
		r.raw = append(r.raw, t.char)
		if len(r.raw) >= 4096 && t.char < 0x80 {
			r.flushText()
		}
	case rtfWord:
		if t.word == "'" {
			return r.token(rtfToken{kind: rtfByte, char: byte(t.number)})
		}
		if r.toSkip > 0 {
			r.toSkip--
			return nil
		}
		if t.word == "u" && t.has {
			r.unicode(t.number)
			return nil
		}
		r.flushText()
		r.word(t)
	}
	return nil
}

// unicode adds a character by its number, which is written as a signed one. The fallback bytes
// after it, for readers that do not support Unicode, are skipped.
func (r *rtfReader) unicode(n int) {
	high := r.high
	r.flushText()
	r.toSkip = r.state.skip
	c := rune(n)
	if n < 0 {
		c = rune(n + 1<<16)
	}
	switch {
	case utf16.IsSurrogate(c) && c < 0xDC00:
		r.high = c
	case utf16.IsSurrogate(c):
		if high != 0 {
			r.write(string(utf16.DecodeRune(high, c)))
		}
	default:
		r.write(string(c))
	}
}

// flushText decodes the pending bytes.
func (r *rtfReader) flushText() {
	r.high = 0
	if len(r.raw) == 0 {
		return
	}
	page, ok := r.fonts[r.state.font]
	if !ok {
		page = r.page
	}
	r.write(decodePage(r.raw, page))
	r.raw = r.raw[:0]
}

// write adds text to the current destination.
func (r *rtfReader) write(s string) {
	if r.state.hidden || r.state.deleted {
		return
	}
	switch r.state.to {
	case toBody, toNote:
		if r.body.b.Len()+len(s) > r.d.limits.TextBytes {
			r.d.err = r.d.tooMuchText()
			return
		}
		r.body.b.WriteString(s)
	case toMarker:
		r.body.marker += s[:min(len(s), 100)]
	case toField:
		if r.field.Len() < 2*maxLinkBytes {
			r.field.WriteString(s)
		}
	case toStyles, toTitle:
		if r.name.Len() < 1000 {
			r.name.WriteString(s)
		}
		if name, _, ended := strings.Cut(r.name.String(), ";"); ended && r.state.to == toStyles {
			r.nameStyle(name)
		}
	}
}

// nameStyle ends an entry of the style sheet. A heading's style is recognised by its name.
func (r *rtfReader) nameStyle(name string) {
	r.name.Reset()
	name = strings.ToLower(squeeze(name))
	if level, found := strings.CutPrefix(name, "heading "); found {
		if n, err := strconv.Atoi(level); err == nil && n >= 1 && n <= 9 {
			r.styles[r.style] = n
		}
	} else if name == "title" {
		r.styles[r.style] = 1
	}
	r.style = 0
}

func (r *rtfReader) closeGroup() {
	from := r.state
	r.state = r.stack[len(r.stack)-1]
	r.stack = r.stack[:len(r.stack)-1]
	switch {
	case from.note != nil:
		r.notes = append(r.notes, squeeze(r.body.b.String()))
		r.body = from.note
		fmt.Fprintf(&r.body.b, "[%d]", len(r.notes))
	case from.to == toTitle && r.state.to != toTitle:
		r.d.out.Title = squeeze(r.name.String())
		r.name.Reset()
	case from.to == toField && r.state.to != toField:
		r.link(r.field.String())
		r.field.Reset()
	}
}

// link notes the target of a field HYPERLINK "https://...".
func (r *rtfReader) link(instruction string) {
	rest, found := strings.CutPrefix(strings.TrimSpace(instruction), "HYPERLINK")
	if !found {
		return
	}
	if parts := strings.SplitN(rest, `"`, 3); len(parts) == 3 {
		r.body.links = append(r.body.links, parts[1])
	}
}

// endParagraph adds the current paragraph.
func (r *rtfReader) endParagraph() {
	p := r.body
	s := squeeze(p.b.String())
	p.b.Reset()
	marker, links := squeeze(p.marker), p.links
	p.marker, p.links = "", nil
	if p.inTable {
		r.d.link(links...)
		if s != "" { // a paragraph within a cell
			p.b.WriteString(s + " ")
		}
		return
	}
	if s == "" {
		return
	}
	r.endTable()
	r.d.link(links...)
	switch {
	case p.outline > 0:
		r.d.heading(p.outline, strings.TrimSpace(marker+" "+s))
	case p.list || marker != "":
		line := strings.Repeat("  ", min(p.level, 8)) + itemMarker(marker) + " " + s
		if n := len(r.d.out.Blocks); n > 0 && r.d.out.Blocks[n-1].Kind == schema.BlockList && len(r.d.out.Blocks[n-1].Text) < maxListBytes {
			r.d.extend(line)
			return
		}
		r.d.add(schema.BlockList, 0, line, 0)
	default:
		r.d.paragraph(s)
	}
}

// maxListBytes bounds a list's block in bytes: a longer list continues in another block.
const maxListBytes = 16 << 10

// itemMarker returns numbers and letters, such as "a.", as they are, and "-" for bullets.
func itemMarker(s string) string {
	if strings.ContainsAny(s, "0123456789") || len(s) > 1 && s[0] < 0x80 {
		return s
	}
	return "-"
}

func (r *rtfReader) endCell() {
	if len(r.cells) < r.d.limits.Cells {
		r.cells = append(r.cells, squeeze(r.body.b.String()))
	} else {
		r.d.err = fail(schema.ReasonTooLarge, "A row of a table has more than %d cells.", r.d.limits.Cells)
	}
	r.body.b.Reset()
	r.body.marker = ""
}

func (r *rtfReader) endRow() {
	if len(r.cells) > 0 {
		r.rows = append(r.rows, r.cells)
	}
	r.cells = nil
	if len(r.rows) > r.d.limits.Rows {
		r.d.err = fail(schema.ReasonTooLarge, "A table has more than %d rows. Split it, or raise the limit.", r.d.limits.Rows)
	}
}

// endTable adds the rows collected so far.
func (r *rtfReader) endTable() {
	r.endRow()
	rows := r.rows
	r.rows = nil
	if len(rows) == 0 {
		return
	}
	var header []string
	if len(rows) > 1 && isHeader(rows[0]) {
		header, rows = rows[0], rows[1:]
	}
	r.d.linkedTable(header, rows, nil, 0)
}

// decodePage decodes bytes of a code page.
func decodePage(raw []byte, page int) string {
	if e := codePages[page]; e != nil {
		if s, err := e.NewDecoder().Bytes(raw); err == nil {
			return string(s)
		}
	}
	return string(bytes.ToValidUTF8(raw, []byte("\uFFFD")))
}
