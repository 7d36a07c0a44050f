package stage

// This file reduces the part of a piece that a model reads to the sentences that have most in
// common with the question.

import (
	"context"
	"strings"

	"github.com/sluice-rag/sluice/internal/text"
)

// windowed reduces a piece to about maxTokens tokens. It takes first the sentence whose terms of
// the question have the highest sum of idf; then, while one fits, the sentence that adds most by
// terms that no taken sentence has; then the neighbours of those taken. Of ties it takes the first.
// A row of a table brings the table's first row with it. The sentences stay in their order. If the
// question has no terms, all of the piece is read.
func (t *Task) windowed(ctx context.Context, maxTokens int) (func(string) string, error) {
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
	return func(piece string) string {
		if text.CountTokens(piece) <= maxTokens {
			return piece
		}
		w := excerpt{tokensLeft: maxTokens, covered: map[string]bool{}}
		for _, r := range text.Sentences(piece) {
			s := r.Of(piece)
			w.sentences = append(w.sentences, excerptSentence{text: s, tokens: text.CountTokens(s), row: strings.Contains(s, "|"), terms: t.sharedTerms(s)})
		}
		return w.read(idf)
	}, nil
}

// sharedTerms returns the terms of the question that a sentence has, each once and in the
// question's order.
func (t *Task) sharedTerms(sentence string) []string {
	words := map[string]bool{}
	for _, w := range t.analyzer.Terms(sentence) {
		words[w] = true
	}
	var out []string
	for _, term := range t.terms {
		if words[term] {
			out = append(out, term)
			delete(words, term)
		}
	}
	return out
}

// excerpt is the part of a piece that is read.
type excerpt struct {
	sentences  []excerptSentence
	tokensLeft int // tokens that may still be taken
	covered    map[string]bool
}

type excerptSentence struct {
	text       string
	tokens     int
	row, taken bool
	terms      []string // of the question
}

func (w *excerpt) read(idf map[string]float64) string {
	all := func(i int) float64 { return sumOf(w.sentences[i].terms, idf, nil) }
	first, highest := 0, all(0)
	for i := range w.sentences {
		if x := all(i); x > highest {
			first, highest = i, x
		}
	}
	w.add(first)
	for w.addBest(func(i int) float64 { return sumOf(w.sentences[i].terms, idf, w.covered) }) {
	}
	for w.addBest(func(i int) float64 {
		if !(i > 0 && w.sentences[i-1].taken) && !(i+1 < len(w.sentences) && w.sentences[i+1].taken) {
			return 0
		}
		return 1 + all(i)
	}) {
	}
	var b strings.Builder
	for _, s := range w.sentences {
		if s.taken {
			b.WriteString(s.text)
		}
	}
	return b.String()
}

// addBest takes the sentence with the highest score among those that fit. It reports false if none
// scores more than zero.
func (w *excerpt) addBest(score func(i int) float64) bool {
	best, highest := -1, 0.0
	for i, s := range w.sentences {
		if s.taken || s.tokens > w.tokensLeft {
			continue
		}
		if x := score(i); x > highest {
			best, highest = i, x
		}
	}
	if best >= 0 {
		w.add(best)
	}
	return best >= 0
}

// add takes a sentence. With a table's row it takes the table's first row, even if that does not
// fit, since it names the columns.
func (w *excerpt) add(i int) {
	s := &w.sentences[i]
	if s.taken {
		return
	}
	s.taken = true
	w.tokensLeft -= s.tokens
	for _, term := range s.terms {
		w.covered[term] = true
	}
	if s.row && i > 0 {
		for i > 0 && w.sentences[i-1].row {
			i--
		}
		w.add(i)
	}
}

// sumOf returns the sum of the idf of the terms that are not in without.
func sumOf(terms []string, idf map[string]float64, without map[string]bool) float64 {
	sum := 0.0
	for _, term := range terms {
		if !without[term] {
			sum += idf[term]
		}
	}
	return sum
}
