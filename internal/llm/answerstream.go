package llm

// This file streams an answer while the model writes it. Models reply with one JSON object whose
// member "answer" comes first. Its text is extracted while the object grows.

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

// answerStream passes on the answer's text from a model's replies. A new reply voids what was
// passed on before.
type answerStream struct {
	onDelta   func(wire.LLMDelta)
	reasoning reasoning
	reader    memberReader
	raw       strings.Builder // of the reply
	started   bool            // something was passed on
	again     bool            // what was passed on is void
}

// begin starts a new reply.
func (v *answerStream) begin() {
	v.reasoning, v.reader = reasoning{}, memberReader{name: "answer"}
	v.raw.Reset()
	v.again = v.started
}

// add takes the next piece of a reply.
func (v *answerStream) add(piece string) {
	v.raw.WriteString(piece)
	delta := text.Clean(v.reader.read(v.reasoning.skip(piece)))
	if !v.started || v.again {
		delta = strings.TrimLeft(delta, " \t\r\n")
	}
	if delta == "" {
		return
	}
	v.onDelta(wire.LLMDelta{Envelope: wire.Header(), Text: delta, Restart: v.again})
	v.started, v.again = true, false
}

// memberReader extracts the text of one member from the first JSON object that has it. The text
// comes in pieces that are cut anywhere.
type memberReader struct {
	name string

	state   memberState
	depth   int    // of arrays and objects in a member that is skipped
	escape  []byte // the escape sequence so far, with its backslash
	high    rune   // the first half of a surrogate pair
	key     []byte
	pending []byte // bytes of an incomplete character
	match   bool   // the value is the one to extract
}

type memberState int

const (
	beforeObject memberState = iota
	beforeKey
	inKey
	beforeValue
	inText  // a string, extracted or skipped
	inOther // any other value
	afterAll
)

// read takes a piece and returns what it adds to the member's text.
func (m *memberReader) read(piece string) string {
	var out []byte
	for i := 0; i < len(piece); i++ {
		c := piece[i]
		switch m.state {
		case beforeObject:
			if c == '{' {
				m.state = beforeKey
			}
		case beforeKey:
			switch c {
			case '"':
				m.state, m.key = inKey, m.key[:0]
			case '}':
				m.state = beforeObject // it has no such member
			}
		case inKey:
			if end, bytes := m.character(c); end {
				m.state, m.match = beforeValue, string(m.key) == m.name
			} else {
				m.key = append(m.key, bytes...)
			}
		case beforeValue:
			switch c {
			case ':', ' ', '\t', '\r', '\n':
			case '"':
				m.state, m.depth = inText, 0
			default:
				m.state, m.depth = inOther, 0
				m.other(c)
			}
		case inText:
			end, bytes := m.character(c)
			switch {
			case end && m.depth > 0:
				m.state = inOther
			case end && m.match:
				m.state = afterAll
			case end:
				m.state = beforeKey
			case m.match && m.depth == 0:
				out = append(out, bytes...)
			}
		case inOther:
			m.other(c)
		case afterAll:
			return m.completeRunes(out)
		}
	}
	return m.completeRunes(out)
}

// other skips a byte of a value that is not a string.
func (m *memberReader) other(c byte) {
	switch c {
	case '"':
		m.state = inText
	case '{', '[':
		m.depth++
	case '}', ']':
		if m.depth--; m.depth < 0 {
			m.state = beforeObject // the object has ended
		}
	case ',':
		if m.depth == 0 {
			m.state = beforeKey
		}
	}
}

// character takes a byte of a string and returns the bytes that it completes. end reports the end
// of the string.
func (m *memberReader) character(c byte) (end bool, bytes []byte) {
	if len(m.escape) > 0 {
		if m.escape = append(m.escape, c); len(m.escape) == 2 && c == 'u' || len(m.escape) > 2 && len(m.escape) < 6 {
			return false, nil
		}
		bytes = m.unescape(m.escape)
		m.escape = m.escape[:0]
		return false, bytes
	}
	switch c {
	case '"':
		return true, m.lone(nil)
	case '\\':
		m.escape = append(m.escape[:0], c)
		return false, nil
	}
	return false, m.lone([]byte{c})
}

// unescape returns the text of an escape sequence. It keeps the first half of a surrogate pair
// until the second comes.
func (m *memberReader) unescape(e []byte) []byte {
	const simple = `"\/bfnrt`
	if e[1] != 'u' {
		if i := strings.IndexByte(simple, e[1]); i >= 0 {
			return m.lone([]byte{"\"\\/\b\f\n\r\t"[i]})
		}
		return m.lone([]byte{e[1]})
	}
	n, err := strconv.ParseUint(string(e[2:]), 16, 16)
	r := rune(n)
	switch {
	case err != nil:
		return m.lone([]byte(string(utf8.RuneError)))
	case m.high != 0 && utf16.IsSurrogate(r):
		both := utf16.DecodeRune(m.high, r)
		m.high = 0
		return []byte(string(both))
	case utf16.IsSurrogate(r):
		m.high = r
		return nil
	}
	return m.lone([]byte(string(r)))
}

// lone returns bytes, preceded by the replacement character if the first half of a surrogate pair
// stayed alone.
func (m *memberReader) lone(bytes []byte) []byte {
	if m.high == 0 {
		return bytes
	}
	m.high = 0
	return append([]byte(string(utf8.RuneError)), bytes...)
}

// completeRunes holds back the bytes of an incomplete character.
func (m *memberReader) completeRunes(out []byte) string {
	out = append(m.pending, out...)
	n := len(out)
	for back := 1; back <= min(utf8.UTFMax-1, n); back++ {
		if c := out[n-back]; utf8.RuneStart(c) {
			if !utf8.FullRune(out[n-back:]) {
				n -= back
			}
			break
		}
	}
	m.pending = append([]byte(nil), out[n:]...)
	return string(out[:n])
}
