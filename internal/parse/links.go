package parse

// Links: the targets that a file's text links to. They are noted while a parser walks its tree and
// stored with the next block that is added.

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Limits of stored links, without which a file that repeats a long target would make the result
// grow.
const (
	maxLinkBytes     = 2048
	maxBlockLinks    = 256
	maxDocumentLinks = 10_000
)

// link notes the targets of links for the next block. It leaves out targets within the document and
// those that run a program or open no document.
func (d *document) link(targets ...string) {
	for _, target := range targets {
		target = linkTarget(target)
		if target == "" || len(d.links) >= maxBlockLinks || slices.Contains(d.links, target) {
			continue
		}
		d.links = append(d.links, target)
	}
}

// takeLinks returns and clears the links noted so far.
func (d *document) takeLinks() []string {
	links := d.links
	d.links = nil
	return links
}

// blockLinks returns the links for the block that is being added.
func (d *document) blockLinks() []string {
	links := d.takeLinks()
	links = links[:min(len(links), maxDocumentLinks-d.linked)]
	if len(links) == 0 {
		return nil
	}
	d.linked += len(links)
	return links
}

// linkTarget returns a target as it is stored, or "" if it is not one to store.
func linkTarget(s string) string {
	if len(s) > 2*maxLinkBytes || !utf8.ValidString(s) {
		return ""
	}
	// Browsers remove line breaks and tabs in a target.
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.TrimSpace(s))
	if s == "" || len(s) > maxLinkBytes || s[0] == '#' {
		return ""
	}
	if scheme, _, found := strings.Cut(s, ":"); found {
		switch strings.ToLower(scheme) {
		case "javascript", "data", "mailto", "tel", "sms", "about", "blob", "vbscript":
			return ""
		}
	}
	return s
}

// linksBelow notes the links of the visible anchors at n and below it.
func (w *htmlWalker) linksBelow(n *html.Node) {
	if hidden(n) {
		return
	}
	w.linkOf(n)
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.ElementNode {
			w.linksBelow(c)
		}
	}
}

func (w *htmlWalker) linkOf(n *html.Node) {
	if tag(n) != atom.A {
		return
	}
	for _, a := range n.Attr {
		if a.Key == "href" {
			w.d.link(a.Val)
		}
	}
}

// fragmentLinks returns the targets of the links of HTML inside another format.
func fragmentLinks(s string) []string {
	var out []string
	for t := html.NewTokenizer(strings.NewReader(s)); ; {
		switch t.Next() {
		case html.ErrorToken:
			return out
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := t.TagName()
			if string(name) != "a" {
				continue
			}
			for more {
				var key, value []byte
				if key, value, more = t.TagAttr(); string(key) == "href" {
					out = append(out, string(value))
				}
			}
		}
	}
}
