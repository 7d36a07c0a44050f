package parse

// From bytes to text: by byte order marks, UTF-16 without one, declared charsets, and the
// statistics of the bytes.

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gogs/chardet"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode/utf32"
)

// decode returns data as clean text. It fails with the reason unsupported for binary data, and with
// the reason encoding for text in no known encoding.
func decode(data []byte, h hint) (string, []string, error) {
	switch {
	case bytes.HasPrefix(data, []byte("\xEF\xBB\xBF")):
		data = data[3:]
	case bytes.HasPrefix(data, []byte("\xFF\xFE\x00\x00")):
		return decodeUTF32(data[4:], utf32.LittleEndian)
	case bytes.HasPrefix(data, []byte("\x00\x00\xFE\xFF")):
		return decodeUTF32(data[4:], utf32.BigEndian)
	case bytes.HasPrefix(data, []byte("\xFF\xFE")):
		return decodeUTF16(data[2:], false)
	case bytes.HasPrefix(data, []byte("\xFE\xFF")):
		return decodeUTF16(data[2:], true)
	}
	if utf8.Valid(data) {
		if isBinary(data) {
			if big, ok := guessUTF16(data); ok {
				return decodeUTF16(data, big)
			}
			return "", nil, unsupported("a binary file")
		}
		return text.Clean(string(data)), nil, nil
	}
	if big, ok := guessUTF16(data); ok {
		return decodeUTF16(data, big)
	}
	if isBinary(data) {
		return "", nil, unsupported("a binary file")
	}
	if s, name, ok := declared(data, h); ok {
		return s, converted(name), nil
	}
	if invalid := damaged(data); invalid > 0 {
		return text.Clean(string(data)), []string{fmt.Sprintf("%d invalid bytes were left out", invalid)}, nil
	}
	if s, name, ok := guess(data); ok {
		return s, converted(name), nil
	}
	return "", nil, fail(schema.ReasonEncoding, "Its text is in an encoding that could not be recognised. Save it as UTF-8 and send it again.")
}

func converted(name string) []string { return []string{"converted from " + name} }

// isBinary reports whether data has control characters that do not occur in text.
func isBinary(data []byte) bool {
	sample := data[:min(len(data), 1<<20)]
	control := 0
	for _, c := range sample {
		if c < 0x20 && c != '\t' && c != '\n' && c != '\r' && c != '\f' && c != 0x1B || c == 0x7F {
			control++
		}
	}
	// A few stray control characters are tolerated.
	return control > 3 && control*200 > len(sample)
}

// guessUTF16 recognises UTF-16 without a byte order mark: in the right byte order it is nearly all
// letters, digits, marks and spaces of few scripts, with line breaks or spaces, and in the other
// byte order it is not.
func guessUTF16(data []byte) (big, ok bool) {
	if len(data) < 4 || len(data)%2 != 0 {
		return false, false
	}
	sample := data[:min(len(data), 64<<10)]
	if bytes.IndexByte(sample, 0) < 0 {
		return false, false
	}
	le, be := plausibleUTF16(sample, false), plausibleUTF16(sample, true)
	switch {
	case le > 0.97 && le > be+0.1:
		return false, true
	case be > 0.97 && be > le+0.1:
		return true, true
	}
	return false, false
}

// plausibleUTF16 returns the share of sample's characters that are plausible in text.
func plausibleUTF16(sample []byte, big bool) float64 {
	valid, spaces := 0, 0
	runes := utf16.Decode(units(sample, big))
	for _, r := range runes {
		switch {
		case r == ' ' || r == '\n' || r == '\r' || r == '\t' || r == '\u3000' || r == '\u3002':
			spaces++
			valid++
		case r == utf8.RuneError, unicode.IsControl(r):
		case r < 0x3000 || r >= 0xFF00 && r < 0xFFF0:
			if unicode.IsPrint(r) {
				valid++
			}
		case unicode.Is(unicode.Han, r), unicode.Is(unicode.Hangul, r), unicode.Is(unicode.Hiragana, r), unicode.Is(unicode.Katakana, r), r >= 0x10000 && unicode.IsPrint(r):
			valid++
		}
	}
	if spaces == 0 && len(runes) > 40 {
		return 0
	}
	return float64(valid) / float64(max(len(runes), 1))
}

func units(data []byte, big bool) []uint16 {
	out := make([]uint16, len(data)/2)
	for i := range out {
		a, b := uint16(data[2*i]), uint16(data[2*i+1])
		if big {
			a, b = b, a
		}
		out[i] = a | b<<8
	}
	return out
}

func decodeUTF16(data []byte, big bool) (string, []string, error) {
	name := "UTF-16LE"
	if big {
		name = "UTF-16BE"
	}
	s := string(utf16.Decode(units(data, big)))
	return checked(s, name)
}

func decodeUTF32(data []byte, order utf32.Endianness) (string, []string, error) {
	s, err := utf32.UTF32(order, utf32.IgnoreBOM).NewDecoder().String(string(data))
	if err != nil {
		return "", nil, fail(schema.ReasonEncoding, "It begins like UTF-32 text but is not valid. Save it as UTF-8 and send it again.").because(err)
	}
	return checked(s, "UTF-32")
}

