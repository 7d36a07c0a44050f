package text

// This file cuts as recursive text splitters do: at the coarsest boundaries that make passages
// short enough.

import (
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/schema"
)

// places are the kinds of boundaries, coarsest first: between paragraphs, between lines, between
// sentences.
var places = []func(s string) bool{
	endsParagraph,
	func(s string) bool { return strings.Contains(s[len(strings.TrimRight(s, " \t\r\n")):], "\n") },
	func(string) bool { return true },
}

// recursive makes passages within g.MaxCharacters and g.MaxTokens. A passage is as many paragraphs
// as fit. A paragraph that is itself too long is cut into lines in the same way, and a line into
// sentences. Parts of a cut paragraph or line are not joined with its neighbours. Sentences that
// are too long have been cut before.
func recursive(text string, sentences []Range, g schema.Segmentation) []Range {
	fits := func(p Range) bool {
		body := strings.TrimSpace(span(sentences, p).Of(text))
		return utf8.RuneCountInString(body) <= g.MaxCharacters && CountTokens(body) <= g.MaxTokens
	}
	var out []Range
	var pack func(p Range, place int)
	pack = func(p Range, place int) {
		open := Range{p.Start, p.Start}
		flush := func(at int) {
			if open.End > open.Start {
				out = append(out, open)
			}
			open = Range{at, at}
		}
		for start := p.Start; start < p.End; {
			end := start + 1
			for end < p.End && !places[place](sentences[end-1].Of(text)) {
				end++
			}
			piece := Range{start, end}
			switch {
			case open.End > open.Start && fits(Range{open.Start, end}):
				open.End = end
			case fits(piece) || place == len(places)-1:
				flush(start)
				open.End = end
			default:
				flush(end)
				pack(piece, place+1)
			}
			start = end
		}
		flush(p.End)
	}
	pack(Range{0, len(sentences)}, 0)
	return out
}
