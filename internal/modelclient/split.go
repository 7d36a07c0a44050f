package modelclient

// This file cuts requests so that each part, and its reply, fits a NATS message. Sizes are those of the JSON that is
// sent: a byte of text takes up to six there.

import (
	"unicode/utf8"

	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// partBytes is what the texts of a part take at most; the rest of the message is for the envelope.
	partBytes = wire.MaxRequest - 4<<10
	// textBytes is what one text takes at most, sentenceBytes one sentence, so that two fit; of a longer one the
	// beginning is sent.
	textBytes     = 400 << 10
	sentenceBytes = 200 << 10
	// partTexts is how many texts a part has at most before the dimension is known, partSentences how many sentences.
	partTexts     = 500
	partSentences = 2000
	// replyBytes is what the vectors of a reply take at most; NATS takes 1 MB.
	replyBytes = 900 << 10
)

// textsPerPart is how many vectors fit a reply: base64 of float32.
func (c *Client) textsPerPart() int {
	dimension := int(c.dimension.Load())
	if dimension == 0 {
		return partTexts
	}
	return max(1, min(partTexts, replyBytes/(dimension*4*4/3+16)))
}

// size is how many bytes text takes as JSON, with its comma; fits is how many bytes of text stay within limit.
func size(text string, limit int) (bytes, fits int) {
	bytes = 3 // quotes and comma
	for i := 0; i < len(text); {
		width, took := 1, 1
		switch c := text[i]; {
		case c >= utf8.RuneSelf:
			var r rune
			r, width = utf8.DecodeRuneInString(text[i:])
			took = width
			if r == utf8.RuneError && width == 1 || r == '\u2028' || r == '\u2029' {
				took = 6
			}
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			took = 2
		case c < ' ' || c == '<' || c == '>' || c == '&':
			took = 6
		}
		bytes += took
		i += width
		if bytes <= limit {
			fits = i
		}
	}
	return bytes, fits
}

// shorten cuts texts that take more than limit bytes, at a character, and counts them. The slice given is not changed.
func shorten(texts []string, limit int) (_ []string, cut int) {
	out := texts
	for i, text := range texts {
		if len(text) <= limit/6-1 {
			continue
		}
		if bytes, fits := size(text, limit); bytes > limit {
			if cut == 0 {
				out = append([]string(nil), texts...)
			}
			out[i] = text[:fits]
			cut++
		}
	}
	return out, cut
}

// shortenOne is shorten for one text.
func shortenOne(text string, limit int) string {
	out, _ := shorten([]string{text}, limit)
	return out[0]
}

// splitTexts cuts texts into parts of at most so many consecutive ones and so many bytes.
func splitTexts(texts []string, most, room int) [][]string {
	var parts [][]string
	start, bytes := 0, 0
	for i, text := range texts {
		n, _ := size(text, 0)
		if i > start && (bytes+n > room || i-start >= most) {
			parts = append(parts, texts[start:i])
			start, bytes = i, 0
		}
		bytes += n
	}
	return append(parts, texts[start:])
}

// runsPart is one request of a Segment call. of[i] is the run that runs[i] is a piece of. A piece begins with the
// sentence that the piece before it ended with, so that each pair of neighbours is in one piece.
type runsPart struct {
	runs [][]string
	of   []int
}

func splitRuns(runs [][]string) []runsPart {
	var parts []runsPart
	var now runsPart
	bytes, sentences := 0, 0
	flush := func() {
		if len(now.runs) > 0 {
			parts = append(parts, now)
		}
		now, bytes, sentences = runsPart{}, 0, 0
	}
	for of, run := range runs {
		run, _ = shorten(run, sentenceBytes)
		if len(now.runs) >= partSentences {
			flush()
		}
		bytes += 3
		start := 0
		for i, sentence := range run {
			n, _ := size(sentence, 0)
			if i > start && (bytes+n > partBytes || sentences >= partSentences) {
				// Close the piece before this sentence; the next begins with the sentence before it.
				if i-start > 1 {
					now.runs, now.of = append(now.runs, run[start:i]), append(now.of, of)
				}
				flush()
				start = i - 1
				last, _ := size(run[start], 0)
				bytes, sentences = last+3, 1
			} else if i == start && len(now.runs) > 0 && (bytes+n > partBytes || sentences >= partSentences) {
				flush()
				bytes = 3
			}
			bytes += n
			sentences++
		}
		now.runs, now.of = append(now.runs, run[start:]), append(now.of, of)
	}
	flush()
	return parts
}