// checked rejects decoded text that is mostly not text.
func checked(s, name string) (string, []string, error) {
	invalid, all := 0, 0
	for _, r := range s[:min(len(s), 1<<20)] {
		all++
		if r == utf8.RuneError || r != '\n' && r != '\r' && r != '\t' && r != '\f' && unicode.IsControl(r) {
			invalid++
		}
	}
	if invalid > 3 && invalid*50 > all {
		return "", nil, fail(schema.ReasonEncoding, "It begins like %s text but is not valid. Save it as UTF-8 and send it again.", name)
	}
	return text.Clean(strings.ReplaceAll(s, "\uFFFD", "")), converted(name), nil
}

// declared decodes data with the charset that the media type or the page declares.
func declared(data []byte, h hint) (s, name string, ok bool) {
	var enc encoding.Encoding
	if h.charset != "" {
		if e, err := htmlindex.Get(h.charset); err == nil {
			enc = e
			name, _ = htmlindex.Name(e)
		}
	}
	if enc == nil && (h.html || htmlTagIn(data)) {
		e, n, certain := charset.DetermineEncoding(data, "")
		// An uncertain windows-1252 is only the library's guess. If windows-1252 is really
		// declared, statistics give the same result.
		if !certain && n == "windows-1252" && !bytes.Contains(bytes.ToLower(data[:min(len(data), 1024)]), []byte("charset")) {
			return "", "", false
		}
		enc, name = e, n
	}
	if enc == nil || name == "utf-8" {
		return "", "", false
	}
	s, ok = decodeWith(enc, data)
	return s, name, ok
}

func htmlTagIn(data []byte) bool {
	head := bytes.ToLower(data[:min(len(data), 1024)])
	return bytes.Contains(head, []byte("<html")) || bytes.Contains(head, []byte("<meta")) || bytes.Contains(head, []byte("<!doctype html"))
}

// decodeWith decodes data and fails on bytes that the encoding has no character for.
func decodeWith(enc encoding.Encoding, data []byte) (string, bool) {
	b, err := enc.NewDecoder().Bytes(data)
	if err != nil {
		return "", false
	}
	s := string(b)
	invalid := strings.Count(s, "\uFFFD")
	for _, r := range s {
		if r >= 0x80 && r < 0xA0 {
			invalid++
		}
	}
	if invalid*1000 > len(s) {
		return "", false
	}
	return text.Clean(strings.ReplaceAll(s, "\uFFFD", "")), true
}

// damaged returns the number of invalid bytes in data that is otherwise UTF-8, that is, when it has
// many more valid multi-byte characters than invalid bytes.
func damaged(data []byte) int {
	multiByte, invalid := 0, 0
	for i := 0; i < len(data); {
		if data[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			invalid++
		} else {
			multiByte++
		}
		i += n
	}
	if multiByte >= 20*invalid {
		return invalid
	}
	return 0
}

// guess decodes by the statistics of the bytes.
func guess(data []byte) (s, name string, ok bool) {
	results, err := chardet.NewTextDetector().DetectAll(sampleOf(data))
	if err != nil {
		results = nil
	}
	slices.SortStableFunc(results, func(a, b chardet.Result) int { return b.Confidence - a.Confidence })
	for _, r := range results {
		multi := !strings.HasPrefix(r.Charset, "ISO-8859") && !strings.HasPrefix(r.Charset, "windows") && r.Charset != "KOI8-R"
		if r.Confidence < 10 || strings.HasPrefix(r.Charset, "UTF") || multi && r.Confidence < 50 {
			continue
		}
		enc, name := byName(r.Charset)
		if enc == nil {
			continue
		}
		if s, ok := decodeWith(enc, data); ok && (multi || plausible(s)) {
			return s, name, true
		}
	}
	for _, c := range []*charmap.Charmap{charmap.Windows1252, charmap.Windows1250} {
		if s, ok := decodeWith(c, data); ok && plausible(s) {
			name, _ := htmlindex.Name(c)
			return s, name, true
		}
	}
	return "", "", false
}

// sampleOf returns the parts of data with bytes that distinguish encodings.
func sampleOf(data []byte) []byte {
	const most = 64 << 10
	if len(data) <= most {
		return data
	}
	first := bytes.IndexFunc(data, func(r rune) bool { return r >= utf8.RuneSelf })
	start := min(max(first-most/4, 0), len(data)-most)
	return data[start : start+most]
}

// byName returns the encoding of a charset that chardet names, with the web's meaning of ISO-8859
// names.
func byName(name string) (encoding.Encoding, string) {
	switch name {
	case "ISO-8859-1":
		name = "windows-1252"
	case "ISO-8859-9":
		name = "windows-1254"
	case "GB-18030":
		name = "gb18030"
	}
	enc, err := htmlindex.Get(name)
	if err != nil {
		return nil, ""
	}
	canonical, err := htmlindex.Name(enc)
	if err != nil {
		return nil, ""
	}
	return enc, canonical
}

// plausible reports whether decoded single-byte text looks like text: its non-ASCII characters are
// mostly letters in words, of one case inside a word, and quotes, dashes and signs.
func plausible(s string) bool {
	valid, invalid := 0, 0
	var prev rune
	for _, r := range s {
		if r >= utf8.RuneSelf {
			switch {
			case unicode.IsUpper(r) && unicode.IsLower(prev):
				invalid++
			case unicode.IsLetter(r), strings.ContainsRune("‘’“”„«»‹›–—…•·°€£§©®™¿¡\u00a0½¼¾²³±×ºª´¨", r):
				valid++
			default:
				invalid++
			}
		}
		prev = r
	}
	return invalid*5 <= valid
}
