package tokenizer

// This file is a text that is normalised step by step and keeps the origin of each byte, as the
// tokenizers library does it: a change lists the new characters, and how many characters each adds
// or removes.

import "unicode/utf8"

// buffer is a text, or a part of one. from has the origin of each byte; it is nil if spans are not
// wanted.
type buffer struct {
	text  []byte
	from  []ByteRange
	first bool // it begins the text
}

// newBuffer returns a buffer of a whole text. Invalid UTF-8 becomes U+FFFD, byte by byte.
func newBuffer(text string, spans bool) buffer {
	b := buffer{first: true}
	if !spans && utf8.ValidString(text) {
		b.text = []byte(text)
		return b
	}
	b.text = make([]byte, 0, len(text))
	if spans {
		b.from = make([]ByteRange, 0, len(text))
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		b.add(r, ByteRange{i, i + size})
		i += size
	}
	return b
}

// part returns a range of the buffer, which can be read or replaced as a whole.
func (b buffer) part(start, end int) buffer {
	p := buffer{text: b.text[start:end:end], first: b.first && start == 0}
	if b.from != nil {
		p.from = b.from[start:end:end]
	}
	return p
}

// span returns the origin of a range.
func (b buffer) span(start, end int) ByteRange {
	return ByteRange{b.from[start].Start, b.from[end-1].End}
}

// change is a character of the new text. by is 0 if it replaces one character, 1 if it is added
// after the one before, and -n if it replaces one character and removes the n after it.
type change struct {
	r  rune
	by int
}

// transform returns the buffer after the changes. removed is the number of characters that are
// removed in front of all others.
func (b buffer) transform(changes []change, removed int) buffer {
	out := buffer{text: make([]byte, 0, len(b.text)+len(b.text)/8), first: b.first}
	if b.from == nil {
		for _, c := range changes {
			out.text = utf8.AppendRune(out.text, c.r)
		}
		return out
	}
	out.from = make([]ByteRange, 0, cap(out.text))
	at := 0
	skip := func(n int) {
		for ; n > 0 && at < len(b.text); n-- {
			_, size := utf8.DecodeRune(b.text[at:])
			at += size
		}
	}
	skip(removed)
	for _, c := range changes {
		var from ByteRange
		switch {
		case c.by > 0 && at > 0:
			from = b.from[at-1]
		case at < len(b.from):
			from = b.from[at]
		case at > 0:
			from = b.from[at-1]
		}
		if c.by <= 0 {
			skip(1 - c.by)
		}
		out.add(c.r, from)
	}
	return out
}

func (b *buffer) add(r rune, from ByteRange) {
	before := len(b.text)
	b.text = utf8.AppendRune(b.text, r)
	if b.from != nil {
		for range len(b.text) - before {
			b.from = append(b.from, from)
		}
	}
}

// replace replaces each range with content. The ranges are in order. The origin of content is that
// of the byte before the end of the range.
func (b buffer) replace(ranges [][]int, content string) buffer {
	if len(ranges) == 0 {
		return b
	}
	out := buffer{text: make([]byte, 0, len(b.text)+len(ranges)*len(content)), first: b.first}
	if b.from != nil {
		out.from = make([]ByteRange, 0, cap(out.text))
	}
	last := 0
	keep := func(end int) {
		out.text = append(out.text, b.text[last:end]...)
		if b.from != nil {
			out.from = append(out.from, b.from[last:end]...)
		}
	}
	for _, r := range ranges {
		keep(r[0])
		last = r[1]
		out.text = append(out.text, content...)
		if b.from != nil {
			var from ByteRange
			if last > 0 {
				from = b.from[last-1]
			}
			for range len(content) {
				out.from = append(out.from, from)
			}
		}
	}
	keep(len(b.text))
	return out
}

// prepend puts a text in front, with the origin of the first character.
func (b buffer) prepend(content string) buffer {
	if len(b.text) == 0 {
		return b
	}
	out := buffer{text: append(append(make([]byte, 0, len(content)+len(b.text)), content...), b.text...), first: b.first}
	if b.from != nil {
		out.from = make([]ByteRange, 0, len(out.text))
		for range len(content) {
			out.from = append(out.from, b.from[0])
		}
		out.from = append(out.from, b.from...)
	}
	return out
}
