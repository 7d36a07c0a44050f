package modelclient

// This file splits requests so that each part, and its reply, fits in a NATS message. Sizes are
// those of the JSON that is sent, in which a byte of text takes up to six bytes.

import (
	"unicode/utf8"

	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// partBytes is the most that the texts of a part take; the rest of the message is for the
	// envelope.
	partBytes = wire.MaxRequest - 4<<10
	// textBytes is the most that one text takes; sentenceBytes is the most that one sentence takes,
	// so that two sentences fit in a part. Longer ones are cut.
	textBytes     = 400 << 10
	sentenceBytes = 200 << 10
	// partTexts is the most texts in a part while the dimension is not known, partSentences the
	// most sentences.
	partTexts     = 500
	partSentences = 2000
	// replyBytes is the most that the vectors of a reply take; NATS takes 1 MB.
	replyBytes = 900 << 10
)

// textsPerPart returns how many texts a part may have, so that their vectors, as base64 of float32,
// fit in a reply.
func (c *Client) textsPerPart() int {
	if c.second == nil {
		return secondTexts
	}
	dimension := int(c.dimension.Load())
	if dimension == 0 {
		return partTexts
	}
	return max(1, min(partTexts, replyBytes/(dimension*4*4/3+16)))
}

// size returns how many bytes text takes as JSON, with its comma, and how many bytes of text fit
// within limit.
func size(text string, limit int) (bytes, fits int) {
	bytes = 3 // quotes and comma
	for i := 0; i < len(text); {
		width, encoded := 1, 1
		switch c := text[i]; {
		case c >= utf8.RuneSelf:
			var r rune
			r, width = utf8.DecodeRuneInString(text[i:])
			encoded = width
			if r == utf8.RuneError && width == 1 || r == '\u2028' || r == '\u2029' {
				encoded = 6
			}
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			encoded = 2
		case c < ' ' || c == '<' || c == '>' || c == '&':
			encoded = 6
		}
		bytes += encoded
		i += width
		if bytes <= limit {
			fits = i
		}
	}
	return bytes, fits
}

// shorten cuts texts that take more than limit bytes, at a character boundary, and counts them. It
// does not change the slice it is given.
func shorten(texts []string, limit int) (_ []string, truncated int) {
	out := texts
	for i, text := range texts {
		if len(text) <= limit/6-1 {
			continue
		}
		if bytes, fits := size(text, limit); bytes > limit {
			if truncated == 0 {
				out = append([]string(nil), texts...)
			}
			out[i] = text[:fits]
			truncated++
		}
	}
	return out, truncated
}

// shortenOne is shorten for one text.
func shortenOne(text string, limit int) string {
	out, _ := shorten([]string{text}, limit)
	return out[0]
}

// splitTexts splits texts into parts of up to most consecutive texts and up to room bytes.
func splitTexts(texts []string, maxTexts, maxBytes int) [][]string {
	var parts [][]string
	start, bytes := 0, 0
	for i, text := range texts {
		n, _ := size(text, 0)
		if i > start && (bytes+n > maxBytes || i-start >= maxTexts) {
			parts = append(parts, texts[start:i])
			start, bytes = i, 0
		}
		bytes += n
	}
	return append(parts, texts[start:])
}

// runsPart is one request of a Segment call. runs[i] is part of the run with index of[i]. The
// request is for the scores with the indices from[i] up to to[i] in runs[i]; the other sentences of
// runs[i] are context for the model.
type runsPart struct {
	runs     [][]string
	index    []int
	from, to []int
}

func (p *runsPart) add(index int, run []string, from, to int) {
	p.runs, p.index, p.from, p.to = append(p.runs, run), append(p.index, index), append(p.from, from), append(p.to, to)
}

// splitRuns puts as many whole runs into a part as fit. A run that does not fit in a part is cut.
// Its pieces overlap by the sentences that the model reads around a boundary, as far as those
// before it take at most an eighth of a part.
func splitRuns(runs [][]string) []runsPart {
	var parts []runsPart
	var part runsPart
	bytes, sentences := 0, 0
	flush := func() {
		if len(part.runs) > 0 {
			parts = append(parts, part)
		}
		part, bytes, sentences = runsPart{}, 0, 0
	}
	for index, run := range runs {
		run, _ = shorten(run, sentenceBytes)
		sizes, total := make([]int, len(run)), 3
		for i, sentence := range run {
			sizes[i], _ = size(sentence, 0)
			total += sizes[i]
		}
		fits := bytes+total <= partBytes && sentences+len(run) <= partSentences
		if !fits || len(part.runs) >= partSentences {
			flush()
		}
		if total > partBytes || len(run) > partSentences {
			parts = append(parts, cutRun(index, run, sizes)...)
			continue
		}
		part.add(index, run, 0, max(0, len(run)-1))
		bytes, sentences = bytes+total, sentences+len(run)
	}
	flush()
	return parts
}

// cutRun cuts a run that does not fit in a part. sizes are the bytes of its sentences.
func cutRun(index int, run []string, sizes []int) []runsPart {
	var parts []runsPart
	for pos := 0; pos < len(run)-1; {
		start, bytes := pos, 0
		for start > 0 && pos-start < wire.SegmentContext-1 && bytes+sizes[start-1] <= partBytes/8 {
			start--
			bytes += sizes[start]
		}
		end := pos
		for end < len(run) && (end < pos+2 || end-start < partSentences && bytes+sizes[end]+3 <= partBytes) {
			bytes += sizes[end]
			end++
		}
		next := len(run) - 1
		if end < len(run) {
			next = max(pos+1, end-wire.SegmentContext)
		}
		var p runsPart
		p.add(index, run[start:end], pos-start, next-start)
		parts = append(parts, p)
		pos = next
	}
	return parts
}
