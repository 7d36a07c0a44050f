package text

// The token counter that defines the sizes of sections, clusters and passages, whatever model is in
// use. Model inputs are counted by the model's own tokenizer, not here.

import (
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
)

// runesPerToken is how many characters of an unbroken run count as one token, so that a long code
// or a base64 blob counts as several.
const runesPerToken = 16

// CountTokens counts the tokens of s: the segments between the word boundaries
// of Unicode Standard Annex 29 that are not white space. A word, a number
// ("3.14"), an ideograph and a punctuation mark are one token each; a segment of
// more than 16 characters counts one token per 16 characters begun.
// English prose has about 1.15 tokens per word.
func CountTokens(s string) int {
	n := 0
	run, before := 0, 0 // where the characters since the last white space begin, and the tokens before them
	for i := 0; i < len(s); {
		last := tokenClasses[s[i]]
		switch last {
		case classSpace:
			i++
			run, before = i, n
			continue
		case classWide:
			end := i
			for end < len(s) && tokenClasses[s[end]] != classSpace {
				end++
			}
			chunk := s[run:end]
			if !utf8.ValidString(chunk) || run > 0 && joinsSpace(chunk) {
				return countSegments(s)
			}
			n, i = before+countSegments(chunk), end
			continue
		}
		// ASCII needs no tables. This is several times as fast as with the annex's, which matters
		// because most text is English prose.
		start := i
		i++
		for last != classOther && i < len(s) {
			class := tokenClasses[s[i]]
			if class == classLetter || class == classDigit || class == classJoin {
				last = class
				i++
				continue
			}
			// A mark between two letters or two digits belongs to the word: rules WB6, WB7, WB11
			// and WB12.
			if class != classOther || i+1 == len(s) || last == classJoin || tokenClasses[s[i+1]] != last || !asciiMark(s[i], last) {
				break
			}
			i += 2
		}
		n += (i - start + runesPerToken - 1) / runesPerToken
	}
	return n
}

// countSegments counts tokens as CountTokens does, with the annex's own tables.
func countSegments(s string) int {
	n := 0
	for it := words.FromString(s); it.Next(); {
		n += segmentTokens(it.Value())
	}
	return n
}

// Classes of bytes: of ASCII characters letters, digits, the underscore, which joins both, white
// space and others, and the bytes of all other characters.
const (
	classOther = iota
	classLetter
	classDigit
	classJoin
	classSpace
	classWide
)

var tokenClasses = func() (classes [256]byte) {
	for i := range classes {
		switch c := byte(i); {
		case c >= utf8.RuneSelf:
			classes[i] = classWide
		case isASCIISpace(c):
			classes[i] = classSpace
		case 'a' <= c|0x20 && c|0x20 <= 'z':
			classes[i] = classLetter
		case '0' <= c && c <= '9':
			classes[i] = classDigit
		case c == '_':
			classes[i] = classJoin
		}
	}
	return classes
}()

// asciiMark reports whether c joins two characters of a class.
func asciiMark(c, class byte) bool {
	switch c {
	case '.', '\'':
		return true
	case ':':
		return class == classLetter
	case ',', ';':
		return class == classDigit
	}
	return false
}

func isASCIISpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// joinsSpace reports whether chunk begins with a character that the annex joins to preceding white
// space.
func joinsSpace(chunk string) bool {
	r, _ := utf8.DecodeRuneInString(chunk)
	return r >= utf8.RuneSelf && (unicode.In(r, unicode.M, unicode.Cf) || unicode.IsSpace(r))
}

// segmentTokens counts the tokens of one word segment.
func segmentTokens(seg string) int {
	if len(seg) <= runesPerToken {
		if len(seg) == 1 && seg[0] > ' ' || !isSpace(seg) {
			return 1
		}
		return 0
	}
	if isSpace(seg) {
		return 0
	}
	return (utf8.RuneCountInString(seg) + runesPerToken - 1) / runesPerToken
}

// isSpace reports whether s consists of white space only.
func isSpace(s string) bool {
	for _, r := range s {
		if !unicode.IsSpace(r) {
			return false
		}
	}
	return true
}

// takeTokens returns the length in bytes of the longest prefix of s that has at most limit tokens
// and ends between words. It cuts a word only if the word alone is over the limit. It returns at
// least one character of a non-empty s.
func takeTokens(s string, limit int) int {
	n, end := 0, 0
	for it := words.FromString(s); it.Next(); {
		seg := it.Value()
		t := segmentTokens(seg)
		if n+t > limit {
			if end == 0 || n == 0 {
				return end + takeRunes(seg, max(limit, 1)*runesPerToken)
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
