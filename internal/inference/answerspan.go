package inference

// This file finds answer spans: the best pair of tokens, and the range of the text that they cover.

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/inference/tokenizer"
)

const (
	// maxAnswerTokens is the longest answer span that is considered.
	maxAnswerTokens = 30
	// maxOtherSpans is how many further spans of a text are returned.
	maxOtherSpans = 3
)

// bestSpan returns the span of at most longest tokens whose start and end scores have the highest
// sum. Without tokens, last is -1.
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

// tokenSpan is an answer span in tokens of a text, both ends included, and the sum of its start and
// end scores.
type tokenSpan struct {
	first, last int
	score       float32
}

// otherSpans returns up to most of the best spans that overlap neither best nor each other, best
// first.
func otherSpans(start, end []float32, longest int, best tokenSpan, limit int) []tokenSpan {
	var candidates []tokenSpan // the best span of each run of tokens that no chosen span covers; runs has the run
	var runs [][2]int
	addBest := func(from, to int) {
		if first, last, score := bestSpan(start[from:to], end[from:to], longest); last >= first {
			candidates, runs = append(candidates, tokenSpan{from + first, from + last, score}), append(runs, [2]int{from, to})
		}
	}
	addBest(0, best.first)
	addBest(best.last+1, len(start))
	var out []tokenSpan
	for len(out) < limit && len(candidates) > 0 {
		top := 0
		for i := range candidates {
			if candidates[i].score > candidates[top].score {
				top = i
			}
		}
		next, run := candidates[top], runs[top]
		candidates, runs = slices.Delete(candidates, top, top+1), slices.Delete(runs, top, top+1)
		out = append(out, next)
		addBest(run[0], next.first)
		addBest(next.last+1, run[1])
	}
	return out
}

// expandToWords returns the byte range of text from one token to another, extended to whole words
// with their combining marks.
func expandToWords(text string, first, last tokenizer.ByteRange) (start, end int) {
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

// scriptsWithoutSpaces are scripts that don't separate words by spaces: in them a run of letters is
// not a word.
var scriptsWithoutSpaces = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

// sameWord reports whether neighbouring characters belong to one word.
func sameWord(r, next rune) bool {
	if unicode.Is(unicode.M, next) {
		return !unicode.IsSpace(r)
	}
	inWord := func(r rune) bool {
		return unicode.In(r, unicode.L, unicode.N, unicode.M) && !unicode.In(r, scriptsWithoutSpaces...)
	}
	return inWord(r) && inWord(next)
}
