package llm

// This file answers questions for a figure of a table in the provider "extractive". The answer
// names the cell, its row and column, and its unit.

import (
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/tabular"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

// answerOfTables returns the figure that a question asks for, or a value computed from several
// figures. It reports false if the passages have no such figure or its confidence is below
// minConfidence.
func answerOfTables(r wire.LLMRequest, minConfidence float64) (Completion, bool) {
	inputs := make([]tabular.Input, len(r.Passages))
	for i, p := range r.Passages {
		inputs[i] = tabular.Input{Text: p.Text, Context: strings.Join(append([]string{p.Title}, p.Headings...), "\n")}
	}
	minConfidence = max(minConfidence, minFigureConfidence)
	if r.Risk != nil { // the pack's thresholds are for the reader's answers
		minConfidence = max(minConfidence, 1-*r.Risk)
	}
	out := Completion{Model: "tables", Rated: true}
	if found, ok := tabular.Derive(r.Question, inputs); ok && found.Confidence >= minConfidence {
		computedAnswer{found}.complete(&out)
	} else if found, ok := tabular.Find(r.Question, inputs); ok && found.Confidence >= minConfidence {
		figureAnswer{found}.complete(&out)
	} else {
		return out, false
	}
	out.InputTokens = text.CountTokens(r.Question)
	for _, p := range r.Passages {
		out.InputTokens += text.CountTokens(p.Text)
	}
	out.OutputTokens = text.CountTokens(out.Text)
	return out, true
}

// rowName returns the name of a row with its group: "Revenue: Product".
func rowName(r tabular.TableRow) string {
	group := strings.TrimSuffix(r.Group.Text, ":")
	if group == "" || r.Label == "" {
		return group + r.Label
	}
	return group + ": " + r.Label
}

// withUnit appends the unit to s unless s contains it.
func withUnit(s, unit string) string {
	if unit == "" || strings.Contains(strings.ToLower(s), strings.ToLower(unit)) {
		return s
	}
	return s + " (" + unit + ")"
}

// figureAnswer is a cell that answers a question.
type figureAnswer struct{ tabular.Match }

// minFigureConfidence is the least confidence of a figure. Below it the reader answers.
const minFigureConfidence = 0.5

// complete writes the answer into out. It quotes the row, with the cell as its short answer, and
// the headers above the cell.
func (f figureAnswer) complete(out *Completion) {
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
	} else { // the cell is a year in the header above the row
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
}

// text names the figure: "Revenue: Product, 2022: $532 (in millions)".
func (f figureAnswer) text() string {
	name := rowName(f.Row)
	if name != "" && f.Column != "" {
		name += ", "
	}
	if name += f.Column; name != "" {
		name += ": "
	}
	return withUnit(name+f.Cell.Text, f.Unit)
}
