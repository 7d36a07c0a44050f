package main

// This file asks the provider "extractive" questions: with the answer among the passages, without
// the paragraphs that have it, without the whole article, and with choices.

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

// askingFigures are counts of questions.
type askingFigures struct {
	there, answered, first, any, exact int // with the answer among the passages
	f1                                 float64
	headings                           int // first quotes without a full stop
	near, nearRefused                  int // without the paragraphs that have it
	far, farRefused                    int // without its article
	chosen, right, cited               int // with four choices
}

func measureAsking(ctx context.Context, provider *llm.Extractive, p *pool, asked []sampled) (f askingFigures, err error) {
	r := rand.New(rand.NewPCG(1, 4))
	ask := func(q sampled, passages []wire.LLMPassage, choices []string) (llm.Completion, error) {
		return provider.Complete(ctx, wire.LLMRequest{Envelope: wire.Header(), Tenant: uuid.Max, Task: wire.TaskAnswer, Question: q.Question, Passages: passages, Choices: choices})
	}
	for _, q := range asked {
		right := q.Answers[0].Text
		gold := p.articles[q.article].Paragraphs[q.paragraph].Context
		passages := p.nearest(q.Question, func(pooled) bool { return true })
		if slices.ContainsFunc(passages, func(x wire.LLMPassage) bool { return x.Text == gold }) {
			c, err := ask(q, passages, nil)
			if err != nil {
				return f, err
			}
			f.count(c, passages, right)
			if others := p.distractors(q, r); len(others) == 3 {
				at := r.IntN(4)
				choices := slices.Insert(others, at, right)
				if c, err = ask(q, passages, choices); err != nil {
					return f, err
				}
				f.chosen++
				if c.Choice == at+1 {
					f.right++
					if len(c.Quotes) > 0 && holds(quoted(c.Quotes[0], passages), right) {
						f.cited++
					}
				}
			}
		}
		for i, may := range []func(pooled) bool{
			func(x pooled) bool { return !holds(x.text, right) },
			func(x pooled) bool { return x.article != q.article && !holds(x.text, right) },
		} {
			without := p.nearest(q.Question, may)
			if len(without) == 0 {
				continue
			}
			c, err := ask(q, without, nil)
			if err != nil {
				return f, err
			}
			refused := 0
			if c.Text == "" {
				refused = 1
			}
			if i == 0 {
				f.near, f.nearRefused = f.near+1, f.nearRefused+refused
			} else {
				f.far, f.farRefused = f.far+1, f.farRefused+refused
			}
		}
	}
	return f, nil
}

func quoted(q wire.Quote, passages []wire.LLMPassage) string {
	return passages[q.Passage].Text[q.Start:q.End]
}

// count counts the answer to a question whose answer is among the passages.
func (f *askingFigures) count(c llm.Completion, passages []wire.LLMPassage, right string) {
	f.there++
	if len(c.Quotes) == 0 {
		return
	}
	f.answered++
	if body := quoted(c.Quotes[0], passages); holds(body, right) {
		f.first++
	} else if !strings.ContainsAny(body, ".!?") {
		f.headings++
	}
	if holds(c.Text, right) {
		f.any++
	}
	a := c.Quotes[0].Answer
	short := passages[c.Quotes[0].Passage].Text[a.Start:a.End]
	given, want := text.ContentWords(short), text.ContentWords(right)
	both := 0
	for w := range given {
		if want[w] {
			both++
		}
	}
	if both > 0 {
		f.f1 += 2 * float64(both) / float64(len(given)+len(want))
	}
	if both > 0 && both == len(given) && both == len(want) {
		f.exact++
	}
}

// distractors returns three answers to other questions with the same question word, preferably from
// the same paragraph, then from the article. None of them contains the right answer or is contained
// in it.
func (p *pool) distractors(q sampled, r *rand.Rand) []string {
	questionType := strings.ToLower(questionWord.FindString(q.Question))
	var all, same []string
	for i, x := range p.articles[q.article].Paragraphs {
		for _, other := range x.Questions {
			if len(other.Answers) == 0 || strings.ToLower(questionWord.FindString(other.Question)) != questionType {
				continue
			}
			a := other.Answers[0].Text
			if !holds(a, q.Answers[0].Text) && !holds(q.Answers[0].Text, a) && !slices.Contains(all, a) && !slices.Contains(same, a) {
				if i == q.paragraph {
					same = append(same, a)
				} else {
					all = append(all, a)
				}
			}
		}
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = append(same, all...)
	return slices.Clone(all[:min(len(all), 3)])
}

func (f askingFigures) print(w io.Writer) error {
	share := func(n, of int) string { return fmt.Sprintf("%.1f %% of %d", 100*float64(n)/max(1, float64(of)), of) }
	return table(w, [][]string{
		{"the answer is among ten passages: answered", share(f.answered, f.there)},
		{"  the first quote has it", share(f.first, f.there)},
		{"  a quote has it", share(f.any, f.there)},
		{"  short answer: same words; F1", fmt.Sprintf("%s; %.3f", share(f.exact, f.there), f.f1/max(1, float64(f.there)))},
		{"  first quote is a line without a stop, and wrong", share(f.headings, f.there)},
		{"paragraphs with the answer taken away: refused", share(f.nearRefused, f.near)},
		{"its article taken away: refused", share(f.farRefused, f.far)},
		{"four choices: right", share(f.right, f.chosen)},
		{"  and the first quote has the choice", share(f.cited, f.chosen)},
	})
}
