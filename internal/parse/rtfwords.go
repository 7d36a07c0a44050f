package parse

// RTF's control words and the tokens that a file consists of.

import (
	"strconv"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

const defaultCodePage = 1252

// codePages maps the numbers of code pages to encodings.
var codePages = map[int]encoding.Encoding{
	437: charmap.CodePage437, 850: charmap.CodePage850, 852: charmap.CodePage852, 855: charmap.CodePage855, 858: charmap.CodePage858,
	860: charmap.CodePage860, 862: charmap.CodePage862, 863: charmap.CodePage863, 865: charmap.CodePage865, 866: charmap.CodePage866,
	874: charmap.Windows874, 932: japanese.ShiftJIS, 936: simplifiedchinese.GBK, 949: korean.EUCKR, 950: traditionalchinese.Big5,
	1250: charmap.Windows1250, 1251: charmap.Windows1251, 1252: charmap.Windows1252, 1253: charmap.Windows1253, 1254: charmap.Windows1254,
	1255: charmap.Windows1255, 1256: charmap.Windows1256, 1257: charmap.Windows1257, 1258: charmap.Windows1258,
	10000: charmap.Macintosh, 10007: charmap.MacintoshCyrillic,
}

// fontPages maps fonts' character sets to code pages; the sets 0 and 1 determine none.
var fontPages = map[int]int{
	77: 10000, 128: 932, 129: 949, 134: 936, 136: 950, 161: 1253, 162: 1254, 163: 1258, 177: 1255, 178: 1256, 186: 1257, 204: 1251,
	222: 874, 238: 1250, 255: 437,
}

// signs maps control words to the characters they stand for.
var signs = map[string]string{
	"emdash": "—", "endash": "–", "bullet": "•", "lquote": "‘", "rquote": "’", "ldblquote": "“", "rdblquote": "”",
	"tab": " ", "line": " ", "emspace": " ", "enspace": " ", "qmspace": " ", "~": " ", "_": "-", "\\": "\\", "{": "{", "}": "}",
	"zwj": "\u200D", "zwnj": "\u200C",
}

// word executes a control word.
func (r *rtfReader) word(t rtfToken) {
	if s, is := signs[t.word]; is {
		r.write(s)
		return
	}
	if to, begins := destinations[t.word]; begins {
		r.begin(t.word, to)
		return
	}
	switch t.word {
	case "*":
		// An optional destination is left out unless the next word is known.
		if next, ok := r.in.next(); ok {
			if to, ok := destinations[next.word]; next.kind == rtfWord && ok {
				r.begin(next.word, to)
			} else if r.state.to = toNowhere; next.kind != rtfWord {
				r.in.back(next)
			}
		}
	case "ansicpg":
		r.page = t.number
	case "mac":
		r.page = 10000
	case "pc":
		r.page = 437
	case "pca":
		r.page = 850
	case "uc":
		r.state.skip = min(max(t.number, 0), 16)
	case "f":
		r.state.font, r.font = t.number, t.number
	case "fcharset":
		if page := fontPages[t.number]; page != 0 && r.state.to == toFonts && len(r.fonts) < 10_000 {
			r.fonts[r.font] = page
		}
	case "v":
		r.state.hidden = !t.has || t.number != 0
	case "deleted":
		r.state.deleted = !t.has || t.number != 0
	case "plain":
		r.state.hidden, r.state.deleted = false, false
	case "s":
		if r.state.to == toStyles {
			r.style = t.number
		} else if level := r.styles[t.number]; level > 0 {
			r.body.outline = level
		}
	case "outlinelevel":
		if r.state.to == toStyles {
			if t.number >= 0 && t.number < 9 && len(r.styles) < 10_000 {
				r.styles[r.style] = t.number + 1
			}
		} else if t.number >= 0 && t.number < 9 {
			r.body.outline = t.number + 1
		}
	case "ls":
		r.body.list = t.number > 0
	case "ilvl":
		r.body.level = max(t.number, 0)
	default:
		r.layout(t.word)
	}
}

// begin directs the text of the group to another destination.
func (r *rtfReader) begin(word string, to destination) {
	if r.state.to == toNowhere {
		return
	}
	if word == "title" && r.state.to != toInfo {
		return
	}
	if word == "footnote" {
		r.state.note, r.body = r.body, &rtfText{}
	}
	r.state.to = to
}

// layout ends paragraphs, cells and rows.
func (r *rtfReader) layout(word string) {
	if r.state.to != toBody {
		switch word {
		case "par", "sect", "page", "cell", "row":
			r.write(" ")
		}
		return
	}
	switch word {
	case "par", "sect", "page", "\n", "\r":
		r.endParagraph()
	case "pard":
		r.body.outline, r.body.list, r.body.level, r.body.inTable = 0, false, 0, false
	case "intbl":
		r.body.inTable = true
	case "trowd":
		r.body.inTable = true
	case "cell", "nestcell":
		r.endCell()
	case "row", "nestrow":
		r.endRow()
	}
}

// rtfKind is the kind of a token.
type rtfKind int

const (
	rtfOpen rtfKind = iota
	rtfClose
	rtfByte
	rtfWord // a control word or symbol; "'" has the number of a byte
)

type rtfToken struct {
	kind   rtfKind
	char   byte
	word   string
	number int
	has    bool // the word has a number
}

// rtfTokens splits a file into tokens.
type rtfTokens struct {
	data   []byte
	at     int
	before *rtfToken
}

// back makes next return t again.
func (s *rtfTokens) back(t rtfToken) { s.before = &t }

func (s *rtfTokens) next() (t rtfToken, ok bool) {
	if s.before != nil {
		t, s.before = *s.before, nil
		return t, true
	}
	for s.at < len(s.data) {
		c := s.data[s.at]
		s.at++
		switch c {
		case '\r', '\n', 0:
			continue
		case '{':
			return rtfToken{kind: rtfOpen}, true
		case '}':
			return rtfToken{kind: rtfClose}, true
		case '\\':
			return s.control()
		}
		return rtfToken{kind: rtfByte, char: c}, true
	}
	return rtfToken{}, false
}

// control reads the token after a backslash.
func (s *rtfTokens) control() (rtfToken, bool) {
	if s.at >= len(s.data) {
		return rtfToken{}, false
	}
	begin := s.at
	for s.at < len(s.data) && s.at-begin < 32 && letter(s.data[s.at]) {
		s.at++
	}
	if s.at == begin { // a symbol
		c := s.data[s.at]
		s.at++
		if c != '\'' {
			return rtfToken{kind: rtfWord, word: string(rune(c))}, true
		}
		if s.at+2 <= len(s.data) {
			if n, err := strconv.ParseUint(string(s.data[s.at:s.at+2]), 16, 8); err == nil {
				s.at += 2
				return rtfToken{kind: rtfWord, word: "'", number: int(n), has: true}, true
			}
		}
		return rtfToken{kind: rtfByte, char: '?'}, true
	}
	t := rtfToken{kind: rtfWord, word: string(s.data[begin:s.at])}
	begin = s.at
	if s.at < len(s.data) && s.data[s.at] == '-' {
		s.at++
	}
	for s.at < len(s.data) && s.at-begin < 11 && s.data[s.at] >= '0' && s.data[s.at] <= '9' {
		s.at++
	}
	if n, err := strconv.Atoi(string(s.data[begin:s.at])); err == nil {
		t.number, t.has = n, true
	} else {
		s.at = begin
	}
	if s.at < len(s.data) && s.data[s.at] == ' ' {
		s.at++
	}
	if t.word == "bin" { // binary data of a picture
		s.at = min(s.at+max(t.number, 0), len(s.data))
		return s.next()
	}
	return t, true
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
