package parse

// EPUB: the chapters of a book in reading order.

import (
	"io"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/sluice-rag/sluice/schema"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

func parseEPUB(d *document, data []byte) error {
	c, err := openContainer(data, d.limits)
	if err != nil {
		return err
	}
	meta, err := readXML(d, c, "META-INF/container.xml")
	if err != nil {
		return err
	}
	name := ""
	if file := meta.child("x:container", "x:rootfiles", "x:rootfile"); file != nil {
		name = file.attr("full-path")
	}
	book, err := readXML(d, c, name)
	if err != nil {
		return err
	}
	if book.child("x:package", "x:spine") == nil {
		return fail(schema.ReasonBroken, "The book does not say which chapters it has (%s). Save it again and send that.", name)
	}
	if t := book.child("x:package", "x:metadata", "x:title"); t != nil {
		d.out.Title = squeeze(t.text)
	}
	chapters := chaptersOf(book, path.Dir(name))
	locked, err := encryptedParts(d, c)
	if err != nil {
		return err
	}
	for _, chapter := range chapters {
		if locked[chapter] {
			return fail(schema.ReasonEncrypted, "The book is encrypted (%s). Remove its protection and send it again.", chapter)
		}
		if err := parseChapter(d, c, chapter); err != nil {
			return err
		}
	}
	return d.err
}

// chaptersOf returns the names of the chapters' parts in reading order.
func chaptersOf(book *element, dir string) []string {
	parts := map[string]string{}
	if manifest := book.child("x:package", "x:manifest"); manifest != nil {
		for _, item := range manifest.children {
			if kind := item.attr("media-type"); kind == "application/xhtml+xml" || kind == "text/html" {
				parts[item.attr("id")] = partName(dir, item.attr("href"))
			}
		}
	}
	var chapters []string
	seen := map[string]bool{}
	for _, ref := range book.child("x:package", "x:spine").children {
		if name := parts[ref.attr("idref")]; name != "" && !seen[name] {
			seen[name] = true
			chapters = append(chapters, name)
		}
	}
	return chapters
}

// partName resolves a reference to the name of a part, which may not exist.
func partName(dir, href string) string {
	if unescaped, err := url.PathUnescape(href); err == nil {
		href = unescaped
	}
	href, _, _ = strings.Cut(href, "#")
	return strings.TrimPrefix(path.Join(dir, href), "/")
}

// encryptedParts returns the parts that are declared as encrypted. Often these are only fonts, in
// books that can be read.
func encryptedParts(d *document, c *container) (map[string]bool, error) {
	root, err := readXML(d, c, "META-INF/encryption.xml")
	if err != nil || root == nil {
		return nil, err
	}
	out := map[string]bool{}
	var collect func(e *element)
	collect = func(e *element) {
		if e.name == "x:CipherReference" {
			out[partName(".", e.attr("URI"))] = true
		}
		for _, child := range e.children {
			collect(child)
		}
	}
	collect(root)
	return out, nil
}

// selfClosed matches elements that XHTML may close at once and HTML may not: parsed as HTML, an
// empty title would swallow the whole chapter.
var selfClosed = regexp.MustCompile(`(?i)<(title|script|style|textarea|iframe|noscript|a|div|span|p|i|b|em|strong|td|th|li|ul|ol)(\s[^<>]*)?/>`)

func parseChapter(d *document, c *container, name string) error {
	r, err := c.open(name)
	if err != nil {
		return err
	}
	if r == nil {
		d.warn("Chapter " + name + " is missing in the book.")
		return d.err
	}
	defer func() { _ = r.Close() }()
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s, warnings, err := decode(raw, hint{html: true})
	if err != nil {
		return err
	}
	for _, w := range warnings {
		d.warn(name + ": " + w)
	}
	return parseBody(d, selfClosed.ReplaceAllString(s, "<$1$2></$1>"))
}

// parseBody adds the whole body of a page.
func parseBody(d *document, s string) error {
	root, err := html.Parse(strings.NewReader(s))
	if err != nil || depth(root) > d.limits.Nesting {
		return d.tooDeep()
	}
	if body := find(root, atom.Body); body != nil {
		walkHTML(d, body)
	}
	return d.err
}
