package text

// Sections: a parsed document cut into pieces small enough to rank and to cite.

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/schema"
)

// SectionTokens is the default maximum number of tokens in a section.
const SectionTokens = 1000

// maxHeadingRunes is the maximum number of characters of one heading in a heading path.
const maxHeadingRunes = 200

// Sections cuts a parsed document into sections of at most limit tokens (0 means SectionTokens).
// Ids stay zero.
//
// A heading begins a section, with two exceptions. A heading directly followed by a subheading is
// at the top of the subheading's section. Sections of less than a tenth of limit are joined while
// they share a parent heading, so that a page of one-line headings does not become a hundred
// sections. A section's heading path is the path that everything in it shares. Text under one
// heading that is over the limit is cut into parts of about equal size: between blocks; inside a
// block that is itself too long, between lines, then sentences, then words.
//
// A section's text is its blocks with an empty line between them, headings included; nothing but
// white space is lost or added. The links of a block that is cut stay with its first part; its
// layout is cut with it.
func Sections(parsed schema.Parsed, limit int) []schema.Section {
	if limit <= 0 {
		limit = SectionTokens
	}
	p := packer{limit: limit, joinBelow: limit / 10}
	p.hasLayout = slices.ContainsFunc(parsed.Blocks, func(b schema.Block) bool { return len(b.Layout) > 0 })
	for _, r := range runs(parsed.Blocks) {
		p.add(r)
	}
	p.flush()
	return p.out
}

// headedBlocks is a heading with the blocks before the next heading.
type headedBlocks struct {
	path    []string
	blocks  []countedBlock
	content bool // some block is not a heading
	tokens  int
}

// countedBlock is a block with the number of its tokens.
type countedBlock struct {
	schema.Block
	tokens int
}

// runs groups the blocks by heading.
func runs(blocks []schema.Block) []headedBlocks {
	var (
		out    []headedBlocks
		levels []int
		path   []string
	)
	for _, b := range blocks {
		b.Text = strings.TrimSpace(Clean(b.Text))
		if b.Text == "" {
			continue
		}
		heading := b.Kind == schema.BlockHeading
		if heading {
			level := max(b.Level, 1)
			for len(levels) > 0 && levels[len(levels)-1] >= level {
				levels, path = levels[:len(levels)-1], path[:len(path)-1]
			}
			levels = append(levels, level)
			path = append(path[:len(path):len(path)], pathEntry(b.Text))
		}
		if heading || len(out) == 0 {
			out = append(out, headedBlocks{path: path[:len(path):len(path)]})
		}
		r := &out[len(out)-1]
		n := CountTokens(b.Text)
		r.blocks = append(r.blocks, countedBlock{b, n})
		r.tokens += n
		r.content = r.content || !heading
	}
	return out
}

// pathEntry returns a heading's text on one line of bounded length.
func pathEntry(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > maxHeadingRunes {
		s = strings.TrimSpace(s[:takeRunes(s, maxHeadingRunes-1)]) + "…"
	}
	return s
}

// packer packs headed blocks into sections.
type packer struct {
	limit, joinBelow int
	hasLayout        bool // some block has a layout
	out              []schema.Section

	path    []string // the path that all of the open section shares
	anchor  []string // the path of its first headed blocks
	content bool
	tokens  int
	blocks  []countedBlock
}

// add adds the next headed blocks.
func (p *packer) add(r headedBlocks) {
	switch {
	case len(p.blocks) == 0:
	case p.tokens+r.tokens > p.limit:
		p.flush()
	case !p.content && hasPrefix(r.path, p.path):
		// Bare headings above their first subheading.
		p.anchor, p.path = r.path, r.path
	case p.tokens < p.joinBelow && r.tokens < p.joinBelow && p.joins(r.path):
		p.path = shared(p.path, r.path)
	default:
		p.flush()
	}
	if len(p.blocks) == 0 {
		p.anchor, p.path = r.path, r.path
	}
	p.blocks = append(p.blocks, r.blocks...)
	p.tokens += r.tokens
	p.content = p.content || r.content
}

// joins reports whether path is below the parent of the open section's first heading.
func (p *packer) joins(path []string) bool {
	parent := p.anchor
	if len(parent) > 0 {
		parent = parent[:len(parent)-1]
	}
	return hasPrefix(path, parent)
}

