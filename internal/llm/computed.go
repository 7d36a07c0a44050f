package llm

// What the provider "extractive" computes of figures of tables: the answer begins with
// the number, says what it was computed of, and quotes that.

import (
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/tabular"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

// computedAnswer is a number that answers a question.
type computedAnswer struct{ tabular.Computed }

// computedOf is what a question asks to compute, where the passages have the figures
// and they are right with the confidence least.
func computedOf(r wire.LLMRequest, least float64) (computedAnswer, bool) {
	found, ok := tabular.Derive(r.Question, inputsOf(r))
	return computedAnswer{found}, ok && found.Confidence >= leastOf(r, least)
}

// answer completes out: every row is quoted, with what stands over it.
func (c computedAnswer) answer(r wire.LLMRequest, out Completion) Completion {
	out.Model, out.Rated = "tables", true
	out.InputTokens = text.CountTokens(r.Question)
	for _, p := range r.Passages {
		out.InputTokens += text.CountTokens(p.Text)
	}
	quote := func(at text.Range, short wire.QuoteAnswer) {
		q := wire.Quote{Passage: c.Cells[0].Source, Start: at.Start, End: at.End, Answer: short}
		if at.Start < at.End && !slices.ContainsFunc(out.Quotes, func(o wire.Quote) bool { return o.Start <= q.Start && q.End <= o.End }) {
			out.Quotes = append(out.Quotes, q)
		}
	}
	for _, cell := range c.Cells {
		quote(cell.Row.Range, wire.QuoteAnswer{Confidence: c.Confidence})
	}
	for _, h := range c.Cells[0].Header {
		quote(h, wire.QuoteAnswer{})
	}
	for _, cell := range c.Cells {
		quote(text.Range{Start: cell.Row.Group.Start, End: cell.Row.Group.End}, wire.QuoteAnswer{})
	}
	quote(c.Cells[0].UnitAt, wire.QuoteAnswer{})
	claims := make([]int, len(out.Quotes))
	for i := range claims {
		claims[i] = i
	}
	computed := &wire.Computed{Operation: string(c.Operation), Value: c.Value}
	for _, cell := range c.Cells {
		computed.Figures = append(computed.Figures, cell.Cell.Text)
	}
	out.Text = computed.Text() + c.figures()
	out.Sentences = []wire.ReplySentence{{Start: 0, End: len(out.Text), Quotes: claims, Computed: computed}}
	out.OutputTokens = text.CountTokens(out.Text)
	return out
}

// figures says what was computed with: "Revenue, 2021: $555, 2022: $532 (in millions)".
func (c computedAnswer) figures() string {
	var b strings.Builder
	name := func(m tabular.Match) string {
		return strings.Join(slices.DeleteFunc([]string{strings.TrimSuffix(m.Row.Group.Text, ":"), m.Row.Label}, func(s string) bool { return s == "" }), ": ")
	}
	first := c.Cells[0]
	oneRow := first.Row.Start == c.Cells[1].Row.Start
	switch {
	case oneRow:
		b.WriteString(name(first))
	default:
		b.WriteString(first.Column)
	}
	for _, cell := range c.Cells {
		of := cell.Column
		if !oneRow {
			of = name(cell)
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(of + ": " + cell.Cell.Text)
	}
	if first.Unit != "" && !strings.Contains(strings.ToLower(b.String()), strings.ToLower(first.Unit)) {
		b.WriteString(" (" + first.Unit + ")")
	}
	return b.String()
}
