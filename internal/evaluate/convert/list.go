package convert

// This file parses lists of strings in a cell: in JSON (PopQA) or in Python's notation (DPR).

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// stringList parses ["a", "b"] or ['a', "b"].
func stringList(text string) ([]string, error) {
	var out []string
	if json.Unmarshal([]byte(text), &out) == nil {
		return out, nil
	}
	p := literal{strings.TrimSpace(text)}
	out, err := p.list()
	if err != nil {
		return nil, fmt.Errorf("is no list of strings, such as [\"Paris\"]: %w; found %.60q", err, text)
	}
	return out, nil
}

// literal is the unparsed rest of a list.
type literal struct{ rest string }

func (p *literal) take(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *literal) blank() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func (p *literal) list() ([]string, error) {
	if !p.take('[') {
		return nil, errors.New("[ is missing")
	}
	out := []string{}
	for {
		p.blank()
		if p.take(']') {
			break
		}
		s, err := p.text()
		if err != nil {
			return nil, err
		}
		out = append(out, s)
		if p.blank(); !p.take(',') && !strings.HasPrefix(p.rest, "]") {
			return nil, errors.New(", or ] is missing")
		}
	}
	if p.blank(); p.rest != "" {
		return nil, errors.New("there is more behind ]")
	}
	return out, nil
}

// text parses a string between two quotation marks of the same kind.
func (p *literal) text() (string, error) {
	if p.rest == "" || p.rest[0] != '\'' && p.rest[0] != '"' {
		return "", errors.New("a string is missing")
	}
	mark := p.rest[0]
	p.rest = p.rest[1:]
	var b strings.Builder
	for p.rest != "" {
		c := p.rest[0]
		switch {
		case c == mark:
			p.rest = p.rest[1:]
			return b.String(), nil
		case c != '\\':
			b.WriteByte(c)
			p.rest = p.rest[1:]
		default:
			if err := p.escape(&b); err != nil {
				return "", err
			}
		}
	}
	return "", errors.New("a string does not end")
}

// escapes are Python's escapes of one character.
var escapes = map[byte]string{'\\': "\\", '\'': "'", '"': "\"", 'n': "\n", 't': "\t", 'r': "\r", 'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\n': ""}

// escape parses an escape. An unknown escape stands for itself, as in Python.
func (p *literal) escape(b *strings.Builder) error {
	if len(p.rest) < 2 {
		return errors.New("a string does not end")
	}
	c := p.rest[1]
	if digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]; digits > 0 {
		if len(p.rest) < 2+digits {
			return errors.New("an escape is cut off")
		}
		n, err := strconv.ParseUint(p.rest[2:2+digits], 16, 32)
		if err != nil || n > utf8.MaxRune {
			return fmt.Errorf("%q is no character", p.rest[:2+digits])
		}
		b.WriteRune(rune(n))
		p.rest = p.rest[2+digits:]
		return nil
	}
	if s, known := escapes[c]; known {
		b.WriteString(s)
	} else {
		b.WriteString(p.rest[:2])
	}
	p.rest = p.rest[2:]
	return nil
}
