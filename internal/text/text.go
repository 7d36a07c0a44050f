// Package text has Sluice's rules about plain text that need no model: sentences, a token counter,
// the cutting of parsed documents into sections and of sections into passages. It is pure: no I/O,
// no state, no model.
//
// All offsets are UTF-8 byte offsets. A list of ranges "tiles" a text when the ranges are in order,
// none is empty, each starts where the previous one ends, and together they cover the text from 0
// to its length.
package text

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Range is the bytes [Start, End) of a text.
type Range struct {
	Start int
	End   int
}

// Of returns the part of s that r covers.
func (r Range) Of(s string) string { return s[r.Start:r.End] }

// Trim returns the range r of s without the white space at both ends.
func Trim(s string, r Range) Range {
	body := r.Of(s)
	r.Start += len(body) - len(strings.TrimLeftFunc(body, unicode.IsSpace))
	return Range{r.Start, r.Start + len(strings.TrimSpace(body))}
}

// Clean returns s without U+0000, byte order marks and invalid UTF-8, and with every line ending
// (CR LF, CR, U+0085, U+2028, U+2029) as one "\n", so that it can be stored. Other characters stay
// as they are.
func Clean(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1, r == 0, r == '\uFEFF':
		case r == '\r':
			if i+1 == len(s) || s[i+1] != '\n' {
				b.WriteByte('\n')
			}
		case r == '\u0085', r == '\u2028', r == '\u2029':
			b.WriteByte('\n')
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// clean reports whether Clean would change nothing.
func clean(s string) bool {
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c == 0 || c == '\r' {
				return false
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || r == '\u0085' || r == '\u2028' || r == '\u2029' || r == '\uFEFF' {
			return false
		}
		i += n
	}
	return true
}
