package identity

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// partKind says whether a part consists of letters or digits.
type partKind int

const (
	letters partKind = iota
	digits
)

// part is a run of letters or of digits. File names join what a sentence separates, so a part ends
// where letters meet digits and where a capital follows a small letter.
type part struct {
	text string
	kind partKind
	// gap is the text before the part: empty where parts are written as one word, otherwise the
	// punctuation or space between them.
	gap string
}

// split divides a text into its parts.
func split(s string) []part {
	var out []part
	end := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		k, ok := kindOf(r)
		if !ok {
			i += size
			continue
		}
		start := i
		for last := r; i < len(s); {
			r, size = utf8.DecodeRuneInString(s[i:])
			if next, ok := kindOf(r); !ok || next != k || i > start && unicode.IsUpper(r) && unicode.IsLower(last) {
				break
			}
			last = r
			i += size
		}
		out = append(out, part{text: s[start:i], kind: k, gap: s[end:start]})
		end = i
	}
	return out
}

func kindOf(r rune) (partKind, bool) {
	switch {
	case unicode.IsDigit(r):
		return digits, true
	case unicode.IsLetter(r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Mc, r):
		return letters, true
	}
	return 0, false
}

// close reports whether p follows the part before it directly, or after one mark that joins codes.
func (p part) close() bool {
	return p.gap == "" || p.gap == "-" || p.gap == "_" || p.gap == "/" || p.gap == "."
}

const (
	maxCodeLetters = 4
	maxCodeDigits  = 6
)

// codeAt returns the code that begins at a part: letters and digits that are written as one word or
// joined by a mark, such as 10-K, KD-40, ISO 9001 or A4.
func codeAt(parts []part, i int) (string, bool) {
	if i+1 >= len(parts) {
		return "", false
	}
	a, b := parts[i], parts[i+1]
	if a.kind == b.kind || !b.close() && !(b.gap == " " && capitals(a.text)) {
		return "", false
	}
	word, number := a.text, b.text
	if a.kind == digits {
		word, number = b.text, a.text
	}
	if utf8.RuneCountInString(word) > maxCodeLetters || len(number) > maxCodeDigits {
		return "", false
	}
	if _, is := year(number); is && a.kind == letters && !capitals(word) {
		return "", false // "in-2018"
	}
	return strings.ToLower(a.text + b.text), true
}

// withoutKeys removes generated parts of a name, hashes and UUIDs, whose digits would be mistaken
// for years and numbers. These are runs of at least leastKey hexadecimal digits with both digits
// and letters, and further hexadecimal runs joined to them by dashes.
func withoutKeys(s string) string {
	var out strings.Builder
	inKey := false
	for len(s) > 0 {
		end := strings.IndexFunc(s, func(r rune) bool { _, ok := kindOf(r); return !ok })
		if end < 0 {
			end = len(s)
		}
		run := s[:end]
		if key := hexadecimal(run); key && (len(run) >= leastKey && mixed(run) || inKey) {
			inKey = true
		} else {
			inKey = false
			out.WriteString(run)
		}
		if s = s[end:]; s != "" {
			_, size := utf8.DecodeRuneInString(s)
			inKey = inKey && s[0] == '-'
			out.WriteString(s[:size])
			s = s[size:]
		}
	}
	return out.String()
}

const leastKey = 6

func hexadecimal(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// mixed reports whether a hexadecimal run has both letters and digits.
func mixed(s string) bool {
	return strings.ContainsAny(s, "0123456789") && strings.ContainsAny(s, "abcdefABCDEF")
}

func capitals(s string) bool {
	return utf8.RuneCountInString(s) > 1 && strings.ToUpper(s) == s && strings.ToLower(s) != s
}
