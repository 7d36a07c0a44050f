package text

// SAGE's corpus segmentation, section IV-E of the paper, without its model:
// sections -> coarse chunks of whole sentences -> passages.

import (
	"fmt"

	"github.com/sluice-rag/sluice/schema"
)

// CoarseTokens is SAGE's l, the length of a coarse chunk in tokens.
const CoarseTokens = 400

// SplitScore is SAGE's ss: between neighbours that score less there is a cut.
const SplitScore = 0.55

// Segmentation says how sections become passages.
type Segmentation struct {
	// CoarseTokens is l, the length that coarse chunks do not pass. A single
	// longer sentence is a chunk of its own.
	CoarseTokens int
	// SplitScore is ss. It is in the scale of the segmentation model.
	SplitScore float64
	// MinTokens and MaxTokens are ours, not the paper's. A passage below
	// MinTokens joins a neighbour, so that a one-word heading goes with what
	// follows it. A run of sentences that scores so well that it is over
	// MaxTokens is cut where its score is lowest. Only a passage that joins
	// nowhere without passing MaxTokens stays below MinTokens, and only a
	// sentence that is over MaxTokens by itself passes it: see Split.
	MinTokens int
	MaxTokens int
}

// DefaultSegmentation returns the paper's constants and our bounds.
func DefaultSegmentation() Segmentation {
	return Segmentation{CoarseTokens: CoarseTokens, SplitScore: SplitScore, MinTokens: 24, MaxTokens: CoarseTokens}
}

// Validate returns an error that names the first setting out of range.
func (g Segmentation) Validate() error {
	switch {
	case g.CoarseTokens < 1:
		return fmt.Errorf("segmentation: coarse_tokens is %d: it must be at least 1", g.CoarseTokens)
	case g.SplitScore < 0 || g.SplitScore > 1:
		return fmt.Errorf("segmentation: split_score is %g: it must be between 0 and 1", g.SplitScore)
	case g.MinTokens < 0:
		return fmt.Errorf("segmentation: min_tokens is %d: it must not be negative", g.MinTokens)
	case g.MaxTokens < 1 || g.MaxTokens < g.MinTokens:
		return fmt.Errorf("segmentation: max_tokens is %d: it must be at least 1 and not below min_tokens (%d)", g.MaxTokens, g.MinTokens)
	}
	return nil
}

// Split returns sentences with every one of more than limit tokens cut into
// ranges of at most limit, between words where it has any. They tile text as
// sentences do.
func Split(text string, sentences []Range, limit int) []Range {
	out := sentences[:0:0]
	for _, s := range sentences {
		if s.End-s.Start <= limit || CountTokens(s.Of(text)) <= limit {
			out = append(out, s)
			continue
		}
		for s.Start < s.End {
			n := takeTokens(s.Of(text), limit)
			rest := Range{s.Start + n, s.End}
			if isSpace(rest.Of(text)) {
				rest.Start = s.End
			}
			out = append(out, Range{s.Start, rest.Start})
			s = rest
		}
	}
	return out
}

// counts counts the tokens of each sentence.
func counts(text string, sentences []Range) []int {
	out := make([]int, len(sentences))
	for i, s := range sentences {
		out[i] = CountTokens(s.Of(text))
	}
	return out
}

// coarseChunks groups the sentences of a section into coarse chunks: ranges
// [Start, End) of sentence numbers that tile the list. Paragraphs (separated by
// an empty line) fill a chunk while it stays within l tokens; a longer paragraph
// is cut between sentences. tokens are the sentences'.
func coarseChunks(text string, sentences []Range, tokens []int, l int) []Range {
	var (
		out   []Range
		chunk Range
		size  int
	)
	cut := func() {
		if chunk.End > chunk.Start {
			out = append(out, chunk)
		}
		chunk, size = Range{chunk.End, chunk.End}, 0
	}
	for _, p := range paragraphs(text, sentences) {
		total := 0
		for _, n := range tokens[p.Start:p.End] {
			total += n
		}
		if size+total > l {
			cut()
		}
		for _, n := range tokens[p.Start:p.End] {
			if size+n > l {
				cut()
			}
			chunk.End++
			size += n
		}
	}
	cut()
	return out
}

// paragraphs groups sentence numbers by the empty lines behind sentences.
func paragraphs(text string, sentences []Range) []Range {
	var out []Range
	start := 0
	for i := range sentences {
		if i == len(sentences)-1 || endsParagraph(sentences[i].Of(text)) {
			out = append(out, Range{start, i + 1})
			start = i + 1
		}
	}
	return out
}

