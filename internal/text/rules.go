package text

// Ways of cutting sections into passages that need no segmentation model:
// ChunkRAG's, by the similarity of neighbouring sentences, and SAKI-RAG's, by
// their number. The papers know no headings; here a heading goes with what
// follows it, because a passage of a heading alone says nothing.

import (
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"

	"github.com/sluice-rag/sluice/schema"
)

// similar is ChunkRAG's chunk formation (section 3.1): a sentence goes on with the
// passage while its cosine to the sentence before is at least g.Threshold and
// the passage stays under g.MaxCharacters, and within g.MaxTokens.
func similar(text string, sentences []Range, cosines []float64, g schema.Segmentation) []Range {
	return grow(text, sentences, func(p Range) bool {
		last := p.End - 2 // the sentence before the one that would come in
		if cosines[last] < g.Threshold && !isHeading(text, sentences, last) {
			return false
		}
		whole := span(sentences, p).Of(text)
		return utf8.RuneCountInString(strings.TrimSpace(whole)) < g.MaxCharacters && CountTokens(whole) <= g.MaxTokens
	})
}

// counted makes a passage of every g.Sentences sentences (SAKI-RAG section 4.1:
// two), as far as they are within g.MaxTokens. A heading begins a passage and is
// not counted.
func counted(text string, sentences []Range, g schema.Segmentation) []Range {
	return grow(text, sentences, func(p Range) bool {
		n := 0
		for i := p.Start; i < p.End; i++ {
			if !isHeading(text, sentences, i) {
				n++
			} else if n > 0 {
				return false
			}
		}
		return n <= g.Sentences && CountTokens(span(sentences, p).Of(text)) <= g.MaxTokens
	})
}

// grow makes passages from the beginning on, ranges of sentence numbers: each
// takes in sentences while fits says that it may be so long.
func grow(text string, sentences []Range, fits func(p Range) bool) []Range {
	var out []Range
	p := Range{0, 1}
	for p.End < len(sentences) {
		if longer := (Range{p.Start, p.End + 1}); fits(longer) {
			p = longer
			continue
		}
		out = append(out, p)
		p = Range{p.End, p.End + 1}
	}
	return append(out, p)
}

// isHeading reports whether sentence i is a paragraph of its own that does not
// end as a sentence does.
func isHeading(text string, sentences []Range, i int) bool {
	body := strings.TrimSpace(sentences[i].Of(text))
	return !endsSentence(body) && ownParagraph(text, sentences, Range{i, i + 1})
}

// ownParagraph reports whether the sentences [p.Start, p.End) are a paragraph of their
// own, with another behind it.
func ownParagraph(text string, sentences []Range, p Range) bool {
	before := p.Start == 0 || endsParagraph(sentences[p.Start-1].Of(text))
	return before && endsParagraph(sentences[p.End-1].Of(text))
}

// splitCharacters returns units with every one of more than limit characters cut
// into ranges of at most limit, white space around them aside, between words
// where it has any.
func splitCharacters(text string, units []Range, limit int) []Range {
	out := units[:0:0]
	for _, u := range units {
		for {
			body := strings.TrimSpace(u.Of(text))
			if u.End-u.Start <= limit || utf8.RuneCountInString(body) <= limit {
				break
			}
			lead := strings.Index(u.Of(text), body)
			n := lead + takeCharacters(body, limit)
			for n < u.End-u.Start { // white space belongs to what is before it
				r, size := utf8.DecodeRuneInString(text[u.Start+n : u.End])
				if !isSpace(string(r)) {
					break
				}
				n += size
			}
			out = append(out, Range{u.Start, u.Start + n})
			u.Start += n
		}
		out = append(out, u)
	}
	return out
}

// takeCharacters returns the length in bytes of the longest beginning of s that
// has at most limit characters and ends between words; inside a word only where
// the word alone is longer.
func takeCharacters(s string, limit int) int {
	n, end := 0, 0
	for it := words.FromString(s); it.Next(); {
		word := it.Value()
		n += utf8.RuneCountInString(word)
		if n > limit {
			break
		}
		end += len(word)
	}
	if end == 0 {
		return takeRunes(s, limit)
	}
	return end
}
