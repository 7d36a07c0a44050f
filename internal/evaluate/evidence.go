package evaluate

// This file compares the selected context with the evidence.

import (
	"slices"
	"strings"
	"unicode"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

// evidenceSentences returns the sentences of each piece of evidence, with single spaces. A piece
// may be a sentence (dragonball) or a paragraph (squad-articles), depending on the dataset.
// Sentences make both comparable, and a plan that sends the half of a paragraph with the answer is
// not as bad as one that sends none of it.
func evidenceSentences(evidence []string) [][]string {
	var out [][]string
	for _, e := range evidence {
		var sentences []string
		for _, r := range text.Sentences(e) {
			if s := squeeze(e[r.Start:r.End]); strings.ContainsFunc(s, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }) {
				sentences = append(sentences, s)
			}
		}
		if len(sentences) > 0 {
			out = append(out, sentences)
		}
	}
	return out
}

// evidenceRecall returns the share of the evidence that is in the context: the mean, over the
// pieces, of the share of the piece's sentences that a text of the context contains.
func evidenceRecall(evidence [][]string, context []string) float64 {
	if len(evidence) == 0 {
		return 0
	}
	sum := 0.0
	for _, sentences := range evidence {
		found := 0
		for _, s := range sentences {
			if slices.ContainsFunc(context, func(c string) bool { return strings.Contains(c, s) }) {
				found++
			}
		}
		sum += float64(found) / float64(len(sentences))
	}
	return sum / float64(len(evidence))
}

// contextTexts returns the texts of a context, with single spaces. Passages that touch or overlap
// in their section are joined, in whatever order they were selected, because evidence may cross
// their boundary.
func contextTexts(context []schema.Candidate) []string {
	var out []string
	pieces := map[uuid.UUID][]schema.Candidate{}
	for _, c := range context {
		if len(c.Spans) == 1 && c.Spans[0].End-c.Spans[0].Start == len(c.Text) {
			pieces[c.Spans[0].Section] = append(pieces[c.Spans[0].Section], c)
			continue
		}
		out = append(out, squeeze(c.Text))
	}
	for _, c := range context { // for a stable order
		if len(c.Spans) != 1 || pieces[c.Spans[0].Section] == nil {
			continue
		}
		section := c.Spans[0].Section
		for _, joined := range join(pieces[section]) {
			out = append(out, squeeze(joined))
		}
		delete(pieces, section)
	}
	return out
}

// join joins the pieces of one section that touch or overlap.
func join(pieces []schema.Candidate) []string {
	slices.SortStableFunc(pieces, func(a, b schema.Candidate) int { return a.Spans[0].Start - b.Spans[0].Start })
	var out []string
	end := -1
	for _, p := range pieces {
		s := p.Spans[0]
		switch last := len(out) - 1; {
		case s.Start > end || last < 0:
			out = append(out, p.Text)
		case s.End > end:
			out[last] += p.Text[end-s.Start:]
		}
		end = max(end, s.End)
	}
	return out
}

// contextTokens counts the tokens that a language model would be sent, with a counter that does not
// depend on the model.
func contextTokens(context []schema.Candidate) int {
	n := 0
	for _, c := range context {
		n += text.CountTokens(c.Text)
	}
	return n
}

// squeeze replaces every run of white space by one space.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }
