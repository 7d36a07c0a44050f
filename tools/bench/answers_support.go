package main

// This file makes sentences that a quote supports, and others that it does not, from questions and
// their answers. A question with its answer in place of the question word says what the paragraph's
// sentence says, in other words.

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

var (
	questionWord = regexp.MustCompile(`(?i)\b(?:what|which|who|whom|whose|when|where|how many|how much|how long|how old|how often|how far|how)\b`)
	auxiliary    = regexp.MustCompile(`(?i)\b(?:was|were|is|are|did|does|do|can|could|has|had|have|will|would|should)\b`)
	clauseEnd    = regexp.MustCompile(`(?i)[,;:()]|\b(?:and|but|or|that|which|who|whom|whose|where|when|while|although|though|because|as|to)\b`)
	digits       = regexp.MustCompile(`\d[\d,.]*\d|\d`)
)

// supportKinds are the kinds of pairs, the supported ones first.
var supportKinds = []string{"supported", "another sentence of the paragraph", "the likest sentence of other paragraphs", "another answer, not in the quote",
	"another answer, in the quote", "a digit of the answer changed", "a digit of the question changed", "the sentence denied", "the quote denied before the answer, in its clause", "the quote denied elsewhere"}

// supportCase is a sentence, the question that it answers, and a quote.
type supportCase struct {
	kind                             int
	sentence, question, quote, title string
	passage                          string // from which the quote is taken
}

// supportFigures count pairs, and pairs that were classified as supported, by kind, half of the
// articles, and trust: byRules with the rules alone, taken also with the reader's spans.
type supportFigures struct{ pairs, byRules, taken map[[3]int]int }

func measureSupport(ctx context.Context, provider *llm.Extractive, articles []squadArticle, n int, seed uint64) (supportFigures, error) {
	out := supportFigures{map[[3]int]int{}, map[[3]int]int{}, map[[3]int]int{}}
	r := rand.New(rand.NewPCG(seed, 2))
	for count := 0; count < n; {
		at := r.IntN(len(articles))
		cases := supportCases(articles[at], r)
		if len(cases) == 0 {
			continue
		}
		count++
		for _, c := range cases {
			e, err := c.evidence(ctx, provider)
			if err != nil {
				return out, err
			}
			for _, trust := range []answer.Trust{answer.Unclaimed, answer.Claimed} {
				key := [3]int{c.kind, at % 2, int(trust)}
				out.pairs[key]++
				rules := e
				rules.Read = nil
				if answer.Supports(c.sentence, c.question, rules, trust) {
					out.byRules[key]++
				}
				if answer.Supports(c.sentence, c.question, e, trust) && answer.CompareWithReader(c.sentence, c.question, e.Read) != answer.OtherAnswer {
					out.taken[key]++
				}
			}
		}
	}
	return out, nil
}

// evidence returns the quote of a case, and the spans that the provider reads in it.
func (c supportCase) evidence(ctx context.Context, provider *llm.Extractive) (answer.Evidence, error) {
	e := answer.Evidence{Quote: c.quote, Context: c.title, Passage: c.passage}
	read, err := provider.Complete(ctx, wire.LLMRequest{Task: wire.TaskRead, Question: c.question, Passages: []wire.LLMPassage{{Title: c.title, Text: c.quote}}})
	for _, x := range read.Readings {
		e.Read = append(e.Read, answer.ReaderSpan{Text: c.quote[x.Start:x.End], Score: x.Score})
	}
	return e, err
}

