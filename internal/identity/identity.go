// Package identity makes terms of what a document is called, and of what a
// question calls it: words of its title, its path and its first page, names that
// are written as one word or two, and dates, periods, versions and codes in one
// form however they are written. "FY2018", "fiscal year 2018" and
// "ACME_2018_10K.pdf" share a term; "Q2 2023" and "2023Q2" do.
//
// The terms are of a field of their own: they score documents, and are no part of
// any text.
package identity

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Naming is what a document is known by.
type Naming struct {
	Title    string
	Names    []string // its external id, path or file name
	Metadata []string // values that are words, such as a customer's name
	// Head is the beginning of its text: the letterhead or the cover page. It is
	// empty where the document is so short that the beginning is most of it.
	Head string
}

const (
	// HeadBytes is how much of the text is read as its head, and LeastBytes how
	// long a text is that has one.
	HeadBytes, LeastBytes = 1500, 20000

	// maxTerms bounds the terms of a document, and of a question.
	maxTerms, maxAsked = 400, 100
	// headPeriods are the dates and periods of the head that count: the first ones
	// say what the document is of, later ones what it mentions.
	headPeriods = 2
	maxJoined   = 40 // letters of two words written as one
	// Digits of a number that may name a document.
	leastNumber, maxNumber = 3, 20
)

// Words makes the terms of running text, as the index has them.
type Words func(text string) []string

// Terms are the document's terms, each once.
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

// Asked are the terms that a question may call a document by: each once, and
// those of names, periods and codes once more, for they are meant to. A name is
// what has a capital, but for the first word.
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

// Named are the terms of a question's words that may name who or what it is about:
// those with a capital, but for the first word, and numbers, as running text has them.
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

// names adds words, codes, and each two neighbours as one word.
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

// numbers adds those that may be a document's own: of an invoice, a contract.
func (c *collector) numbers(parts []part) {
	for _, p := range parts {
		if _, is := year(p.text); p.kind == digits && len(p.text) >= leastNumber && len(p.text) <= maxNumber && !is {
			c.add("n " + p.text)
		}
	}
}

// capitalised are the runs of parts that begin with a capital or a digit: names,
// and what stands in headings.
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

// cut is the beginning of a text, at most so many bytes of it.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
