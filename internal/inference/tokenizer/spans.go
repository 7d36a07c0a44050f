package tokenizer

// This file finds the span of a text that each of its tokens comes from. It does the same as
// normalize.go, but character by character, and keeps the origin of each byte. It is slower, and is
// used for texts of which a part is shown or quoted.

import (
	"slices"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// ByteRange is a half-open range of a text, in bytes. In valid UTF-8 it never splits a character.
type ByteRange struct{ Start, End int }

// EncodeSpans is Encode that also appends the span of text that each id comes from. Spans are in
// order. Those of WordPiece are not empty. Those of Unigram and BPE are the tokenizers library's:
// they may be empty (an added space) or share a character (several tokens for its bytes).
// Characters that normalisation removes (accents that are separate characters, control characters)
// are in a span only if they are between characters of one token.
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

// aligned is normalised text with the span of the original for each of its bytes.
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

// span covers the origins of a part of the normalised text. It looks at all of them, because marks
// may have changed places.
func (a *aligned) span(start, end int) ByteRange {
	s := a.from[start]
	for _, f := range a.from[start+1 : end] {
		s.Start, s.End = min(s.Start, f.Start), max(s.End, f.End)
	}
	return s
}

// align does what normalize does, and keeps the origin of each byte.
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
			if isSpace(r) {
				r = ' '
			}
		}
		isolated := n.chinese && isChinese(r)
		if isolated {
			marks = n.flush(a, marks)
			a.add(' ', from)
		}
		marks = n.decompose(a, marks, r, from)
		if isolated {
			marks = n.flush(a, marks)
			a.add(' ', from)
		}
	}
	n.flush(a, marks)
	return a
}

// mark is a character that canonical ordering may move: its combining class is not 0.
type mark struct {
	r     rune
	class uint8
	from  ByteRange
}

// decompose adds a character, without its accents if they are stripped. Marks that are not accents
// are kept in marks until a starter follows, because canonical ordering may put later marks in
// front.
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
			// It is removed. One of class 0 still separates the marks before it from those after
			// it.
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
