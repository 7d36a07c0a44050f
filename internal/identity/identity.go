// Package identity makes index terms of the names of a document, and of the names that a question
// uses for it: words of its title, its path and its first page, names written as one word or two,
// and dates, periods, versions and codes in a normal form. "FY2018", "fiscal year 2018" and
// "ACME_2018_10K.pdf" share a term, and so do "Q2 2023" and "2023Q2".
//
// The terms form a field of their own: they score documents, and are not part of any text.
package identity

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Naming is the text by which a document may be named.
type Naming struct {
	Title    string
	Names    []string // its external id, path or file name
	Metadata []string // values that are words, such as a customer's name
	// Head is the beginning of its text: the letterhead or the cover page. It is empty if the
	// document is so short that the beginning is most of it.
	Head string
}

const (
	// HeadBytes is how much of the text is its head; LeastBytes is the least length of a text that
	// has one.
	HeadBytes, LeastBytes = 1500, 20000

	// maxTerms bounds the terms of a document, and of a question.
	maxTerms, maxAsked = 400, 100
	// headPeriods is how many dates and periods of the head count: the first ones say what the
	// document is about, later ones what it mentions.
	headPeriods = 2
	maxJoined   = 40 // letters of two words written as one
	// Bounds of the digits of a number that may name a document.
	leastNumber, maxNumber = 3, 20
)

// Words returns the terms of running text, as the index has them.
type Words func(text string) []string

// Terms returns the document's terms, each once.
func (d Naming) Terms(words Words) []string {
	c := collector{words: words, seen: map[string]bool{}, most: maxTerms}
	for _, text := range append([]string{d.Title}, append(d.Names, d.Metadata...)...) {
		parts := split(withoutKeys(text))
		c.periods(parts, len(parts))
		c.names(parts)
		c.numbers(parts)
	}
	if d.Head != "" {
		parts := split(cut(d.Head, HeadBytes))
		c.periods(parts, headPeriods)
		for _, run := range capitalised(parts) {
			c.names(run)
		}
	}
	return c.terms
}

// Asked returns the terms by which a question may name a document: each once, and those of names,
// periods and codes a second time, because they are specific. A name is a capitalized word other
// than the first.
func Asked(question string, words Words) []string {
	parts := split(question)
	named := collector{words: words, seen: map[string]bool{}, most: maxAsked}
	named.periods(parts, len(parts))
	named.numbers(parts)
	for _, run := range capitalised(parts[min(len(parts), 1):]) {
		named.names(run)
	}
	all := collector{words: words, seen: map[string]bool{}, most: maxAsked}
	all.add(named.terms...)
	all.names(parts)
	return append(named.terms, all.terms...)
}

// Named returns the terms, as of running text, of a question's words that may name what it is
// about: numbers, and capitalized words other than the first.
func Named(question string, words Words) []string {
	c := collector{words: words, seen: map[string]bool{}, most: maxAsked}
	parts := split(question)
	for _, run := range capitalised(parts[min(len(parts), 1):]) {
		for _, p := range run {
			c.add(words(p.text)...)
		}
	}
	return c.terms
}

// collector collects terms, each once.
type collector struct {
	words Words
	seen  map[string]bool
	terms []string
	most  int
}

func (c *collector) add(terms ...string) {
	for _, t := range terms {
		if t != "" && !c.seen[t] && len(c.terms) < c.most {
			c.seen[t] = true
			c.terms = append(c.terms, t)
		}
	}
}

// names adds words, codes, and each two neighbouring words as one.
func (c *collector) names(parts []part) {
	for i, p := range parts {
		if p.kind == letters {
			c.add(c.words(p.text)...)
			if i > 0 && parts[i-1].kind == letters && utf8.RuneCountInString(parts[i-1].text+p.text) <= maxJoined {
				c.add(c.words(strings.ToLower(parts[i-1].text + p.text))...)
			}
		}
		if code, ok := codeAt(parts, i); ok {
			c.add("code " + code)
		}
	}
}

// numbers adds numbers that may be a document's own, such as those of invoices and contracts.
func (c *collector) numbers(parts []part) {
	for _, p := range parts {
		if _, is := year(p.text); p.kind == digits && len(p.text) >= leastNumber && len(p.text) <= maxNumber && !is {
			c.add("n " + p.text)
		}
	}
}

// capitalised returns the runs of parts that begin with a capital or a digit: names, and words of
// headings.
func capitalised(parts []part) [][]part {
	var out [][]part
	var run []part
	for _, p := range parts {
		first, _ := utf8.DecodeRuneInString(p.text)
		if unicode.IsUpper(first) || p.kind == digits {
			run = append(run, p)
			continue
		}
		if len(run) > 0 {
			out, run = append(out, run), nil
		}
	}
	if len(run) > 0 {
		out = append(out, run)
	}
	return out
}

// cut returns the beginning of a text, at most most bytes of it, without cutting a rune.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
