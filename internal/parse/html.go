package parse

// HTML: the main content of a page, or its whole body if the main content cannot be determined.

import (
	"strconv"
	"strings"

	"codeberg.org/readeck/go-readability/v2"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// mainShare is the least share of the page's text that its main content must have. Below it, the
// text left out is likely to matter, and the whole body is used.
const mainShare = 0.4

func parseHTML(d *document, s string) error {
	root, err := html.Parse(strings.NewReader(s))
	if err != nil {
		// The parser's only error on a string is its bound on open elements.
		return d.tooDeep().because(err)
	}
	if depth(root) > d.limits.Nesting {
		return d.tooDeep()
	}
	title := squeeze(innerText(find(root, atom.Title)))
	full := &document{ctx: d.ctx, limits: d.limits}
	body := find(root, atom.Body)
	if body == nil {
		body = root
	}
	walkHTML(full, body)
	if full.err != nil {
		return full.err
	}

	// Readability rewrites the tree, so it runs last.
	content := &document{ctx: d.ctx, limits: d.limits}
	if article, err := readability.FromDocument(root, nil); err == nil && article.Node != nil {
		walkHTML(content, article.Node)
		if t := squeeze(article.Title()); t != "" {
			title = t
		}
	}
	chosen := full
	if content.err == nil && float64(content.size) >= mainShare*float64(full.size) {
		chosen = content
		restoreHeading(chosen, full, title)
	}
	d.out.Title = title
	d.out.Blocks = chosen.out.Blocks
	d.size = chosen.size
	return d.err
}

// restoreHeading puts the page's own first heading back, which readability removes when it repeats
// the title.
func restoreHeading(content, full *document, title string) {
	blocks := content.out.Blocks
	if title == "" || len(blocks) > 0 && blocks[0].Kind == schema.BlockHeading && strings.EqualFold(blocks[0].Text, title) {
		return
	}
	for _, b := range full.out.Blocks {
		if b.Kind == schema.BlockHeading && b.Level == 1 && sameTitle(b.Text, title) {
			for _, existing := range blocks {
				if existing.Kind == schema.BlockHeading && existing.Text == b.Text {
					return
				}
			}
			content.out.Blocks = append([]schema.Block{b}, blocks...)
			return
		}
	}
}

// sameTitle reports whether a heading is the page's title, apart from the site's name ("Page -
// Site").
func sameTitle(heading, title string) bool {
	h, t := strings.ToLower(heading), strings.ToLower(title)
	return strings.Contains(t, h) || strings.Contains(h, t)
}

// depth returns the nesting of the tree below n, without recursion.
func depth(n *html.Node) int {
	deepest, at := 0, 0
	for c := n; c != nil; {
		if c.FirstChild != nil {
			c = c.FirstChild
			if at++; at > deepest {
				deepest = at
			}
			continue
		}
		for c != n && c.NextSibling == nil {
			c = c.Parent
			at--
		}
		if c == n {
			break
		}
		c = c.NextSibling
	}
	return deepest
}

// tag returns an element's kind by its name: readability renames elements and does not change their
// atoms.
func tag(n *html.Node) atom.Atom { return atom.Lookup([]byte(n.Data)) }

// find returns the first element of the kind below n, or nil.
func find(n *html.Node, kind atom.Atom) *html.Node {
	for c := range n.Descendants() {
		if c.Type == html.ElementNode && tag(c) == kind {
			return c
		}
	}
	return nil
}

// htmlWalker turns a tree into blocks: inline text is collected until a block begins or ends.
type htmlWalker struct {
	d      *document
	inline strings.Builder
}

func walkHTML(d *document, n *html.Node) {
	w := htmlWalker{d: d}
	w.children(n)
	w.flush()
}

func (w *htmlWalker) flush() {
	s := squeeze(w.inline.String())
	w.inline.Reset()
	if s != "" {
		w.d.paragraph(s)
	}
}

func (w *htmlWalker) children(n *html.Node) {
	for c := n.FirstChild; c != nil && w.d.err == nil; c = c.NextSibling {
		w.node(c)
	}
}

func (w *htmlWalker) node(n *html.Node) {
	switch n.Type {
	case html.TextNode:
		w.inline.WriteString(n.Data)
		return
	case html.ElementNode:
	default:
		return
	}
	if hidden(n) {
		return
	}
	switch tag(n) {
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		w.flush()
		w.linksBelow(n)
		w.d.heading(int(n.Data[1]-'0'), innerText(n))
	case atom.Ul, atom.Ol, atom.Menu:
		w.flush()
		w.linksBelow(n)
		w.d.add(schema.BlockList, 0, strings.Join(listLines(n, 0), "\n"), 0)
	case atom.Table:
		w.flush()
		w.table(n)
	case atom.Pre, atom.Listing, atom.Xmp:
		w.flush()
		w.linksBelow(n)
		w.d.add(schema.BlockCode, 0, tidyLines(rawText(n)), 0)
	case atom.Br, atom.Wbr:
		w.inline.WriteByte(' ')
	case atom.Hr:
		w.flush()
	case atom.Dt, atom.Dd:
		w.flush()
		w.children(n)
		w.flush()
	default:
		if !block(n) {
			w.linkOf(n)
			w.children(n)
			return
		}
		w.flush()
		w.children(n)
		w.flush()
	}
}

// table adds a data table as rows, and a layout table as its cells' content.
func (w *htmlWalker) table(n *html.Node) {
	var (
		rows   [][]string
		links  [][]string
		header []string
		nested bool
		grid   = tableGrid{most: w.d.limits.Cells}
	)
	for tr := range n.Descendants() {
		if tr.Type == html.ElementNode && tr != n {
			switch tag(tr) {
			case atom.Table, atom.H1, atom.H2, atom.H3, atom.Ul, atom.Ol, atom.Pre:
				nested = true
			case atom.Caption:
				w.d.paragraph(innerText(tr))
			}
		}
	}
	if nested {
		for c := range n.Descendants() {
			if c.Type == html.ElementNode && (tag(c) == atom.Td || tag(c) == atom.Th) && ancestor(c, atom.Table) == n {
				w.children(c)
				w.flush()
			}
		}
		return
	}
	for tr := range n.Descendants() {
		if tr.Type != html.ElementNode || tag(tr) != atom.Tr || hidden(tr) {
			continue
		}
		cells, heads := grid.row(tr)
		if header == nil && len(rows) == 0 && (heads > 1 && heads == len(cells) || heads > 0 && ancestor(tr, atom.Thead) != nil) {
			header = cells
			continue
		}
		before := w.d.takeLinks()
		w.linksBelow(tr)
		rows, links = append(rows, cells), append(links, w.d.takeLinks())
		w.d.link(before...)
	}
	w.d.linkedTable(header, rows, links, 0)
}

// tableGrid assigns the cells of a table to columns. A cell may span several columns and several
// rows.
type tableGrid struct {
	most  int // limit of cells in a row
	below []spanning
}

// spanning is a cell that continues in the rows below.
type spanning struct {
	text string
	rows int
}

// row returns a row's cells, and how many of them are headings. A cell that spans columns is
// repeated in each of them, unless it is the first, which names the row. A cell that spans rows is
// repeated in each of them.
func (g *tableGrid) row(tr *html.Node) (cells []string, heads int) {
	above := func() {
		for len(cells) < len(g.below) && g.below[len(cells)].rows > 0 {
			b := &g.below[len(cells)]
			b.rows--
			cells = append(cells, b.text)
		}
	}
	for c := tr.FirstChild; c != nil; c = c.NextSibling {
		if c.Type != html.ElementNode || tag(c) != atom.Td && tag(c) != atom.Th {
			continue
		}
		above()
		s := squeeze(innerText(c))
		first := len(cells) == 0
		wide, high := max(1, spanOf(c, "colspan")), spanOf(c, "rowspan")
		for i := range wide {
			if len(cells) >= g.most {
				break
			}
			for len(g.below) <= len(cells) {
				g.below = append(g.below, spanning{})
			}
			if i > 0 && first {
				s = ""
			}
			if high > 1 {
				g.below[len(cells)] = spanning{s, high - 1}
			}
			cells = append(cells, s)
			if tag(c) == atom.Th {
				heads++
			}
		}
	}
	above()
	return cells, heads
}

// spanOf returns the number in an element's attribute, or 0 if there is none.
func spanOf(n *html.Node, name string) int {
	for _, a := range n.Attr {
		if a.Key == name {
			x, err := strconv.Atoi(strings.TrimSpace(a.Val))
			if err == nil && x > 0 {
				return min(x, 1000)
			}
		}
	}
	return 0
}

func ancestor(n *html.Node, kind atom.Atom) *html.Node {
	for p := n.Parent; p != nil; p = p.Parent {
		if p.Type == html.ElementNode && tag(p) == kind {
			return p
		}
	}
	return nil
}

// listLines returns a list's items as lines, nested ones indented.
func listLines(n *html.Node, level int) []string {
	var lines []string
	number := 1
	for li := n.FirstChild; li != nil; li = li.NextSibling {
		if li.Type != html.ElementNode || hidden(li) {
			continue
		}
		if tag(li) == atom.Ul || tag(li) == atom.Ol {
			lines = append(lines, listLines(li, level+1)...)
			continue
		}
		var itemText strings.Builder
		var below []string
		var collect func(c *html.Node)
		collect = func(c *html.Node) {
			for ; c != nil; c = c.NextSibling {
				switch {
				case c.Type == html.TextNode:
					itemText.WriteString(c.Data)
				case c.Type != html.ElementNode || hidden(c):
				case tag(c) == atom.Ul || tag(c) == atom.Ol:
					below = append(below, listLines(c, level+1)...)
				default:
					if block(c) || tag(c) == atom.Br {
						itemText.WriteByte(' ')
					}
					collect(c.FirstChild)
					if block(c) {
						itemText.WriteByte(' ')
					}
				}
			}
		}
		collect(li.FirstChild)
		marker := "- "
		if tag(n) == atom.Ol {
			marker = ordinal(number)
			number++
		}
		if s := squeeze(itemText.String()); s != "" {
			lines = append(lines, strings.Repeat("  ", level)+marker+s)
		}
		lines = append(lines, below...)
	}
	return lines
}

// innerText returns the visible text below n, with spaces between blocks.
func innerText(n *html.Node) string {
	if n == nil {
		return ""
	}
	var b strings.Builder
	var collect func(c *html.Node)
	collect = func(c *html.Node) {
		for ; c != nil; c = c.NextSibling {
			switch {
			case c.Type == html.TextNode:
				b.WriteString(c.Data)
			case c.Type != html.ElementNode || hidden(c):
			default:
				space := block(c) || tag(c) == atom.Br
				if space {
					b.WriteByte(' ')
				}
				collect(c.FirstChild)
				if space {
					b.WriteByte(' ')
				}
			}
		}
	}
	collect(n.FirstChild)
	return b.String()
}

// rawText returns all text below n as it is.
func rawText(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data)
		} else if c.Type == html.ElementNode && tag(c) == atom.Br {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// hidden reports whether an element is not read: scripts, controls, navigation, and elements that
// the page hides.
func hidden(n *html.Node) bool {
	switch tag(n) {
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Math, atom.Iframe, atom.Object, atom.Canvas,
		atom.Select, atom.Button, atom.Input, atom.Textarea, atom.Nav, atom.Footer, atom.Aside, atom.Head, atom.Audio, atom.Video:
		return true
	}
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "aria-hidden":
			return a.Val == "true"
		case "role":
			if a.Val == "navigation" || a.Val == "banner" || a.Val == "contentinfo" || a.Val == "search" {
				return true
			}
		case "style":
			style := strings.ReplaceAll(strings.ToLower(a.Val), " ", "")
			if strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") {
				return true
			}
		}
	}
	return false
}

