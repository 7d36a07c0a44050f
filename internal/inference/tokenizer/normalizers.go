package tokenizer

// This file reads the normalizers of a tokenizer.json, except BERT's.

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// pattern is a string or a regular expression.
type pattern struct {
	String, Regex *string
}

// compile returns a regular expression with the same meaning in Go as in the tokenizers library.
// Classes and groups whose meaning differs are refused.
func (p pattern) compile() (*regexp.Regexp, error) {
	switch {
	case p.String != nil:
		return regexp.MustCompile(regexp.QuoteMeta(*p.String)), nil
	case p.Regex == nil:
		return nil, fmt.Errorf("pattern: neither String nor Regex")
	case strings.ContainsAny(*p.Regex, `\^$`) || strings.Contains(*p.Regex, "(?") || strings.Contains(*p.Regex, "[["):
		return nil, fmt.Errorf("pattern.Regex: %q is not supported", *p.Regex)
	}
	expression, err := regexp.Compile(*p.Regex)
	if err != nil {
		return nil, fmt.Errorf("pattern.Regex: %q is not supported: %w", *p.Regex, err)
	}
	return expression, nil
}

// readNormalizers reads one normalizer or a sequence of them. Errors name the field.
func readNormalizers(field string, data json.RawMessage) ([]func(buffer) buffer, error) {
	if len(data) == 0 || string(data) == "null" {
		return nil, nil
	}
	var n struct {
		Type        string            `json:"type"`
		Normalizers []json.RawMessage `json:"normalizers"`
		Charsmap    *string           `json:"precompiled_charsmap"`
		Pattern     pattern           `json:"pattern"`
		Content     string            `json:"content"`
		Left        bool              `json:"strip_left"`
		Right       bool              `json:"strip_right"`
		Prepend     string            `json:"prepend"`
	}
	if err := json.Unmarshal(data, &n); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	one := func(f func(buffer) buffer) ([]func(buffer) buffer, error) { return []func(buffer) buffer{f}, nil }
	switch n.Type {
	case "Sequence":
		var all []func(buffer) buffer
		for i, inner := range n.Normalizers {
			some, err := readNormalizers(fmt.Sprintf("%s.normalizers[%d]", field, i), inner)
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	case "Precompiled":
		if n.Charsmap == nil || *n.Charsmap == "" {
			return nil, nil
		}
		p, err := readPrecompiled(*n.Charsmap)
		if err != nil {
			return nil, fmt.Errorf("%s.%w", field, err)
		}
		return one(p.normalize)
	case "NFC":
		return one(normalForm(norm.NFC))
	case "NFD":
		return one(normalForm(norm.NFD))
	case "NFKC":
		return one(normalForm(norm.NFKC))
	case "NFKD":
		return one(normalForm(norm.NFKD))
	case "Lowercase":
		return one(lowercase)
	case "StripAccents":
		return one(stripAccents)
	case "Strip":
		return one(func(b buffer) buffer { return strip(b, n.Left, n.Right) })
	case "Prepend":
		return one(func(b buffer) buffer { return b.prepend(n.Prepend) })
	case "Replace":
		expression, err := n.Pattern.compile()
		if err != nil {
			return nil, fmt.Errorf("%s.%w", field, err)
		}
		return one(func(b buffer) buffer { return b.replace(expression.FindAllIndex(b.text, -1), n.Content) })
	}
	return nil, fmt.Errorf("%s.type: %q is not supported with this model.type", field, n.Type)
}

func lowercase(b buffer) buffer {
	out := buffer{text: make([]byte, 0, len(b.text)), first: b.first}
	if b.from != nil {
		out.from = make([]ByteRange, 0, len(b.from))
	}
	for i := 0; i < len(b.text); {
		r, size := utf8.DecodeRune(b.text[i:])
		var from ByteRange
		if b.from != nil {
			from = b.from[i]
		}
		if r == 'İ' {
			out.add('i', from)
			out.add('\u0307', from)
		} else {
			out.add(unicode.ToLower(r), from)
		}
		i += size
	}
	return out
}

func stripAccents(b buffer) buffer {
	return b.without(func(r rune) bool { return unicode.Is(unicode.M, r) })
}

// without removes characters.
func (b buffer) without(drop func(rune) bool) buffer {
	out := buffer{text: make([]byte, 0, len(b.text)), first: b.first}
	if b.from != nil {
		out.from = make([]ByteRange, 0, len(b.from))
	}
	for i := 0; i < len(b.text); {
		r, size := utf8.DecodeRune(b.text[i:])
		if !drop(r) {
			out.text = append(out.text, b.text[i:i+size]...)
			if b.from != nil {
				out.from = append(out.from, b.from[i:i+size]...)
			}
		}
		i += size
	}
	return out
}

func strip(b buffer, left, right bool) buffer {
	start, end := 0, len(b.text)
	for left && start < end {
		r, size := utf8.DecodeRune(b.text[start:end])
		if !isSpace(r) {
			break
		}
		start += size
	}
	for right && end > start {
		r, size := utf8.DecodeLastRune(b.text[start:end])
		if !isSpace(r) {
			break
		}
		end -= size
	}
	return b.part(start, end)
}
