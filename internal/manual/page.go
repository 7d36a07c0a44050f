package manual

// This file renders a page as HTML, and splits it into sections for the search.

import (
	"bytes"
	"fmt"
	"html/template"
	"io/fs"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// page is a rendered page.
type page struct {
	name     string
	title    string
	body     template.HTML
	sections []chapter
	links    []string // as written in the page
}

// chapter is the text below a heading, up to the next heading.
type chapter struct {
	heading
	page  string // name
	title string // of the page
	text  string
}

// heading is the heading of a section.
type heading struct {
	ID    string
	Text  string
	Level int
}

// longPage is how many second-level headings a page needs to list them.
const longPage = 5

// parts returns the second-level headings of a long page.
func (p *page) parts() []heading {
	var out []heading
	for _, s := range p.sections {
		if s.Level == 2 {
			out = append(out, s.heading)
		}
	}
	if len(out) < longPage {
		return nil
	}
	return out
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

func readPage(files fs.FS, name string) (*page, error) {
	source, err := fs.ReadFile(files, name+".md")
	if err != nil {
		return nil, fmt.Errorf("read page %s of the manual: %w", name, err)
	}
	root := markdown.Parser().Parse(text.NewReader(source))
	p := &page{name: name, title: name}
	p.split(root, source)
	p.relink(root)
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, source, root); err != nil {
		return nil, fmt.Errorf("render page %s of the manual: %w", name, err)
	}
	// The renderer escapes everything that is not Markdown, including HTML.
	p.body = template.HTML(b.String()) //nolint:gosec // of our own pages
	return p, nil
}

// split splits the page into sections.
func (p *page) split(root ast.Node, source []byte) {
	var b strings.Builder
	end := func() {
		if n := len(p.sections); n > 0 {
			p.sections[n-1].text = strings.Join(strings.Fields(b.String()), " ")
		}
		b.Reset()
	}
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		h, is := n.(*ast.Heading)
		if !is {
			write(&b, n, source)
			continue
		}
		end()
		var words strings.Builder
		write(&words, h, source)
		s := chapter{heading: heading{Text: strings.TrimSpace(words.String()), Level: h.Level}, page: p.name}
		if id, there := h.AttributeString("id"); there {
			s.ID = string(id.([]byte))
		}
		if len(p.sections) == 0 {
			p.title = s.Text
		}
		s.title = p.title
		p.sections = append(p.sections, s)
	}
	end()
}

// write appends the text of a node.
func write(b *strings.Builder, n ast.Node, source []byte) {
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			if n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(source))
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			lines := n.Lines()
			for i := range lines.Len() {
				line := lines.At(i)
				b.Write(line.Value(source))
			}
		}
		return ast.WalkContinue, nil
	})
}

// relink changes links to pages and pictures to their served addresses. Files outside the
// documentation are not served: links to them are replaced by their text.
func (p *page) relink(root ast.Node) {
	var outside []*ast.Link
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			to := string(n.Destination)
			p.links = append(p.links, to)
			if strings.HasPrefix(to, "../") {
				outside = append(outside, n)
				break
			}
			n.Destination = []byte(served(to))
		case *ast.Image:
			p.links = append(p.links, string(n.Destination))
			n.Destination = []byte(served(string(n.Destination)))
		}
		return ast.WalkContinue, nil
	})
	for _, link := range outside {
		parent := link.Parent()
		for c := link.FirstChild(); c != nil; {
			next := c.NextSibling()
			parent.InsertBefore(parent, link, c)
			c = next
		}
		parent.RemoveChild(parent, link)
	}
}

// served returns the served address of a link of a page.
func served(to string) string {
	file, anchor, has := strings.Cut(to, "#")
	if has {
		anchor = "#" + anchor
	}
	switch {
	case strings.Contains(file, "://") || strings.HasPrefix(file, "/"), file == "":
		return to
	case file == start+".md":
		return Prefix + anchor
	case strings.HasSuffix(file, ".md"):
		return Prefix + "/" + strings.TrimSuffix(file, ".md") + anchor
	}
	return Prefix + "/" + to
}
