package parse

// PPTX: the slides of a presentation in their order, each with its title, lists, tables and notes.
// A slide is a page.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

func parsePPTX(d *document, data []byte) error {
	c, err := openContainer(data, d.limits)
	if err != nil {
		return err
	}
	slides, err := slideParts(d, c)
	if err != nil {
		return err
	}
	if len(slides) > d.limits.Pages {
		return fail(schema.ReasonTooLarge, "The presentation has %d slides; the limit is %d.", len(slides), d.limits.Pages)
	}
	d.out.Pages = len(slides)
	for i, name := range slides {
		if err := parseSlide(d, c, name, i+1); err != nil {
			return err
		}
	}
	// PowerPoint writes a default title when the author gives none.
	if t, has := coreTitle(d, c); has && !strings.EqualFold(t, "PowerPoint Presentation") {
		d.out.Title = t
	}
	return d.err
}

// slideParts returns the names of the slides' parts in the order of the presentation.
func slideParts(d *document, c *container) ([]string, error) {
	root, err := readXML(d, c, "ppt/presentation.xml")
	if err != nil {
		return nil, err
	}
	targets, err := readRelations(d, c, "ppt/presentation.xml", "/slide", false)
	if err != nil {
		return nil, err
	}
	var slides []string
	if list := root.child("p:presentation", "p:sldIdLst"); list != nil {
		for _, e := range list.children {
			if name := targets[e.relation()]; name != "" && c.has(name) && !slices.Contains(slides, name) {
				slides = append(slides, name)
			}
		}
	}
	if len(slides) == 0 && (root.child("p:presentation") == nil || len(targets) > 0) {
		return nil, fail(schema.ReasonBroken, "The presentation does not say which slides it has (ppt/presentation.xml). Save it again and send that.")
	}
	return slides, nil
}

// relation returns the relationship id that an element refers to, as opposed to the element's own
// id.
func (e *element) relation() string {
	for _, a := range e.attrs {
		if a.Name.Local == "id" && strings.Contains(a.Name.Space, "relationships") {
			return a.Value
		}
	}
	return ""
}

func parseSlide(d *document, c *container, name string, number int) error {
	root, err := readXML(d, c, name)
	if err != nil {
		return err
	}
	slide := root.child("p:sld")
	if slide == nil {
		d.warn(fmt.Sprintf("Slide %d has no content that can be read.", number))
		return d.err
	}
	if show := slide.attr("show"); show == "0" || show == "false" {
		return d.err
	}
	s := slideWalker{d: d, page: number}
	if s.links, err = readRelations(d, c, name, "/hyperlink", true); err != nil {
		return err
	}
	tree := slide.child("p:cSld", "p:spTree")
	title := s.title(tree)
	if title == "" {
		title = fmt.Sprintf("Slide %d", number)
	} else if d.out.Title == "" && number == 1 {
		d.out.Title = title
	}
	before := len(d.out.Blocks)
	d.add(schema.BlockHeading, 1, title, number)
	s.shapes(tree)
	if err := s.notes(c, name); err != nil {
		return err
	}
	// A slide without text would only consist of its number; leave it out.
	if len(d.out.Blocks) == before+1 && title == fmt.Sprintf("Slide %d", number) {
		d.size -= len(d.out.Blocks[before].Text)
		d.out.Blocks = d.out.Blocks[:before]
	}
	return d.err
}

// slideWalker walks the shapes of a slide.
type slideWalker struct {
	d     *document
	page  int
	links map[string]string
}

// placeholder returns the type of a shape's placeholder: "title", "body", "sldNum" and so on.
func placeholder(shape *element) string {
	if ph := shape.child("p:nvSpPr", "p:nvPr", "p:ph"); ph != nil {
		if kind := ph.attr("type"); kind != "" {
			return kind
		}
		return "body"
	}
	return ""
}

func isTitle(kind string) bool { return kind == "title" || kind == "ctrTitle" }

