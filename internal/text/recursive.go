package text

// This file cuts as recursive text splitters do: at the coarsest boundaries that make passages
// short enough.

import (
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/schema"
)

// separators are the kinds of boundaries, coarsest first: between paragraphs, between lines,
// between sentences.
var separators = []func(s string) bool{
	endsParagraph,
	func(s string) bool { return strings.Contains(s[len(strings.TrimRight(s, " \t\r\n")):], "\n") },
	func(string) bool { return true },
}

// passagesByRecursion makes passages within g.MaxCharacters and g.MaxTokens. A passage is as many
// paragraphs as fit. A paragraph that is itself too long is cut into lines in the same way, and a
// line into sentences. Parts of a cut paragraph or line are not joined with its neighbours.
// Sentences that are too long have been cut before.
func passagesByRecursion(text string, sentences []Range, g schema.Segmentation) []Range {
	fits := func(p Range) bool {
		body := strings.TrimSpace(span(sentences, p).Of(text))
		return utf8.RuneCountInString(body) <= g.MaxCharacters && CountTokens(body) <= g.MaxTokens
	}
	var out []Range
	var pack func(p Range, level int)
	pack = func(p Range, level int) {
		open := Range{p.Start, p.Start}
		flush := func(next int) {
			if open.End > open.Start {
				out = append(out, open)
			}
			open = Range{next, next}
		}
		for start := p.Start; start < p.End; {
			end := start + 1
			for end < p.End && !separators[level](sentences[end-1].Of(text)) {
				end++
			}
			part := Range{start, end}
			switch {
			case open.End > open.Start && fits(Range{open.Start, end}):
				open.End = end
			case fits(part) || level == len(separators)-1:
				flush(start)
				open.End = end
			default:
				flush(end)
				pack(part, level+1)
			}
			start = end
		}
		flush(p.End)
	}
	pack(Range{0, len(sentences)}, 0)
	return out
}
