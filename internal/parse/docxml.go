package parse

// OOXML as a tree of the elements that carry text. Elements of other vocabularies, and those that a
// reader of the document does not see, are left out while the XML is read.

import (
	"encoding/xml"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/sluice-rag/sluice/schema"
	"golang.org/x/net/html/charset"
)

// element is one element; text elements hold their text.
type element struct {
	name     string
	attrs    []xml.Attr
	children []*element
	text     string
}

func (e *element) attr(name string) string {
	for _, a := range e.attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// child returns the first child with the name, or nil. Several names are a path to a descendant.
func (e *element) child(path ...string) *element {
	for _, name := range path {
		var next *element
		if e != nil {
			for _, c := range e.children {
				if c.name == name {
					next = c
					break
				}
			}
		}
		e = next
	}
	return e
}

// val returns the w:val of the child at path, "" when there is none.
func (e *element) val(path ...string) string {
	c := e.child(path...)
	if c == nil {
		return ""
	}
	return c.attr("val")
}

// on reports whether the property at path is present and not turned off.
func (e *element) on(path ...string) bool {
	c := e.child(path...)
	if c == nil {
		return false
	}
	v := c.attr("val")
	return v != "0" && v != "false" && v != "off"
}

// skipped are elements that contain deleted text, alternative content, or codes.
var skipped = map[string]bool{
	"del": true, "moveFrom": true, "delText": true, "instrText": true, "delInstrText": true, "x:Fallback": true,
	"rPrChange": true, "pPrChange": true, "sectPr": true, "tblPrChange": true, "tcPrChange": true, "trPrChange": true,
}

// named returns the name by which this package knows an element: Word's own plain, math text as
// "m:t", a drawing's as "a:t", a presentation's with "p:", the others with "x:".
func named(n xml.Name) string {
	switch {
	case strings.Contains(n.Space, "wordprocessingml"):
		return n.Local
	case strings.HasSuffix(n.Space, "/math"):
		return "m:" + n.Local
	case strings.HasSuffix(n.Space, "/drawingml/2006/main"), strings.HasSuffix(n.Space, "/drawingml/main"): // the latter in strict files
		return "a:" + n.Local
	case strings.HasSuffix(n.Space, "/presentationml/2006/main"), strings.HasSuffix(n.Space, "/presentationml/main"):
		return "p:" + n.Local
	}
	return "x:" + n.Local
}

// vocabulary says how the elements of a format become a tree.
type vocabulary struct {
	named   func(xml.Name) string
	skipped map[string]bool
	// mixed keeps text as children without a name, between the other elements.
	mixed bool
}

var officeOpen = vocabulary{named: named, skipped: skipped}

// readXML reads a part of OOXML into a tree. It returns nil if the part does not exist.
func readXML(d *document, c *container, name string) (*element, error) {
	return readTree(d, c, name, officeOpen)
}

// readTree reads a part into a tree. It returns nil if the part does not exist.
func readTree(d *document, c *container, name string, v vocabulary) (*element, error) {
	r, err := c.open(name)
	if err != nil || r == nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	dec := xml.NewDecoder(r)
	dec.CharsetReader = charset.NewReaderLabel
	root := &element{}
	stack := []*element{root}
	depth := 0
	for n := 0; ; n++ {
		if n%4096 == 0 && !d.withinTime() {
			return nil, d.err
		}
		token, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			var e *Error
			if errors.As(err, &e) {
				return nil, e
			}
			return nil, fail(schema.ReasonBroken, "Part %s of the document is not well-formed XML. Save the document again and send that.", name).because(err)
		}
		top := stack[len(stack)-1]
		switch t := token.(type) {
		case xml.StartElement:
			if depth++; depth > d.limits.Nesting {
				return nil, d.tooDeep()
			}
			e := &element{name: v.named(t.Name)}
			if len(t.Attr) > 0 {
				e.attrs = t.Copy().Attr
			}
			stack = append(stack, e)
			if !v.skipped[e.name] {
				top.children = append(top.children, e)
			}
		case xml.EndElement:
			depth--
			stack = stack[:len(stack)-1]
		case xml.CharData:
			switch {
			case v.mixed:
				top.children = append(top.children, &element{text: string(t)})
			case top.name == "t" || top.name == "m:t" || top.name == "a:t" || top.name == "x:title":
				top.text += string(t)
			}
		}
	}
	return root, nil
}

// readRelations returns the targets of a part's relationships of a kind, by relationship id: either
// the external targets, or the names of parts.
func readRelations(d *document, c *container, part, kind string, external bool) (map[string]string, error) {
	root, err := readXML(d, c, path.Join(path.Dir(part), "_rels", path.Base(part)+".rels"))
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	list := root.child("x:Relationships")
	if list == nil {
		return out, nil
	}
	for _, r := range list.children {
		if !strings.HasSuffix(r.attr("Type"), kind) || (r.attr("TargetMode") == "External") != external {
			continue
		}
		target := r.attr("Target")
		if !external {
			if !strings.HasPrefix(target, "/") {
				target = path.Join(path.Dir(part), target)
			}
			target = strings.TrimPrefix(path.Clean(target), "/")
		}
		out[r.attr("Id")] = target
	}
	return out, nil
}

// coreTitle returns the title in a document's properties.
func coreTitle(d *document, c *container) (title string, has bool) {
	core, err := readXML(d, c, "docProps/core.xml")
	if t := core.child("x:coreProperties", "x:title"); err == nil && t != nil {
		return squeeze(t.text), true
	}
	return "", false
}
