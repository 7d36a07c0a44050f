package stage

// This file narrows what a model reads of a piece to the sentences around the one
// that has most of the question.

import (
	"context"

	"github.com/sluice-rag/sluice/internal/text"
)

// windowed narrows a piece to most tokens: the sentence whose terms of the
// question have the highest sum of idf, the first of equal ones, and then, one by
// one, the better of its neighbours that still fits; of equal ones the next. A
// longer sentence is read whole, and so is everything where the question has no term.
func (t *Task) windowed(ctx context.Context, most int) (func(string) text.Range, error) {
	if err := t.analyse(); err != nil {
		return nil, err
	}
	if len(t.terms) == 0 {
		return nil, nil
	}
	idf, err := t.idf(ctx)
	if err != nil {
		return nil, err
	}
	return func(piece string) text.Range {
		if text.CountTokens(piece) <= most {
			return text.Range{End: len(piece)}
		}
		sentences := text.Sentences(piece)
		scores, tokens := make([]float64, len(sentences)), make([]int, len(sentences))
		best := 0
		for i, r := range sentences {
			tokens[i] = text.CountTokens(r.Of(piece))
			if scores[i] = t.sharing(r.Of(piece), idf); scores[i] > scores[best] {
				best = i
			}
		}
		from, to, sum := best, best+1, tokens[best]
		for {
			before := from > 0 && sum+tokens[from-1] <= most
			after := to < len(sentences) && sum+tokens[to] <= most
			switch {
			case after && (!before || scores[to] >= scores[from-1]):
				sum += tokens[to]
				to++
			case before:
				from--
				sum += tokens[from]
			default:
				return text.Range{Start: sentences[from].Start, End: sentences[to-1].End}
			}
		}
	}, nil
}

// sharing is the sum of the idf of the question's terms that a sentence has, each once.
func (t *Task) sharing(sentence string, idf map[string]float64) float64 {
	words := map[string]bool{}
	for _, w := range t.analyzer.Terms(sentence) {
		words[w] = true
	}
	sum := 0.0
	met := map[string]bool{}
	for _, term := range t.terms { // in their order: sums do not hang on that of a map
		if words[term] && !met[term] {
			met[term] = true
			sum += idf[term]
		}
	}
	return sum
}