func supportCases(a squadArticle, r *rand.Rand) []supportCase {
	at := r.IntN(len(a.Paragraphs))
	p := a.Paragraphs[at]
	if len(p.Questions) == 0 {
		return nil
	}
	q := p.Questions[r.IntN(len(p.Questions))]
	question := strings.TrimSpace(q.Question)
	asks := questionWord.FindStringIndex(question)
	if asks == nil || len(q.Answers) == 0 {
		return nil
	}
	sentenceWith := func(answer string) string {
		return strings.TrimRight(question[:asks[0]]+answer+question[asks[1]:], "? ") + "."
	}
	right := q.Answers[0].Text
	sentence := sentenceWith(right)
	start := len(string([]rune(p.Context)[:q.Answers[0].Start]))
	quote, others := "", []string{}
	for _, s := range text.Sentences(p.Context) {
		body := strings.TrimSpace(s.Of(p.Context))
		switch {
		case s.Start < start+len(right) && start < s.End:
			quote = strings.TrimSpace(quote + " " + body)
		case !holds(body, right):
			others = append(others, body)
		}
	}
	var out []supportCase
	add := func(kind int, sentence, question, quote string) {
		out = append(out, supportCase{kind: kind, sentence: sentence, question: question, quote: quote, title: a.Title, passage: p.Context})
	}
	add(0, sentence, question, quote)
	if len(others) > 0 {
		add(1, sentence, question, others[r.IntN(len(others))])
	}
	if similar := mostSimilarElsewhere(a, at, sentence, right); similar != "" {
		add(2, sentence, question, similar)
	}
	if other := p.Questions[r.IntN(len(p.Questions))].Answers[0].Text; !holds(other, right) && !holds(right, other) {
		kind := 3
		if holds(quote, other) {
			kind = 4
		}
		add(kind, sentenceWith(other), question, quote)
	}
	if places := digits.FindAllStringIndex(sentence, -1); len(places) > 0 {
		place := places[r.IntN(len(places))]
		number := sentence[place[0]:place[1]]
		changed := otherDigit(number, r)
		kind, asked := 5, question
		if place[0] < asks[0] || place[0] >= asks[0]+len(right) {
			kind, asked = 6, strings.Replace(question, number, changed, 1)
		}
		add(kind, sentence[:place[0]]+changed+sentence[place[1]:], asked, quote)
	}
	if place := auxiliary.FindStringIndex(sentence); place != nil {
		add(7, sentence[:place[1]]+" not"+sentence[place[1]:], question, quote)
	}
	if place := auxiliary.FindStringIndex(quote); place != nil {
		kind := 9
		if sentenceWith := strings.Index(quote, right); sentenceWith > place[1] && !clauseEnd.MatchString(quote[place[1]:sentenceWith]) {
			kind = 8
		}
		add(kind, sentence, question, quote[:place[1]]+" not"+quote[place[1]:])
	}
	return out
}

// holds reports whether s contains part, ignoring case.
func holds(s, part string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(part)) }

// otherDigit changes one digit of a number.
func otherDigit(number string, r *rand.Rand) string {
	out := []byte(number)
	for {
		i, digit := r.IntN(len(out)), byte('1'+r.IntN(9))
		if out[i] >= '0' && out[i] <= '9' && out[i] != digit {
			out[i] = digit
			return string(out)
		}
	}
}

// mostSimilarElsewhere returns, from every third of an article's other paragraphs, the sentence
// that shares most words with a sentence and does not contain the answer.
func mostSimilarElsewhere(a squadArticle, at int, sentence, right string) string {
	words := text.ContentWords(sentence)
	best, out := -1.0, ""
	for i, p := range a.Paragraphs {
		if i == at || i%3 != 0 {
			continue
		}
		for _, s := range text.Sentences(p.Context) {
			body := strings.TrimSpace(s.Of(p.Context))
			if holds(body, right) {
				continue
			}
			theirs, shared := text.ContentWords(body), 0
			for w := range words {
				if theirs[w] {
					shared++
				}
			}
			if like := float64(shared) / float64(len(theirs)+8); like > best {
				best, out = like, body
			}
		}
	}
	return out
}

func printSupport(w io.Writer, f supportFigures) error {
	rows := [][]string{{"taken for supported", "pairs", "unclaimed", "by the rules alone", "claimed by the model", "by the rules alone", "unclaimed: even articles", "odd articles"}}
	for kind, name := range supportKinds {
		share := func(taken map[[3]int]int, trust int, halves ...int) string {
			n, of := 0, 0
			for _, half := range halves {
				key := [3]int{kind, half, trust}
				n, of = n+taken[key], of+f.pairs[key]
			}
			return fmt.Sprintf("%.1f %%", 100*float64(n)/max(1, float64(of)))
		}
		rows = append(rows, []string{name, fmt.Sprint(f.pairs[[3]int{kind, 0, 0}] + f.pairs[[3]int{kind, 1, 0}]),
			share(f.taken, 0, 0, 1), share(f.byRules, 0, 0, 1), share(f.taken, 1, 0, 1), share(f.byRules, 1, 0, 1), share(f.taken, 0, 0), share(f.taken, 0, 1)})
	}
	return table(w, rows)
}
