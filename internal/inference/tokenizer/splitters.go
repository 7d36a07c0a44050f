package tokenizer

// This file reads the splitters of a text into words (pre_tokenizer), except BERT's.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// splitter calls yield with each part of a text, in order.
type splitter func(b buffer, yield func(buffer))

// readSplitters reads one splitter or a sequence of them. symbols reports whether the model's
// symbols are bytes. Errors name the field.
func readSplitters(field string, data json.RawMessage) (all []splitter, symbols bool, err error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, false, nil
	}
	var s struct {
		Type          string            `json:"type"`
		Pretokenizers []json.RawMessage `json:"pretokenizers"`
		AddPrefix     *bool             `json:"add_prefix_space"`
		UseRegex      *bool             `json:"use_regex"`
		Replacement   string            `json:"replacement"`
		Scheme        *string           `json:"prepend_scheme"`
		Split         *bool             `json:"split"`
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, false, fmt.Errorf("%s: %w", field, err)
	}
	switch s.Type {
	case "Sequence":
		for i, inner := range s.Pretokenizers {
			if symbols {
				return nil, false, fmt.Errorf("%s.pretokenizers[%d]: nothing may follow ByteLevel", field, i)
			}
			var some []splitter
			if some, symbols, err = readSplitters(fmt.Sprintf("%s.pretokenizers[%d]", field, i), inner); err != nil {
				return nil, false, err
			}
			all = append(all, some...)
		}
		return all, symbols, nil
	case "WhitespaceSplit":
		return []splitter{whitespaceSplit}, false, nil
	case "Metaspace":
		scheme := or(s.Scheme, "always")
		if !or(s.AddPrefix, true) {
			scheme = "never"
		}
		if scheme != "always" && scheme != "first" && scheme != "never" || utf8.RuneCountInString(s.Replacement) != 1 {
			return nil, false, fmt.Errorf("%s: prepend_scheme %q with replacement %q is not supported", field, scheme, s.Replacement)
		}
		m := metaspace{s.Replacement, scheme, or(s.Split, true)}
		return []splitter{m.split}, false, nil
	case "ByteLevel":
		prefix, words := or(s.AddPrefix, true), or(s.UseRegex, true)
		return []splitter{func(b buffer, yield func(buffer)) {
			if prefix && !bytes.HasPrefix(b.text, []byte(" ")) {
				b = b.prepend(" ")
			}
			if !words {
				yield(b)
				return
			}
			for start := 0; start < len(b.text); {
				end := gpt2Word(b.text, start)
				yield(b.part(start, end))
				start = end
			}
		}}, true, nil
	}
	return nil, false, fmt.Errorf("%s.type: %q is not supported with this model.type", field, s.Type)
}

func whitespaceSplit(b buffer, yield func(buffer)) {
	start := 0
	for i := 0; i < len(b.text); {
		r, size := utf8.DecodeRune(b.text[i:])
		if isSpace(r) {
			if i > start {
				yield(b.part(start, i))
			}
			start = i + size
		}
		i += size
	}
	if start < len(b.text) {
		yield(b.part(start, len(b.text)))
	}
}

// metaspace splits as SentencePiece does: a space becomes a character of the word after it.
type metaspace struct {
	replacement string
	scheme      string
	apart       bool
}

func (m metaspace) split(b buffer, yield func(buffer)) {
	first := m.scheme == "always" || m.scheme == "first" && b.first
	var spaces [][]int
	for i, c := range b.text {
		if c == ' ' {
			spaces = append(spaces, []int{i, i + 1})
		}
	}
	b = b.replace(spaces, m.replacement)
	if first && !bytes.HasPrefix(b.text, []byte(m.replacement)) {
		b = b.prepend(m.replacement)
	}
	if !m.apart {
		yield(b)
		return
	}
	start := 0
	for i := 0; i < len(b.text); {
		if i > start && bytes.HasPrefix(b.text[i:], []byte(m.replacement)) {
			yield(b.part(start, i))
			start = i
		}
		_, size := utf8.DecodeRune(b.text[i:])
		i += size
	}
	if start < len(b.text) {
		yield(b.part(start, len(b.text)))
	}
}

// gpt2Word returns the end of the word at start by GPT-2's expression: 's
// 't
// 're
// 've
// 'm
// 'll
// 'd
// ?\p{L}+
// ?\p{N}+
// ?[^\s\p{L}\p{N}]+
// \s+(?!\S)
// \s+.
func gpt2Word(text []byte, start int) int {
	if text[start] == '\'' {
		for _, tail := range []string{"s", "t", "re", "ve", "m", "ll", "d"} {
			if bytes.HasPrefix(text[start+1:], []byte(tail)) {
				return start + 1 + len(tail)
			}
		}
	}
	at := start
	if text[start] == ' ' && start+1 < len(text) {
		at++
	}
	r, _ := utf8.DecodeRune(text[at:])
	kind := kindOf(r)
	if kind == space {
		at = start
	}
	end, last := at, at
	for end < len(text) {
		r, size := utf8.DecodeRune(text[end:])
		if kindOf(r) != kind {
			break
		}
		last, end = end, end+size
	}
	// The last space belongs to the text after it, unless it is the only one or ends the text.
	if kind == space && end < len(text) && last > start {
		return last
	}
	return end
}

type kind int

const (
	other kind = iota
	letter
	number
	space
)

func kindOf(r rune) kind {
	switch {
	case unicode.Is(unicode.L, r):
		return letter
	case unicode.Is(unicode.N, r):
		return number
	case isSpace(r):
		return space
	}
	return other
}
