package llm

// This file answers with a number that the provider "extractive" computes from figures of tables.
// The answer begins with the number, says which figures it comes from, and quotes them.

import (
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/tabular"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

// computedAnswer is a number that answers a question.
type computedAnswer struct{ tabular.Computed }

// complete writes the answer into out. It quotes every row and the headers above it.
func (c computedAnswer) complete(out *Completion) {
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
}

// figures names the figures of the computation: "Revenue, 2021: $555, 2022: $532 (in millions)".
func (c computedAnswer) figures() string {
	first := c.Cells[0]
	oneRow := first.Row.Start == c.Cells[1].Row.Start
	named := first.Column
	if oneRow {
		named = rowName(first.Row)
	}
	var parts []string
	if named != "" {
		parts = append(parts, named)
	}
	for _, cell := range c.Cells {
		of := rowName(cell.Row)
		if oneRow {
			of = cell.Column
		}
		parts = append(parts, of+": "+cell.Cell.Text)
	}
	return withUnit(strings.Join(parts, ", "), first.Unit)
}
