package parse

// Markdown, parsed by goldmark.

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/sluice-rag/sluice/schema"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	gtext "github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"go.yaml.in/yaml/v3"
)

var markdown = goldmark.New(
	goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.TaskList, extension.DefinitionList, extension.Footnote),
	goldmark.WithParserOptions(parser.WithAttribute()),
).Parser()

// templateTag is a tag of the template languages that documentation generators
// put around Markdown ({% hint %}).
var templateTag = regexp.MustCompile(`\{%[^%\n]{0,300}%\}`)

func parseMarkdown(d *document, s string) error {
	s, title := frontMatter(s)
	if n := deepestLine(s); n > d.limits.Nesting {
		return d.tooDeep()
	}
	s = templateTag.ReplaceAllString(s, "")
	source := []byte(s)
	w := markdownWalker{d: d, source: source}
	w.blocks(markdown.Parse(gtext.NewReader(source)), 0)
	d.out.Title = title
	if title == "" {
		for _, b := range d.out.Blocks {
			if b.Kind == schema.BlockHeading && b.Level == 1 {
				d.out.Title = b.Text
				break
			}
		}
	}
	return d.err
}

var frontMatterBlock = regexp.MustCompile(`(?s)^\s*---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|$)`)

// frontMatter removes the YAML block at the beginning and returns its title. If the block is not
// YAML the text stays unchanged.
func frontMatter(s string) (rest, title string) {
	m := frontMatterBlock.FindStringSubmatchIndex(s[:min(len(s), 64<<10)])
	if m == nil {
		return s, ""
	}
	var meta map[string]any
	if err := yaml.Unmarshal([]byte(s[m[2]:m[3]]), &meta); err != nil || len(meta) == 0 {
		return s, ""
	}
	if t, ok := meta["title"]; ok {
		title = squeeze(fmt.Sprint(t))
	}
	return s[m[1]:], title
}

// deepestLine returns the most container markers (quotes, list bullets) that one
// line opens: the parser's time grows with their square.
func deepestLine(s string) int {
	deepest := 0
	for line := range strings.SplitSeq(s, "\n") {
		n := 0
		for _, c := range []byte(line) {
			if c == '>' || c == '-' || c == '*' || c == '+' {
				n++
			} else if c != ' ' && c != '\t' {
				break
			}
		}
		if line = strings.TrimSpace(line); strings.Trim(line, "-") == "" || strings.Trim(line, "*") == "" {
			continue // a rule
		}
		deepest = max(deepest, n)
	}
	return deepest
}

type markdownWalker struct {
	d      *document
	source []byte
}

// blocks adds the block children of n.
func (w *markdownWalker) blocks(n ast.Node, depth int) {
	if depth > w.d.limits.Nesting && w.d.err == nil {
		w.d.err = w.d.tooDeep()
	}
	for c := n.FirstChild(); c != nil && w.d.err == nil; c = c.NextSibling() {
		w.block(c, depth)
	}
}

func (w *markdownWalker) block(n ast.Node, depth int) {
	switch n := n.(type) {
	case *ast.Heading:
		w.d.heading(n.Level, w.inline(n))
	case *ast.Paragraph, *ast.TextBlock, *east.DefinitionTerm:
		w.d.paragraph(w.inline(n))
	case *ast.List:
		w.d.add(schema.BlockList, 0, strings.Join(w.list(n, 0), "\n"), 0)
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		w.d.add(schema.BlockCode, 0, tidyLines(w.lines(n)), 0)
	case *ast.HTMLBlock:
		raw := w.lines(n)
		if n.HasClosure() {
			raw += string(n.ClosureLine.Value(w.source))
		}
		w.d.link(fragmentLinks(raw)...)
		for line := range strings.SplitSeq(fragmentText(raw), "\n") {
			w.d.paragraph(line)
		}
	case *east.Table:
		w.table(n)
	default:
		w.blocks(n, depth+1) // quotes, definitions, footnotes
	}
}

