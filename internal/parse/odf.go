package parse

// OpenDocument: texts, workbooks and presentations, whose content is in one part, content.xml.
// Element names are those of ODF 1.3 (OASIS), part 3.

import (
	"encoding/xml"
	"io"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

const odfSpace = "urn:oasis:names:tc:opendocument:xmlns:"

// openDocument names elements as the ODF specification does: "text:p", "table:table".
var openDocument = vocabulary{
	mixed: true,
	named: func(n xml.Name) string {
		if rest, ok := strings.CutPrefix(n.Space, odfSpace); ok {
			prefix, _, _ := strings.Cut(rest, ":")
			return prefix + ":" + n.Local
		}
		if n.Space == "http://purl.org/dc/elements/1.1/" {
			return "dc:" + n.Local
		}
		return "x:" + n.Local
	},
	skipped: map[string]bool{
		"text:tracked-changes": true, // what was deleted
		"office:annotation":    true, "office:scripts": true, "office:forms": true, "office:event-listeners": true, "text:sequence-decls": true,
		"text:table-of-content": true, // repeats the headings
		"text:hidden-text":      true, "text:hidden-paragraph": true, "text:ruby-text": true, "drawing:object": true, "drawing:object-ole": true,
		"svg-compatible:title": true, "svg-compatible:desc": true, "table:dde-links": true, "text:variable-decls": true, "text:user-field-decls": true,
		"table:tracked-changes": true, "table:shapes": true, "office:settings": true,
	},
}

// detectODF returns the OpenDocument format of a container, from its declared media type or from
// the body element of its content.
func detectODF(c *container) (format, error) {
	encrypted := fail(schema.ReasonEncrypted, "The document is encrypted. Remove its password and send it again.")
	if c.has("encrypted-package") {
		return "", encrypted
	}
	// Only the manifest says whether a part is encrypted.
	manifest, err := c.head("META-INF/manifest.xml", 1<<20)
	if err != nil {
		return "", err
	}
	if strings.Contains(manifest, "encryption-data") {
		return "", encrypted
	}
	kind, err := c.head("mimetype", 200)
	if err != nil {
		return "", err
	}
	content := ""
	if kind == "" {
		if content, err = c.head("content.xml", 1<<20); err != nil {
			return "", err
		}
	}
	for _, f := range []struct {
		format format
		kind   string
		body   string
	}{{formatODT, "text", "text"}, {formatODS, "spreadsheet", "spreadsheet"}, {formatODP, "presentation", "presentation"}} {
		// The media types of templates and masters begin with that of their format.
		if strings.HasPrefix(strings.TrimSpace(kind), "application/vnd.oasis.opendocument."+f.kind) || strings.Contains(content, "<office:"+f.body+">") || strings.Contains(content, "<office:"+f.body+" ") {
			return f.format, nil
		}
	}
	return "", unsupported("an OpenDocument file that is not a text, workbook or presentation")
}

// head returns the first most bytes of a part, or "" if the part does not exist.
func (c *container) head(name string, most int64) (string, error) {
	r, err := c.open(name)
	if err != nil || r == nil {
		return "", err
	}
	defer func() { _ = r.Close() }()
	b, err := io.ReadAll(io.LimitReader(r, most))
	return string(b), err
}

func parseODF(d *document, f format, data []byte) error {
	c, err := openContainer(data, d.limits)
	if err != nil {
		return err
	}
	w := odfWalker{d: d, styles: map[string]odfStyle{}, lists: map[string]odfList{}}
	named, err := readTree(d, c, "styles.xml", openDocument)
	if err != nil {
		return err
	}
	root, err := readTree(d, c, "content.xml", openDocument)
	if err != nil {
		return err
	}
	for _, part := range []*element{named.child("office:document-styles"), root.child("office:document-content")} {
		w.readStyles(part.child("office:styles"))
		w.readStyles(part.child("office:automatic-styles"))
	}
	body := root.child("office:document-content", "office:body")
	if body == nil {
		return fail(schema.ReasonBroken, "The document has no body (content.xml). Save it again and send that.")
	}
	meta, err := readTree(d, c, "meta.xml", openDocument)
	if err != nil {
		return err
	}
	if t := meta.child("office:document-meta", "office:meta", "dc:title"); t != nil {
		d.out.Title = squeeze(t.allText())
	}
	switch f {
	case formatODS:
		err = w.sheets(body.child("office:spreadsheet"))
	case formatODP:
		err = w.slides(body.child("office:presentation"))
	default:
		if text := body.child("office:text"); text != nil {
			w.blocks(text)
		}
	}
	if err != nil {
		return err
	}
	w.flushList()
	w.addNotes()
	if d.out.Title == "" {
		d.out.Title = w.title
	}
	return d.err
}

// allText returns the text below an element of a mixed tree.
func (e *element) allText() string {
	var b strings.Builder
	var collect func(e *element)
	collect = func(e *element) {
		b.WriteString(e.text)
		for _, c := range e.children {
			collect(c)
		}
	}
	collect(e)
	return b.String()
}

// odfStyle is the used part of a style.
type odfStyle struct {
	parent string
	list   string
	hidden bool
}

// odfList holds the levels of a list that are numbered.
type odfList map[string]bool

// maxStyles bounds how many parents of a style are followed, since they may form a cycle.
const maxStyles = 20

func (w *odfWalker) readStyles(list *element) {
	if list == nil {
		return
	}
	for _, s := range list.children {
		switch s.name {
		case "style:style":
			st := odfStyle{parent: s.attr("parent-style-name"), list: s.attr("list-style-name")}
			for _, p := range s.children {
				switch p.name {
				case "style:text-properties":
					st.hidden = st.hidden || p.attr("display") == "none"
				case "style:table-properties":
					st.hidden = st.hidden || p.attr("display") == "false"
				case "style:drawing-page-properties":
					st.hidden = st.hidden || p.attr("visibility") == "hidden"
				}
			}
			w.styles[s.attr("family")+" "+s.attr("name")] = st
		case "text:list-style":
			levels := odfList{}
			for _, l := range s.children {
				levels[l.attr("level")] = l.name == "text:list-level-style-number" && l.attr("num-format") != ""
			}
			w.lists[s.attr("name")] = levels
		}
	}
}

// hides reports whether a style of a family, or one of its parents, hides text.
func (w *odfWalker) hides(family, name string) bool {
	for range maxStyles {
		s, ok := w.styles[family+" "+name]
		if !ok {
			return false
		}
		if s.hidden {
			return true
		}
		name = s.parent
	}
	return false
}

// isTitleStyle reports whether a paragraph's style is Title or descends from it.
func (w *odfWalker) isTitleStyle(name string) bool {
	for range maxStyles {
		if name == "Title" {
			return true
		}
		if name = w.styles["paragraph "+name].parent; name == "" {
			return false
		}
	}
	return false
}
