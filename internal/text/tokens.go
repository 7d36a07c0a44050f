package text

// The one counter of tokens: the sizes of sections, clusters and passages are in
// its unit, whatever model is in use. Model inputs are counted by the model's own
// tokenizer, not here.

import (
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
)

// tokenRunes is how many characters of one unbroken run count as one token, so
// that a long code or a base64 blob is not one token.
const tokenRunes = 16

// CountTokens counts the tokens of s: the segments between the word boundaries
// of Unicode Standard Annex 29 that are not white space. A word, a number
// ("3.14"), an ideograph and a punctuation mark are one token each; a segment of
// more than 16 characters counts one token per 16 characters begun.
// English prose has about 1.15 tokens per word.
func CountTokens(s string) int {
	n := 0
	for it := words.FromString(s); it.Next(); {
		n += segmentTokens(it.Value())
	}
	return n
}

// segmentTokens counts the tokens of one word segment.
func segmentTokens(seg string) int {
	if len(seg) <= tokenRunes {
		if len(seg) == 1 && seg[0] > ' ' || !isSpace(seg) {
			return 1
		}
		return 0
	}
	if isSpace(seg) {
		return 0
	}
	return (utf8.RuneCountInString(seg) + tokenRunes - 1) / tokenRunes
}

// isSpace reports whether s is white space only.
func isSpace(s string) bool {
	for _, r := range s {
		if !unicode.IsSpace(r) {
			return false
		}
	}
	return true
}

// takeTokens returns the length in bytes of the longest beginning of s that has
// at most limit tokens and ends between words; inside a word only where the word
// alone is over the limit. It returns at least one character of a non-empty s.
func takeTokens(s string, limit int) int {
	n, end := 0, 0
	for it := words.FromString(s); it.Next(); {
		seg := it.Value()
		t := segmentTokens(seg)
		if n+t > limit {
			if end == 0 || n == 0 {
				return end + takeRunes(seg, max(limit, 1)*tokenRunes)
			}
			return end
		}
		n += t
		end += len(seg)
	}
	return end
}

// takeRunes returns the length in bytes of the first n characters of s.
func takeRunes(s string, n int) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}