// endsParagraph reports whether the white space that ends s has an empty line.
func endsParagraph(s string) bool {
	breaks := 0
	for i := len(s) - 1; i >= 0; i-- {
		switch s[i] {
		case '\n':
			if breaks++; breaks == 2 {
				return true
			}
		case ' ', '\t', '\r':
		default:
			return false
		}
	}
	return false
}

// Passages cuts a section's text into passages, which tile it. sentences must
// tile the text; scores[i] is the segmentation model's score that sentences i
// and i+1 belong together (SAGE section IV-D), so there is one less than there
// are sentences. Inside a coarse chunk there is a cut where the score is below
// g.SplitScore; between chunks there is one always; then g.MaxTokens and
// g.MinTokens hold. Ids stay zero.
func Passages(text string, sentences []Range, scores []float64, g Segmentation) ([]schema.Passage, error) {
	if err := g.Validate(); err != nil {
		return nil, err
	}
	if len(sentences) == 0 {
		return nil, nil
	}
	if len(scores) != len(sentences)-1 {
		return nil, fmt.Errorf("segmentation: %d scores for %d sentences: it takes one per adjacent pair", len(scores), len(sentences))
	}
	at := 0
	for i, s := range sentences {
		if s.Start != at || s.End <= s.Start || s.End > len(text) {
			return nil, fmt.Errorf("segmentation: sentence %d [%d, %d) does not continue at byte %d of %d", i, s.Start, s.End, at, len(text))
		}
		at = s.End
	}
	if at != len(text) {
		return nil, fmt.Errorf("segmentation: sentences end at byte %d of %d", at, len(text))
	}

	c := cutter{g: g, text: text, sentences: sentences, scores: scores, counts: counts(text, sentences)}
	var parts []Range
	for _, chunk := range coarseChunks(text, sentences, c.counts, g.CoarseTokens) {
		start := chunk.Start
		for i := chunk.Start; i < chunk.End; i++ {
			if i == chunk.End-1 || scores[i] < g.SplitScore {
				parts = c.bound(parts, Range{start, i + 1})
				start = i + 1
			}
		}
	}
	parts = c.join(parts)
	out := make([]schema.Passage, len(parts))
	for i, p := range parts {
		span := Range{sentences[p.Start].Start, sentences[p.End-1].End}
		out[i] = schema.Passage{Ordinal: i, Start: span.Start, End: span.End, Tokens: CountTokens(span.Of(text))}
	}
	return out, nil
}

// cutter holds one section while it is cut; its ranges are of sentence numbers.
type cutter struct {
	g         Segmentation
	text      string
	sentences []Range
	scores    []float64
	counts    []int
}

func (c *cutter) tokens(p Range) int {
	n := 0
	for _, t := range c.counts[p.Start:p.End] {
		n += t
	}
	return n
}

// bound appends p to parts, cut at its lowest scores until each is within
// MaxTokens.
func (c *cutter) bound(parts []Range, p Range) []Range {
	if p.End-p.Start == 1 || c.tokens(p) <= c.g.MaxTokens {
		return append(parts, p)
	}
	weakest := p.Start
	for i := p.Start; i < p.End-1; i++ {
		if c.scores[i] < c.scores[weakest] {
			weakest = i
		}
	}
	return c.bound(c.bound(parts, Range{p.Start, weakest + 1}), Range{weakest + 1, p.End})
}

// join joins each part below MinTokens to a neighbour: to the one with the
// higher score, but a paragraph of its own (a heading) to what follows.
func (c *cutter) join(parts []Range) []Range {
	out := make([]Range, 0, len(parts))
	for i := 0; i < len(parts); i++ {
		p := parts[i]
		size := c.tokens(p)
		if size >= c.g.MinTokens {
			out = append(out, p)
			continue
		}
		next := i+1 < len(parts) && size+c.tokens(parts[i+1]) <= c.g.MaxTokens
		prev := len(out) > 0 && size+c.tokens(out[len(out)-1]) <= c.g.MaxTokens
		if next && prev && !c.heading(p) {
			next = c.scores[p.End-1] >= c.scores[p.Start-1]
		}
		switch {
		case next:
			parts[i+1].Start = p.Start
		case prev:
			out[len(out)-1].End = p.End
		default:
			out = append(out, p)
		}
	}
	return out
}

// heading reports whether p is a paragraph of its own.
func (c *cutter) heading(p Range) bool {
	before := p.Start == 0 || endsParagraph(c.sentences[p.Start-1].Of(c.text))
	return before && endsParagraph(c.sentences[p.End-1].Of(c.text))
}