// title returns the text of the slide's title.
func (s *slideWalker) title(tree *element) string {
	if tree == nil {
		return ""
	}
	for _, shape := range tree.children {
		if shape.name == "p:sp" && isTitle(placeholder(shape)) {
			var parts []string
			for _, p := range paragraphsOf(shape.child("p:txBody")) {
				parts = append(parts, s.text(p))
			}
			return squeeze(strings.Join(parts, " "))
		}
	}
	return ""
}

func (s *slideWalker) shapes(tree *element) {
	if tree == nil {
		return
	}
	for _, shape := range tree.children {
		if s.d.err != nil {
			return
		}
		switch shape.name {
		case "p:sp":
			switch kind := placeholder(shape); {
			case isTitle(kind), kind == "sldNum", kind == "dt", kind == "ftr", kind == "hdr":
			default:
				s.body(shape.child("p:txBody"))
			}
		case "p:grpSp":
			s.shapes(shape)
		case "p:graphicFrame":
			s.graphic(shape)
		case "x:AlternateContent":
			s.shapes(shape.child("x:Choice"))
		}
	}
}

// body adds the paragraphs of a text body: a single one as a paragraph, several as a list with
// their levels.
func (s *slideWalker) body(body *element) {
	var lines []string
	for _, p := range paragraphsOf(body) {
		text := squeeze(s.text(p))
		if text == "" {
			continue
		}
		level := 0
		if pr := p.child("a:pPr"); pr != nil {
			level, _ = strconv.Atoi(pr.attr("lvl"))
		}
		lines = append(lines, strings.Repeat("  ", min(max(level, 0), 8))+"- "+text)
	}
	if len(lines) == 1 {
		s.d.add(schema.BlockParagraph, 0, strings.TrimPrefix(strings.TrimSpace(lines[0]), "- "), s.page)
		return
	}
	s.d.add(schema.BlockList, 0, strings.Join(lines, "\n"), s.page)
}

func paragraphsOf(body *element) []*element {
	var out []*element
	if body != nil {
		for _, p := range body.children {
			if p.name == "a:p" {
				out = append(out, p)
			}
		}
	}
	return out
}

// text returns a paragraph's text and notes its links.
func (s *slideWalker) text(p *element) string {
	var b strings.Builder
	for _, r := range p.children {
		switch r.name {
		case "a:br":
			b.WriteByte(' ')
		case "a:r", "a:fld":
			if link := r.child("a:rPr", "a:hlinkClick"); link != nil {
				if target := s.links[link.relation()]; target != "" {
					s.d.link(target)
				}
			}
			if t := r.child("a:t"); t != nil {
				b.WriteString(t.text)
			}
		}
	}
	return b.String()
}

// graphic adds the table in a frame.
func (s *slideWalker) graphic(frame *element) {
	table := frame.child("a:graphic", "a:graphicData", "a:tbl")
	if table == nil {
		return
	}
	var rows [][]string
	for _, tr := range table.children {
		if tr.name != "a:tr" {
			continue
		}
		var row []string
		for _, tc := range tr.children {
			if tc.name != "a:tc" {
				continue
			}
			var parts []string
			for _, p := range paragraphsOf(tc.child("a:txBody")) {
				parts = append(parts, s.text(p))
			}
			row = append(row, squeeze(strings.Join(parts, " ")))
		}
		rows = append(rows, row)
	}
	var header []string
	if len(rows) > 1 && isHeader(rows[0]) {
		header, rows = rows[0], rows[1:]
	}
	s.d.linkedTable(header, rows, nil, s.page)
}

// notes adds the speaker's notes of a slide.
func (s *slideWalker) notes(c *container, slide string) error {
	parts, err := readRelations(s.d, c, slide, "/notesSlide", false)
	if err != nil {
		return err
	}
	for _, name := range parts { // at most one
		root, err := readXML(s.d, c, name)
		if err != nil {
			return err
		}
		tree := root.child("p:notes", "p:cSld", "p:spTree")
		if tree == nil {
			continue
		}
		for _, shape := range tree.children {
			if shape.name == "p:sp" && placeholder(shape) == "body" {
				s.links = nil
				s.body(shape.child("p:txBody"))
			}
		}
	}
	return s.d.err
}