// block reports whether an element begins a new line.
func block(n *html.Node) bool {
	switch tag(n) {
	case atom.P, atom.Div, atom.Section, atom.Article, atom.Main, atom.Header, atom.Footer, atom.Aside, atom.Nav, atom.Blockquote,
		atom.Ul, atom.Ol, atom.Li, atom.Dl, atom.Dt, atom.Dd, atom.Table, atom.Tr, atom.Td, atom.Th, atom.Caption, atom.Thead, atom.Tbody,
		atom.Figure, atom.Figcaption, atom.Pre, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6, atom.Form, atom.Fieldset,
		atom.Address, atom.Details, atom.Summary, atom.Center, atom.Body, atom.Html, atom.Hr, atom.Label, atom.Legend, atom.Hgroup:
		return true
	}
	return false
}

// fragmentText returns the text of HTML inside another format.
func fragmentText(s string) string {
	var b strings.Builder
	for t := html.NewTokenizer(strings.NewReader(s)); ; {
		switch t.Next() {
		case html.ErrorToken:
			return text.Clean(b.String())
		case html.TextToken:
			b.WriteString(html.UnescapeString(string(t.Raw())))
		case html.StartTagToken, html.SelfClosingTagToken, html.EndTagToken:
			name, _ := t.TagName()
			if block(&html.Node{Data: string(name)}) || string(name) == "br" {
				b.WriteByte('\n')
			}
		}
	}
}
