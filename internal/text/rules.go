package text

// Methods that cut sections into passages without a segmentation model: ChunkRAG's, by the
// similarity of neighbouring sentences, and SAKI-RAG's, by their number. The papers have no
// headings; here a heading stays with the text after it, because a passage of only a heading says
// nothing.

import (
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"

	"github.com/sluice-rag/sluice/schema"
)

// passagesBySimilarity is ChunkRAG's chunk formation (section 3.1): a sentence joins the passage
// while its cosine to the previous sentence is at least g.Threshold, and the passage stays under
// g.MaxCharacters and within g.MaxTokens.
func passagesBySimilarity(text string, sentences []Range, cosines []float64, g schema.Segmentation) []Range {
	return grow(text, sentences, func(p Range) bool {
		last := p.End - 2 // the sentence before the one to be added
		if cosines[last] < g.Threshold && !isHeading(text, sentences, last) {
			return false
		}
		body := span(sentences, p).Of(text)
		return utf8.RuneCountInString(strings.TrimSpace(body)) < g.MaxCharacters && CountTokens(body) <= g.MaxTokens
	})
}

// passagesBySentenceCount makes a passage of every g.Sentences sentences (SAKI-RAG section 4.1:
// two), or fewer to stay within g.MaxTokens. A heading begins a passage and is not counted.
func passagesBySentenceCount(text string, sentences []Range, g schema.Segmentation) []Range {
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

// grow makes passages greedily from the beginning, as ranges of sentence numbers: each takes in
// sentences while fits returns true for the longer passage.
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

// isHeading reports whether sentence i is a separate paragraph without the punctuation that ends a
// sentence.
func isHeading(text string, sentences []Range, i int) bool {
	body := strings.TrimSpace(sentences[i].Of(text))
	return !endsSentence(body) && ownParagraph(text, sentences, Range{i, i + 1})
}

// ownParagraph reports whether the sentences [p.Start, p.End) are a separate paragraph that is
// followed by another.
func ownParagraph(text string, sentences []Range, p Range) bool {
	before := p.Start == 0 || endsParagraph(sentences[p.Start-1].Of(text))
	return before && endsParagraph(sentences[p.End-1].Of(text))
}

// splitCharacters returns units, in which each unit of more than limit characters, not counting
// white space around it, is cut into ranges of at most limit characters, between words if possible.
func splitCharacters(text string, units []Range, limit int) []Range {
	out := units[:0:0]
	for _, u := range units {
		for {
			body := strings.TrimSpace(u.Of(text))
			if u.End-u.Start <= limit || utf8.RuneCountInString(body) <= limit {
				break
			}
			offset := strings.Index(u.Of(text), body)
			n := offset + takeCharacters(body, limit)
			for n < u.End-u.Start { // white space belongs to the part before it
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

// takeCharacters returns the length in bytes of the longest prefix of s that has at most limit
// characters and ends between words. It cuts a word only if the first word alone is longer.
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
