package manual

// This file searches the sections of all pages with BM25. There are a few hundred sections, so the
// index is kept as postings in memory.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/lexical"
)

// index has the postings of all sections.
type index struct {
	analyzer *lexical.Analyzer
	sections []chapter
	lengths  []float64
	mean     float64
	postings map[string][]posting
}

type posting struct {
	section int
	times   float64
}

// hit is a section that matches a query.
type hit struct {
	Path    string // address of the section
	Title   string // of its page
	Heading string // empty for the page's own heading
	Text    string // the beginning of the section, or the text around a word of the query
}

const (
	maxHits = 20
	// headingWeight is the weight of a word in a heading.
	headingWeight = 4
	shownBytes    = 240
)

func (m *Manual) makeIndex() (*index, error) {
	analyzer, err := lexical.NewAnalyzer("en")
	if err != nil {
		return nil, fmt.Errorf("index the manual: %w", err)
	}
	x := &index{analyzer: analyzer, postings: map[string][]posting{}}
	for _, name := range m.names() {
		p, err := m.pages[name]()
		if err != nil {
			return nil, err
		}
		for _, s := range p.sections {
			x.add(s)
		}
	}
	for _, n := range x.lengths {
		x.mean += n / float64(len(x.lengths))
	}
	return x, nil
}

func (x *index) add(s chapter) {
	counts, length := map[string]float64{}, 0.0
	count := func(text string, weight float64) {
		for _, term := range x.analyzer.Terms(text) {
			counts[term] += weight
			length += weight
		}
	}
	count(s.Text, headingWeight)
	count(s.title, 1)
	count(s.text, 1)
	for term, times := range counts {
		x.postings[term] = append(x.postings[term], posting{len(x.sections), times})
	}
	x.sections = append(x.sections, s)
	x.lengths = append(x.lengths, length)
}

// search returns the best sections, best first.
func (x *index) search(query string) []hit {
	terms := x.analyzer.Terms(query)
	slices.Sort(terms)
	scores := map[int]float64{}
	for _, term := range slices.Compact(terms) {
		found := x.postings[term]
		idf := lexical.IDF(len(x.sections), len(found))
		for _, p := range found {
			k1, b := lexical.Defaults.K1, lexical.Defaults.B
			scores[p.section] += idf * p.times * (k1 + 1) / (p.times + k1*(1-b+b*x.lengths[p.section]/x.mean))
		}
	}
	order := make([]int, 0, len(scores))
	for i := range scores {
		order = append(order, i)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
	var hits []hit
	for _, i := range order[:min(len(order), maxHits)] {
		s := x.sections[i]
		h := hit{Path: served(s.page + ".md#" + s.ID), Title: s.title, Heading: s.Text, Text: x.around(s.text, terms)}
		if s.Level == 1 {
			h.Heading = ""
		}
		hits = append(hits, h)
	}
	return hits
}

// around returns an excerpt of a section, from a few words before the first word of the query.
func (x *index) around(text string, terms []string) string {
	words := strings.Fields(text)
	first := max(0, slices.IndexFunc(words, func(w string) bool {
		return slices.ContainsFunc(x.analyzer.Terms(w), func(t string) bool { return slices.Contains(terms, t) })
	})-8)
	out := ""
	for i, w := range words[first:] {
		if len(out)+len(w) > shownBytes {
			return strings.TrimSpace(out) + " …"
		}
		if i == 0 && first > 0 {
			out = "… "
		}
		out += w + " "
	}
	return strings.TrimSpace(out)
}