// list returns the items as lines, nested ones indented. Other blocks in an item continue its line
// or are indented below it.
func (w *markdownWalker) list(l *ast.List, level int) []string {
	if level > w.d.limits.Nesting {
		w.d.err = w.d.tooDeep()
		return nil
	}
	var lines []string
	indent := strings.Repeat("  ", level)
	number := max(l.Start, 0)
	for item := l.FirstChild(); item != nil; item = item.NextSibling() {
		marker := "- "
		if l.IsOrdered() {
			marker = ordinal(number)
			number++
		}
		first := true
		for c := item.FirstChild(); c != nil; c = c.NextSibling() {
			var rowLinks []string
			switch c := c.(type) {
			case *ast.List:
				lines = append(lines, w.list(c, level+1)...)
				continue
			case *ast.FencedCodeBlock, *ast.CodeBlock:
				rowLinks = strings.Split(tidyLines(w.lines(c)), "\n")
			case *ast.Paragraph, *ast.TextBlock, *ast.Heading:
				rowLinks = []string{squeeze(w.inline(c))}
			default:
				// A quote or a table in an item.
				inner := &document{ctx: w.d.ctx, limits: w.d.limits}
				iw := markdownWalker{d: inner, source: w.source}
				iw.block(c, level+1)
				for _, b := range inner.out.Blocks {
					w.d.link(b.Links...)
					rowLinks = append(rowLinks, strings.Split(b.Text, "\n")...)
				}
			}
			for _, line := range rowLinks {
				if strings.TrimSpace(line) == "" {
					continue
				}
				if first {
					line = marker + line
					first = false
				} else {
					line = "  " + line
				}
				lines = append(lines, indent+line)
			}
		}
	}
	return lines
}

func ordinal(n int) string { return fmt.Sprintf("%d. ", n) }

func (w *markdownWalker) table(t *east.Table) {
	var (
		header []string
		rows   [][]string
		links  [][]string
	)
	for r := t.FirstChild(); r != nil; r = r.NextSibling() {
		var cells []string
		for c := r.FirstChild(); c != nil; c = c.NextSibling() {
			cells = append(cells, w.inline(c))
		}
		if _, ok := r.(*east.TableHeader); ok {
			header = cells
		} else {
			rows, links = append(rows, cells), append(links, w.d.takeLinks())
		}
	}
	w.d.linkedTable(header, rows, links, 0)
}

// lines returns a block's own lines as they are.
func (w *markdownWalker) lines(n ast.Node) string {
	var b strings.Builder
	segments := n.Lines()
	for i := range segments.Len() {
		segment := segments.At(i)
		b.Write(segment.Value(w.source))
	}
	return b.String()
}

// textOf returns a text node's text with escapes and entities resolved.
func textOf(t *ast.Text, source []byte) []byte {
	value := t.Value(source)
	if t.IsRaw() {
		return value
	}
	return util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(value)))
}

// inline returns the text of n's inline children: the text of links, and the descriptions of
// images. It notes the targets of links.
func (w *markdownWalker) inline(n ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(n, func(c ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch c := c.(type) {
		case *ast.Text:
			b.Write(textOf(c, w.source))
			if c.SoftLineBreak() || c.HardLineBreak() {
				b.WriteByte('\n')
			}
		case *ast.String:
			b.Write(c.Value)
		case *ast.Link:
			w.d.link(string(util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(c.Destination)))))
		case *ast.AutoLink:
			if c.AutoLinkType == ast.AutoLinkURL {
				w.d.link(string(c.URL(w.source)))
			}
			b.Write(c.Label(w.source))
		case *ast.RawHTML:
			var raw strings.Builder
			for i := range c.Segments.Len() {
				segment := c.Segments.At(i)
				raw.Write(segment.Value(w.source))
			}
			w.d.link(fragmentLinks(raw.String())...)
			if s := strings.ToLower(raw.String()); strings.HasPrefix(s, "<br") {
				b.WriteByte(' ')
			}
		case *east.FootnoteLink:
			fmt.Fprintf(&b, "[%d]", c.Index)
		case *east.FootnoteBacklink:
		case *east.TaskCheckBox:
			if c.IsChecked {
				b.WriteString("[x] ")
			} else {
				b.WriteString("[ ] ")
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}
