package llm

// Figures of tables inside the provider "extractive": a question for one is answered
// with the cell, the row and the column that it stands in, and its unit.

import (
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/tabular"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

// figureAnswer is a cell that answers a question.
type figureAnswer struct{ tabular.Match }

// figureOf is the figure that a question asks for, where the passages have one that
// is right with the confidence least.
func figureOf(r wire.LLMRequest, least float64) (figureAnswer, bool) {
	found, ok := tabular.Find(r.Question, inputsOf(r))
	return figureAnswer{found}, ok && found.Confidence >= leastOf(r, least)
}

// inputsOf are the passages as tables are looked for in them.
func inputsOf(r wire.LLMRequest) []tabular.Input {
	out := make([]tabular.Input, len(r.Passages))
	for i, p := range r.Passages {
		out[i] = tabular.Input{Text: p.Text, Context: strings.Join(append([]string{p.Title}, p.Headings...), "\n")}
	}
	return out
}

// leastOf is the confidence that a figure needs. The pack's thresholds of risks are of
// what the reader reads.
func leastOf(r wire.LLMRequest, least float64) float64 {
	if r.Risk != nil {
		least = max(least, 1-*r.Risk)
	}
	return max(least, surest)
}

// surest is the least confidence of a figure: below it the reader answers.
const surest = 0.5

// answer completes out: the row is quoted, with the cell as its short answer, and what stands over the
// cell.
func (f figureAnswer) answer(r wire.LLMRequest, out Completion) Completion {
	out.Model, out.Rated = "tables", true
	out.InputTokens = text.CountTokens(r.Question)
	for _, p := range r.Passages {
		out.InputTokens += text.CountTokens(p.Text)
	}
	quote := func(at text.Range, short wire.QuoteAnswer) {
		out.Quotes = append(out.Quotes, wire.Quote{Passage: f.Source, Start: at.Start, End: at.End, Answer: short})
	}
	short := wire.QuoteAnswer{Start: f.Cell.Start, End: f.Cell.End, Confidence: f.Confidence}
	claims := []int{0}
	if f.Cell.Start >= f.Row.Start && f.Cell.End <= f.Row.End {
		quote(f.Row.Range, short)
		for _, h := range f.Header {
			claims = append(claims, len(out.Quotes))
			quote(h, wire.QuoteAnswer{})
		}
	} else { // a year, which stands over the row
		for _, h := range f.Header {
			if f.Cell.Start >= h.Start && f.Cell.End <= h.End {
				quote(h, short)
			}
		}
		claims = append(claims, len(out.Quotes))
		quote(f.Row.Range, wire.QuoteAnswer{})
	}
	if g := f.Row.Group; g.Text != "" {
		claims = append(claims, len(out.Quotes))
		quote(text.Range{Start: g.Start, End: g.End}, wire.QuoteAnswer{})
	}
	if at := f.UnitAt; at.Start < at.End && !slices.ContainsFunc(f.Header, func(h text.Range) bool { return h.Start <= at.Start && at.End <= h.End }) {
		claims = append(claims, len(out.Quotes))
		quote(at, wire.QuoteAnswer{})
	}
	out.Text = f.text()
	out.Sentences = []wire.ReplySentence{{Start: 0, End: len(out.Text), Quotes: claims}}
	out.OutputTokens = text.CountTokens(out.Text)
	return out
}

// text says which figure it is: "Revenue: Product, 2022: $532 (in millions)".
func (f figureAnswer) text() string {
	var b strings.Builder
	for _, part := range []string{strings.TrimSuffix(f.Row.Group.Text, ":"), f.Row.Label} {
		if part == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(part)
	}
	if f.Column != "" {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(f.Column)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(f.Cell.Text)
	if f.Unit != "" && !strings.Contains(strings.ToLower(b.String()), strings.ToLower(f.Unit)) {
		b.WriteString(" (" + f.Unit + ")")
	}
	return b.String()
}
