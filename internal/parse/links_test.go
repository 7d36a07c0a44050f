package parse

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// linksOf returns the blocks that have links, as text.
func linksOf(p schema.Parsed) []string {
	var out []string
	for _, b := range p.Blocks {
		if len(b.Links) > 0 {
			text, _, _ := strings.Cut(b.Text, "\n")
			out = append(out, text+" -> "+strings.Join(b.Links, " "))
		}
	}
	return out
}

func expectLinks(t *testing.T, p schema.Parsed, want ...string) {
	t.Helper()
	if got := linksOf(p); !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestMarkdownLinks(t *testing.T) {
	p := parsed(t, "a.md", `# About [streams](streams.md)

An [inline](../a/what\_new.md "title") link, a [reference][r], a <https://example.org/x?y=1&z=2>, one [twice](streams.md)
and [again](streams.md), a [part](#here), a [mail](mailto:a@example.org), <b@example.org>, a [script](javascript:alert) and
<a href="raw.html#top">raw</a>.

- [one](1.md)
  - deep [two](2.md)

  > quoted [three](3.md)

| a | b |
|---|---|
| [cell](c.md) | x |

<p>Block <a class=z href='b.html'>html</a></p>

Nothing.

[r]: <with space.md>
`)
	expectLinks(t, p,
		"About streams -> streams.md",
		"An inline link, a reference, a https://example.org/x?y=1&z=2, one twice and again, a part, a mail, b@example.org, a script and raw. -> "+
			"../a/what_new.md with space.md https://example.org/x?y=1&z=2 streams.md raw.html#top",
		"- one -> 1.md 2.md 3.md",
		"a | b -> c.md",
		"Block html -> b.html",
	)
}

func TestHTMLLinks(t *testing.T) {
	filler := strings.Repeat("Plenty of words that make this the main content of the page. ", 20)
	p := parsed(t, "a.html", `<html><body><nav><a href="/menu">menu</a></nav><article>
<h1>Top</h1><p>`+filler+`See <a href="guide/start.html">the <b>start</b></a> and <a href="#x">here</a>, <a>nowhere</a>.</p>
<h2>More at <a href="more.html?page=2#y">more</a></h2><p>`+filler+`</p>
<ul><li><a href="one">One</a><ul><li><a href="two">Two</a></li></ul></li></ul>
<table><tr><th>k</th><th>v</th></tr><tr><td><a href="row">r</a></td><td>1</td></tr></table></article></body></html>`)
	got := linksOf(p)
	var targets []string
	for _, line := range got {
		_, links, _ := strings.Cut(line, " -> ")
		targets = append(targets, links)
	}
	if want := []string{"guide/start.html", "more.html?page=2#y", "one two", "row"}; !slices.Equal(targets, want) {
		t.Errorf("got %q, want %q", targets, want)
	}
}

func TestDOCXLinks(t *testing.T) {
	p := parsed(t, "a.docx", string(docx(map[string]string{
		"word/document.xml": document1(`
<w:p><w:r><w:t>Plain</w:t></w:r></w:p>
<w:p><w:r><w:t xml:space="preserve">See </w:t></w:r><w:hyperlink r:id="rId1"><w:r><w:t>this</w:t></w:r></w:hyperlink><w:hyperlink w:anchor="part"><w:r><w:t> part</w:t></w:r></w:hyperlink></w:p>`),
		"word/_rels/document.xml.rels": `<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">
<Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink" Target="https://example.org/a" TargetMode="External"/>
<Relationship Id="rId2" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/image" Target="media/a.png"/></Relationships>`,
	})))
	expectLinks(t, p, "See this part -> https://example.org/a")
}

func TestLinksAreBounded(t *testing.T) {
	var many, long strings.Builder
	for i := range maxBlockLinks + 50 {
		fmt.Fprintf(&many, "[a](%d.md) ", i)
	}
	p := parsed(t, "a.md", many.String())
	if n := len(p.Blocks[0].Links); n != maxBlockLinks {
		t.Errorf("%d links in a block", n)
	}
	// A long target repeated in every paragraph of a long file.
	for range maxDocumentLinks + 100 {
		long.WriteString("[a][r]\n\n")
	}
	fmt.Fprintf(&long, "[r]: %s\n", strings.Repeat("x", maxLinkBytes))
	total := 0
	for _, b := range parsed(t, "a.md", long.String()).Blocks {
		total += len(b.Links)
	}
	if total != maxDocumentLinks {
		t.Errorf("%d links in a document", total)
	}
	for _, bad := range []string{"", " ", "#a", "JavaScript:x", strings.Repeat("x", maxLinkBytes+1), "a\xff"} {
		if got := linkTarget(bad); got != "" {
			t.Errorf("%.20q is kept as %.20q", bad, got)
		}
	}
	if got := linkTarget(" a\n\tb\x00.md "); got != "ab.md" {
		t.Errorf("got %q", got)
	}
}

func TestLinksCrossThePipe(t *testing.T) {
	want := schema.Parsed{Blocks: []schema.Block{{Kind: schema.BlockParagraph, Text: "a", Links: []string{"b.md", "https://example.org"}}}}
	var pipe strings.Builder
	if err := writeReply(&pipe, replyOf(want, nil)); err != nil {
		t.Fatal(err)
	}
	got, err := readReply(bufio.NewReader(strings.NewReader(pipe.String())))
	if err != nil || !slices.Equal(got.Parsed.Blocks[0].Links, want.Blocks[0].Links) {
		t.Errorf("%+v, %v", got, err)
	}
}
