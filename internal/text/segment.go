package text

// Sections to passages. SAGE's corpus segmentation (section IV-E of the paper), apart from its
// model: it cuts coarse chunks of whole sentences into passages. rules.go has the other methods.

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/schema"
)

// Split returns sentences, in which each sentence of more than limit tokens is cut into ranges of
// at most limit tokens, between words if possible. They tile text as sentences do.
func Split(text string, sentences []Range, limit int) []Range {
	out := sentences[:0:0]
	for _, s := range sentences {
		if s.End-s.Start <= limit || CountTokens(s.Of(text)) <= limit {
			out = append(out, s)
			continue
		}
		for s.Start < s.End {
			n := takeTokens(s.Of(text), limit)
			for CountTokens(text[s.Start:s.Start+n]) > limit { // a cut word can be several tokens
				_, last := utf8.DecodeLastRuneInString(text[s.Start : s.Start+n])
				if last == n {
					break
				}
				n -= last
			}
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

// tokenCounts returns the number of tokens of each sentence.
func tokenCounts(text string, sentences []Range) []int {
	out := make([]int, len(sentences))
	for i, s := range sentences {
		out[i] = CountTokens(s.Of(text))
	}
	return out
}

// coarseChunks groups the sentences of a section into coarse chunks: ranges [Start, End) of
// sentence numbers that tile the list. Paragraphs (separated by an empty line) are added to a chunk
// while it stays within l tokens; a longer paragraph is cut between sentences. tokens holds the
// number of tokens of each sentence.
func coarseChunks(text string, sentences []Range, tokens []int, l int) []Range {
	var (
		out   []Range
		chunk Range
		size  int
	)
	flush := func() {
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
			flush()
		}
		for _, n := range tokens[p.Start:p.End] {
			if size+n > l {
				flush()
			}
			chunk.End++
			size += n
		}
	}
	flush()
	return out
}

// paragraphs groups sentence numbers by paragraph; a paragraph ends with an empty line.
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

// endsParagraph reports whether the white space at the end of s contains an empty line.
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

// withTables joins the rows of each table, up to limit tokens, because the first rows say what the
// figures of the others mean.
func withTables(text string, units []Range, limit int) []Range {
	out := units[:0:0]
	tokens := 0
	row := func(r Range) bool { return strings.Contains(r.Of(text), " | ") || strings.HasPrefix(r.Of(text), "| ") }
	for _, u := range units {
		n := CountTokens(u.Of(text))
		if last := len(out) - 1; last >= 0 && row(u) && row(out[last]) && !endsParagraph(out[last].Of(text)) && tokens+n <= limit {
			out[last].End = u.End
			tokens += n
			continue
		}
		out, tokens = append(out, u), n
	}
	return out
}

// Units returns the pieces of a section's text between which g can cut. They are its sentences;
// those that exceed g's limits are cut. If the segmentation model decides the cuts, the rows of
// tables are joined. The units tile the text.
func Units(text string, g schema.Segmentation) []Range {
	units := Sentences(text)
	if g.By == schema.BySegmenter {
		units = withTables(text, units, g.MaxTokens)
	}
	switch g.By {
	case schema.BySimilarity:
		units = splitCharacters(text, units, g.MaxCharacters-1)
	case schema.ByRecursion:
		units = splitCharacters(text, units, g.MaxCharacters)
	}
	return Split(text, units, g.MaxTokens)
}

// Passages cuts a section's text into passages, which tile it. sentences must tile the text, as
// Units do. scores[i] is the score of sentences i and i+1, so there is one score less than there
// are sentences: the segmentation model's score that they belong together (SAGE section IV-D), or
// the cosine of their vectors. scores is not used if g needs none (schema.Segmentation.Scored). Ids
// stay zero.
//
// With BySegmenter, there is always a cut between coarse chunks, and one inside a chunk where the
// score is below g.Threshold and no score nearer than g.Apart is lower. After that g.MaxTokens and
// g.MinTokens are applied: a run of sentences that is over MaxTokens is cut at its lowest scores.
func Passages(text string, sentences []Range, scores []float64, g schema.Segmentation) ([]schema.Passage, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	if len(sentences) == 0 {
		return nil, nil
	}
	if len(scores) != len(sentences)-1 && g.Scored() {
		return nil, fmt.Errorf("segmentation: %d scores for %d sentences: it takes one per adjacent pair", len(scores), len(sentences))
	}
	if err := checkTiled(text, sentences); err != nil {
		return nil, err
	}
	var parts []Range
	switch g.By {
	case schema.BySimilarity:
		parts = passagesBySimilarity(text, sentences, scores, g)
	case schema.BySentences:
		parts = passagesBySentenceCount(text, sentences, g)
	case schema.ByRecursion:
		parts = passagesByRecursion(text, sentences, g)
	default:
		parts = passagesByScore(text, sentences, scores, g)
	}
	out := make([]schema.Passage, len(parts))
	for i, p := range parts {
		span := span(sentences, p)
		out[i] = schema.Passage{Ordinal: i, Start: span.Start, End: span.End, Tokens: CountTokens(span.Of(text))}
	}
	return out, nil
}

// checkTiled returns an error that says where sentences do not tile text, or nil.
func checkTiled(text string, sentences []Range) error {
	end := 0
	for i, s := range sentences {
		if s.Start != end || s.End <= s.Start || s.End > len(text) {
			return fmt.Errorf("segmentation: sentence %d [%d, %d) does not continue at byte %d of %d", i, s.Start, s.End, end, len(text))
		}
		end = s.End
	}
	if end != len(text) {
		return fmt.Errorf("segmentation: sentences end at byte %d of %d", end, len(text))
	}
	return nil
}

// span returns the bytes that sentences [p.Start, p.End) cover.
func span(sentences []Range, p Range) Range {
	return Range{sentences[p.Start].Start, sentences[p.End-1].End}
}

// passagesByScore cuts by the segmentation model's scores.
func passagesByScore(text string, sentences []Range, scores []float64, g schema.Segmentation) []Range {
	c := cutter{g: g, text: text, sentences: sentences, scores: scores, tokenCounts: tokenCounts(text, sentences)}
	var parts []Range
	for _, chunk := range coarseChunks(text, sentences, c.tokenCounts, g.CoarseTokens) {
		start := chunk.Start
		for i := chunk.Start; i < chunk.End; i++ {
			if i == chunk.End-1 || scores[i] < g.Threshold && c.isLocalMinimum(i) {
				parts = c.splitLong(parts, Range{start, i + 1})
				start = i + 1
			}
		}
	}
	return c.mergeShort(parts)
}

// isLocalMinimum reports whether no score nearer to i than Apart is lower; among equal scores, the
// last is the lowest.
func (c *cutter) isLocalMinimum(i int) bool {
	for j := max(0, i-c.g.Apart+1); j < min(len(c.scores), i+c.g.Apart); j++ {
		if c.scores[j] < c.scores[i] || j > i && c.scores[j] == c.scores[i] {
			return false
		}
	}
	return true
}

// cutter is the state of cutting one section; its ranges are of sentence numbers.
type cutter struct {
	g           schema.Segmentation
	text        string
	sentences   []Range
	scores      []float64
	tokenCounts []int
}

func (c *cutter) tokens(p Range) int {
	n := 0
	for _, t := range c.tokenCounts[p.Start:p.End] {
		n += t
	}
	return n
}

// splitLong appends p to parts, cut at its lowest scores until each part is within MaxTokens.
func (c *cutter) splitLong(parts []Range, p Range) []Range {
	if p.End-p.Start == 1 || c.tokens(p) <= c.g.MaxTokens {
		return append(parts, p)
	}
	lowest := p.Start
	for i := p.Start; i < p.End-1; i++ {
		if c.scores[i] < c.scores[lowest] {
			lowest = i
		}
	}
	return c.splitLong(c.splitLong(parts, Range{p.Start, lowest + 1}), Range{lowest + 1, p.End})
}

// mergeShort joins each part below MinTokens to a neighbour: to the one with the higher score, but
// a separate paragraph (a heading) to what follows.
func (c *cutter) mergeShort(parts []Range) []Range {
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

// heading reports whether p is a separate paragraph.
func (c *cutter) heading(p Range) bool { return ownParagraph(c.text, c.sentences, p) }
