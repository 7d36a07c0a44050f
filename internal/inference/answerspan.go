package inference

// This file finds answer spans: the best pair of tokens, and the part of the text that they stand
// for.

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/inference/tokenizer"
)

const (
	// maxAnswerTokens is the longest answer span that is considered.
	maxAnswerTokens = 30
	// maxOtherSpans is how many further spans of a text are told.
	maxOtherSpans = 3
)

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

// tokenSpan is an answer in tokens of a text, both ends included, with the sum of its start and
// end.
type tokenSpan struct {
	first, last int
	score       float32
}

// otherSpans are the best spans that share no token with the given one, nor with each other, best
// first.
func otherSpans(start, end []float32, longest int, best tokenSpan, most int) []tokenSpan {
	var left []tokenSpan // the best of each run of tokens that no span has yet, with the run
	var runs [][2]int
	look := func(from, to int) {
		if first, last, score := bestSpan(start[from:to], end[from:to], longest); last >= first {
			left, runs = append(left, tokenSpan{from + first, from + last, score}), append(runs, [2]int{from, to})
		}
	}
	look(0, best.first)
	look(best.last+1, len(start))
	var out []tokenSpan
	for len(out) < most && len(left) > 0 {
		at := 0
		for i := range left {
			if left[i].score > left[at].score {
				at = i
			}
		}
		next, run := left[at], runs[at]
		left, runs = slices.Delete(left, at, at+1), slices.Delete(runs, at, at+1)
		out = append(out, next)
		look(run[0], next.first)
		look(next.last+1, run[1])
	}
	return out
}

// words is the part of text from one token to another, in bytes: whole words with their marks,
// whatever the pieces are that the model chose.
func words(text string, first, last tokenizer.ByteRange) (start, end int) {
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