// flush closes the open section, and cuts one that is over the limit.
func (p *packer) flush() {
	if len(p.blocks) == 0 {
		return
	}
	parts := (p.tokens + p.limit - 1) / p.limit
	target := (p.tokens + parts - 1) / parts
	var b builder
	for i, block := range p.blocks {
		runs, _ := DecodeLayout(block.Layout) // a damaged layout has no boxes
		for j, fragment := range splitBlock(block, p.limit) {
			t := fragment.tokens
			if b.tokens > 0 && (b.tokens+t > p.limit || b.tokens >= target && !(i > 0 && p.blocks[i-1].Kind == schema.BlockHeading && j == 0)) {
				p.emit(&b)
			}
			b.add(fragment, block.Page)
			if p.hasLayout {
				chars := CountNonSpace(fragment.text)
				var head []LayoutRun
				head, runs = splitRuns(runs, chars)
				b.addLayout(head, chars)
			}
			if j == 0 {
				b.addLinks(block.Links)
			}
		}
	}
	p.emit(&b)
	p.blocks, p.tokens, p.content = nil, 0, false
}

// emit appends the built text as a section.
func (p *packer) emit(b *builder) {
	if b.text.Len() == 0 {
		return
	}
	text := strings.TrimRightFunc(b.text.String(), unicode.IsSpace)
	tokens := b.tokens // no token reaches across the empty line between two blocks
	if b.cut {
		tokens = CountTokens(text)
	}
	p.out = append(p.out, schema.Section{
		Ordinal:     len(p.out),
		HeadingPath: append([]string(nil), p.path...),
		Text:        text,
		Tokens:      tokens,
		Pages:       b.pages,
		Links:       b.links,
		Layout:      b.layout(),
	})
	*b = builder{}
}

// builder builds one section's text.
type builder struct {
	text   strings.Builder
	tokens int
	cut    bool // some fragment is not a whole block
	pages  []schema.PageMark
	links  []string
	runs   []LayoutRun
	boxed  bool
}

// addLayout adds the layout of the text that was added last, which has chars characters.
func (b *builder) addLayout(runs []LayoutRun, chars int) {
	for _, r := range runs {
		chars -= r.Chars
		b.boxed = b.boxed || !r.Box.Empty()
	}
	b.runs = append(b.runs, runs...)
	if chars > 0 {
		b.runs = append(b.runs, LayoutRun{Chars: chars})
	}
}

// layout encodes the section's layout. It returns nil if no box is known.
func (b *builder) layout() []byte {
	if !b.boxed {
		return nil
	}
	return EncodeLayout(b.runs)
}

// addLinks adds targets that the section does not have yet.
func (b *builder) addLinks(targets []string) {
	for _, t := range targets {
		if !slices.Contains(b.links, t) {
			b.links = append(b.links, t)
		}
	}
}

func (b *builder) add(p fragment, page int) {
	if b.text.Len() == 0 {
		p.text = strings.TrimSpace(p.text)
	} else {
		b.text.WriteString(p.sep)
	}
	if page > 0 && (len(b.pages) == 0 || b.pages[len(b.pages)-1].Page != page) {
		b.pages = append(b.pages, schema.PageMark{Start: b.text.Len(), Page: page})
	}
	b.text.WriteString(p.text)
	b.tokens += p.tokens
	b.cut = b.cut || !p.whole
}

// fragment is a block's text or a part of it, and the separator from the previous fragment when
// both are in one section.
type fragment struct {
	text   string
	sep    string
	tokens int
	whole  bool // it is the whole block
}

// splitBlock returns the block's text whole if it is within limit, and otherwise cut between lines.
// A line over the limit is cut between sentences, and a sentence of more than a quarter of the
// limit between words.
func splitBlock(b countedBlock, limit int) []fragment {
	if b.tokens <= limit {
		return []fragment{{b.Text, "\n\n", b.tokens, true}}
	}
	var out []fragment
	for line := range strings.SplitSeq(b.Text, "\n") {
		if isSpace(line) {
			continue
		}
		if n := CountTokens(line); n <= limit {
			out = append(out, fragment{text: strings.TrimRight(line, " \t"), sep: "\n", tokens: n})
			continue
		}
		sep := "\n"
		for _, r := range Split(line, Sentences(line), max(limit/4, 1)) {
			part := r.Of(line)
			trimmed := strings.TrimSpace(part)
			out = append(out, fragment{text: trimmed, sep: sep, tokens: CountTokens(trimmed)})
			sep = ""
			if r, _ := utf8.DecodeLastRuneInString(part); unicode.IsSpace(r) {
				sep = " "
			}
		}
	}
	if len(out) > 0 {
		out[0].sep = "\n\n"
	}
	return out
}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && len(shared(path, prefix)) == len(prefix)
}

// shared returns the longest common prefix of two paths.
func shared(a, b []string) []string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n:n]
}
