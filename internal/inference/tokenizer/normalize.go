package tokenizer

// This file is BERT's text normalisation and word splitting. It removes control characters,
// separates Chinese characters, strips accents and lowercases. Then it splits the text into words
// and single punctuation marks.

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

type normalizer struct {
	clean, chinese, strip, lower bool
}

// words calls yield with each normalised word and punctuation mark of text, in order. The slice is
// reused.
func (n normalizer) words(text string, yield func(word []byte)) {
	// What is between two of these characters is normalised by itself. The other white space of
	// ASCII is removed where the text is cleaned.
	const spaces = " \t\n\r"
	for {
		wide := strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf })
		if wide < 0 {
			n.ascii(text, yield)
			return
		}
		start, end := strings.LastIndexAny(text[:wide], spaces)+1, len(text)
		if i := strings.IndexAny(text[wide:], spaces); i >= 0 {
			end = wide + i
		}
		n.ascii(text[:start], yield)
		split(n.normalize(text[start:end]), yield)
		text = text[end:]
	}
}

// ascii does for ASCII text what normalize and split do for any text.
func (n normalizer) ascii(text string, yield func(word []byte)) {
	word := make([]byte, 0, 64)
	flush := func() {
		if len(word) > 0 {
			yield(word)
			word = word[:0]
		}
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == ' ' || c >= '\t' && c <= '\r':
			if n.clean && (c == '\v' || c == '\f') {
				continue // control characters, not spaces
			}
			flush()
		case n.clean && (c < ' ' || c == 0x7F):
		case isASCIIPunctuation(c):
			flush()
			yield(append(word, c))
		default:
			if n.lower && 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			word = append(word, c)
		}
	}
	flush()
}

func (n normalizer) normalize(text string) []byte {
	out := make([]byte, 0, len(text)+len(text)/8)
	for _, r := range text {
		if n.clean {
			if r == 0 || r == utf8.RuneError || isControl(r) {
				continue
			}
			if isSpace(r) {
				r = ' '
			}
		}
		if r < utf8.RuneSelf {
			out = append(out, byte(r))
			continue
		}
		if n.chinese && isChinese(r) {
			out = append(out, ' ')
			out = utf8.AppendRune(out, r)
			out = append(out, ' ')
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	if n.strip {
		out = stripMarks(norm.NFD.Bytes(out))
	}
	if n.lower {
		out = lower(out)
	}
	return out
}

func stripMarks(text []byte) []byte {
	out := text[:0]
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if size == 1 || !unicode.Is(unicode.Mn, r) {
			out = append(out, text[i:i+size]...)
		}
		i += size
	}
	return out
}

// lower maps each character by itself, without rules that depend on its neighbours, such as that of
// the final sigma.
func lower(text []byte) []byte {
	out := make([]byte, 0, len(text)+4)
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		i += size
		switch {
		case r < utf8.RuneSelf:
			if 'A' <= r && r <= 'Z' {
				r += 'a' - 'A'
			}
			out = append(out, byte(r))
		case r == 'İ': // the only letter whose lower case is two characters
			out = append(out, "i\u0307"...)
		default:
			out = utf8.AppendRune(out, unicode.ToLower(r))
		}
	}
	return out
}

func split(text []byte, yield func(word []byte)) {
	ranges(text, func(start, end int) { yield(text[start:end]) })
}

// ranges calls yield with the range of each word and punctuation mark of normalised text.
func ranges(text []byte, yield func(start, end int)) {
	start := 0
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		space := isSpace(r)
		if space || isPunctuation(r) {
			if i > start {
				yield(start, i)
			}
			if !space {
				yield(i, i+size)
			}
			start = i + size
		}
		i += size
	}
	if len(text) > start {
		yield(start, len(text))
	}
}

func isSpace(r rune) bool {
	if r < utf8.RuneSelf {
		return r == ' ' || '\t' <= r && r <= '\r'
	}
	return unicode.Is(unicode.White_Space, r)
}

func isControl(r rune) bool {
	switch {
	case r == '\t' || r == '\n' || r == '\r':
		return false
	case r < utf8.RuneSelf:
		return r < ' ' || r == 0x7F
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co)
}

// isChinese uses the ranges of the tokenizers library, which differ a little from Unicode's blocks.
func isChinese(r rune) bool {
	switch {
	case r < 0x3400:
		return false
	case r <= 0x4DBF, 0x4E00 <= r && r <= 0x9FFF, 0xF900 <= r && r <= 0xFAFF,
		0x20000 <= r && r <= 0x2A6DF, 0x2A700 <= r && r <= 0x2B73F, 0x2B740 <= r && r <= 0x2B81F,
		0x2B920 <= r && r <= 0x2CEAF, 0x2F800 <= r && r <= 0x2FA1F:
		return true
	}
	return false
}

func isASCIIPunctuation(c byte) bool {
	return 33 <= c && c <= 47 || 58 <= c && c <= 64 || 91 <= c && c <= 96 || 123 <= c && c <= 126
}

func isPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return isASCIIPunctuation(byte(r))
	}
	return unicode.Is(unicode.P, r)
}
