package tokenizer

// This file says where in a text its tokens come from. It does what normalize.go does, character by
// character, and remembers the origin of each byte; it is slower, and for texts of which a part is
// shown or quoted.

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// ByteRange is a half-open range of a text, in bytes. Of valid UTF-8 it never cuts a character.
type ByteRange struct{ Start, End int }

// EncodeSpans is Encode that also appends, for each id, where in text it comes from. Spans are in
// order. Those of WordPiece are not empty; those of Unigram and BPE are the tokenizers library's,
// which may be empty (a space that was added) or share a character (its bytes). What normalisation
// removes (accents that are characters of their own, control characters) is covered only where it
// lies between characters of one token.
func (t *Tokenizer) EncodeSpans(ids []int32, spans []ByteRange, text string, limit int) (_ []int32, _ []ByteRange, total int) {
	end := len(ids) + limit
	if t.pipeline != nil {
		t.pipeline.encode(text, true, func(id int32, span ByteRange) {
			if total++; limit <= 0 || len(ids) < end {
				ids, spans = append(ids, id), append(spans, span)
			}
		})
		return ids, spans, total
	}
	a := t.normalizer.align(text)
	var pieces []int32
	var ends []int
	ranges(a.text, func(start, stop int) {
		pieces, ends = pieces[:0], ends[:0]
		pieces = t.word(pieces, &ends, a.text[start:stop])
		total += len(pieces)
		from := start
		for i, id := range pieces {
			if limit > 0 && len(ids) >= end {
				return
			}
			ids = append(ids, id)
			spans = append(spans, a.span(from, start+ends[i]))
			from = start + ends[i]
		}
	})
	return ids, spans, total
}

// aligned is normalised text with the span of the original that each of its bytes comes from.
type aligned struct {
	text []byte
	from []ByteRange
}

func (a *aligned) add(r rune, from ByteRange) {
	before := len(a.text)
	a.text = utf8.AppendRune(a.text, r)
	for range len(a.text) - before {
		a.from = append(a.from, from)
	}
}

// span covers the origins of a part of the normalised text. Marks may have changed places, so all
// are looked at.
func (a *aligned) span(start, end int) ByteRange {
	s := a.from[start]
	for _, f := range a.from[start+1 : end] {
		s.Start, s.End = min(s.Start, f.Start), max(s.End, f.End)
	}
	return s
}

// align does what normalize does.
func (n normalizer) align(text string) *aligned {
	a := &aligned{text: make([]byte, 0, len(text)+len(text)/8), from: make([]ByteRange, 0, len(text)+len(text)/8)}
	var marks []mark
	for i, r := range text {
		_, size := utf8.DecodeRuneInString(text[i:])
		from := ByteRange{i, i + size}
		if n.clean {
			if r == 0 || r == utf8.RuneError || isControl(r) {
				continue
			}
			if unicode.Is(unicode.White_Space, r) {
				r = ' '
			}
		}
		apart := n.chinese && isChinese(r)
		if apart {
			marks = n.flush(a, marks)
			a.add(' ', from)
		}
		marks = n.decompose(a, marks, r, from)
		if apart {
			marks = n.flush(a, marks)
			a.add(' ', from)
		}
	}
	n.flush(a, marks)
	return a
}

// mark is a character that canonical order may move: one of a class other than 0.
type mark struct {
	r     rune
	class uint8
	from  ByteRange
}

// decompose adds a character without its accents, when they are stripped. Marks that aren't accents
// wait for those that follow, which canonical order may put in front.
func (n normalizer) decompose(a *aligned, marks []mark, r rune, from ByteRange) []mark {
	if !n.strip || r < utf8.RuneSelf && len(marks) == 0 {
		n.lowered(a, r, from)
		return marks
	}
	var buffer [32]byte
	decomposed := norm.NFD.AppendString(buffer[:0], string(r))
	for len(decomposed) > 0 {
		d, size := utf8.DecodeRune(decomposed)
		class := norm.NFD.Properties(decomposed).CCC()
		decomposed = decomposed[size:]
		switch {
		case unicode.Is(unicode.Mn, d):
			// Gone; one of class 0 holds others apart.
			if class == 0 {
				marks = n.flush(a, marks)
			}
		case class > 0:
			marks = append(marks, mark{d, class, from})
		default:
			marks = n.flush(a, marks)
			n.lowered(a, d, from)
		}
	}
	return marks
}

func (n normalizer) flush(a *aligned, marks []mark) []mark {
	slices.SortStableFunc(marks, func(x, y mark) int { return int(x.class) - int(y.class) })
	for _, m := range marks {
		n.lowered(a, m.r, m.from)
	}
	return marks[:0]
}

func (n normalizer) lowered(a *aligned, r rune, from ByteRange) {
	switch {
	case !n.lower:
		a.add(r, from)
	case r == 'İ':
		a.add('i', from)
		a.add('\u0307', from)
	default:
		a.add(unicode.ToLower(r), from)
	}
}
