package inference

// This file finds answer spans: the best pair of tokens, and the part of the text that they stand for.

import (
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/inference/tokenizer"
)

// maxAnswerTokens is the longest answer span that is considered.
const maxAnswerTokens = 30

// bestSpan is the span of at most longest tokens whose start and end have the highest sum.
func bestSpan(start, end []float32, longest int) (first, last int, score float32) {
	last = -1
	for i, s := range start {
		for j, e := range end[i:min(i+longest, len(end))] {
			if last < 0 || s+e > score {
				first, last, score = i, i+j, s+e
			}
		}
	}
	return first, last, score
}

// words is the part of text from one token to another, in bytes: whole words with their marks, whatever the pieces
// are that the model chose.
func words(text string, first, last tokenizer.Span) (start, end int) {
	start, end = first.Start, last.End
	for start > 0 {
		r, size := utf8.DecodeLastRuneInString(text[:start])
		next, _ := utf8.DecodeRuneInString(text[start:])
		if !sameWord(r, next) {
			break
		}
		start -= size
	}
	for end < len(text) {
		r, _ := utf8.DecodeLastRuneInString(text[:end])
		next, size := utf8.DecodeRuneInString(text[end:])
		if !sameWord(r, next) {
			break
		}
		end += size
	}
	return start, end
}

// unspaced are scripts that don't part words by spaces: there a run of letters isn't a word.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

// sameWord reports whether neighbouring characters belong to one word.
func sameWord(r, next rune) bool {
	if unicode.Is(unicode.M, next) {
		return !unicode.IsSpace(r)
	}
	inWord := func(r rune) bool {
		return unicode.In(r, unicode.L, unicode.N, unicode.M) && !unicode.In(r, unspaced...)
	}
	return inWord(r) && inWord(next)
}
