package tokenizer

// This file is Unicode's four normal forms with the origin of each character. Package
// x/text/unicode/norm does not report origins, and it changes characters with more than 30 marks.

import (
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// normalForm returns a function that decomposes, puts marks in canonical order, and composes if the
// form does.
func normalForm(form norm.Form) func(buffer) buffer {
	decomposed, composes := norm.NFD, form == norm.NFC || form == norm.NFKC
	if form == norm.NFKC || form == norm.NFKD {
		decomposed = norm.NFKD
	}
	return func(b buffer) buffer {
		if form.IsNormal(b.text) {
			return b
		}
		changes := decompose(decomposed, b.text)
		if composes {
			changes = compose(changes)
		}
		return b.transform(changes, 0)
	}
}

func decompose(form norm.Form, text []byte) []change {
	out := make([]change, 0, len(text))
	type pending struct {
		change
		class uint8
	}
	var marks []pending
	flush := func() {
		slices.SortStableFunc(marks, func(a, b pending) int { return int(a.class) - int(b.class) })
		for _, m := range marks {
			out = append(out, m.change)
		}
		marks = marks[:0]
	}
	var scratch [64]byte
	for len(text) > 0 {
		_, size := utf8.DecodeRune(text)
		parts := form.Append(scratch[:0], text[:size]...)
		text = text[size:]
		for by := 0; len(parts) > 0; by = 1 {
			r, n := utf8.DecodeRune(parts)
			class := norm.NFD.Properties(parts[:n]).CCC()
			parts = parts[n:]
			if class > 0 {
				marks = append(marks, pending{change{r, by}, class})
				continue
			}
			flush()
			out = append(out, change{r, by})
		}
	}
	flush()
	return out
}

// compose joins each starter with the characters after it that no mark between them blocks.
func compose(decomposed []change) []change {
	out := make([]change, 0, len(decomposed))
	starter := -1 // its index in out
	last := uint8(0)
	for _, c := range decomposed {
		class := norm.NFD.PropertiesString(string(c.r)).CCC()
		if starter >= 0 {
			adjacent := len(out) == starter+1
			if adjacent || last < class && last > 0 {
				if joined, ok := join(out[starter].r, c.r); ok {
					out[starter].r = joined
					out[starter].by += c.by - 1
					continue
				}
			}
		}
		out = append(out, c)
		if class == 0 {
			starter, last = len(out)-1, 0
		} else {
			last = class
		}
	}
	return out
}

// join returns the character that two compose to; false: they don't.
func join(a, b rune) (rune, bool) {
	var scratch [16]byte
	both := utf8.AppendRune(utf8.AppendRune(scratch[:0], a), b)
	composed := norm.NFC.Append(nil, both...)
	r, size := utf8.DecodeRune(composed)
	return r, size == len(composed)
}
