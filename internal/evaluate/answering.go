package evaluate

// This file measures the answers under each plan: what a question costs, how it is answered, and
// how right that is.

import (
	"context"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

// Answerer answers one question under one plan.
type Answerer interface {
	Ask(ctx context.Context, plan string, q Topic) (Answered, error)
}

// Answered is an answer and how long it took.
type Answered struct {
	schema.Answer
	Millis float64 // from question to answer
}

// Prices are the prices of tokens for answers that do not state their cost, in US dollars per
// million.
type Prices = schema.Prices

// cost is SAGE's equation 1: input tokens and output tokens times their prices. The cost that an
// answer states takes precedence; otherwise nominal is true.
func cost(p Prices, u schema.Usage) (dollars float64, nominal bool) {
	if u.Cost > 0 {
		return u.Cost, false
	}
	return (float64(u.InputTokens)*p.Input + float64(u.OutputTokens)*p.Output) / 1e6, true
}

// AnswerQualities are the measures of answers in which plans are compared, besides the tokens that
// an answer took.
var AnswerQualities = []string{
	"em", "f1", "rouge_l", "bleu_1", "bleu_4", "meteor", "contains", correctness, "citation_precision", "citation_recall", "quote_precision", "quote_recall",
	"unanswerable_accuracy", "choice_accuracy",
}

// efficiency is the metric quality per dollar; efficient is the metric of its quality.
const (
	efficiency = "cost_efficiency"
	efficient  = "f1"
)

// answerMeasures are the measures of one answer. Tokens and cost are of every question; the others
// are of questions with a known right answer.
var answerMeasures = []measure{
	newGauge("em", func(a *answerObservation) float64 { return a.short.em }),
	newGauge("f1", func(a *answerObservation) float64 { return a.short.f1 }),
	newGauge("rouge_l", func(a *answerObservation) float64 { return a.whole.rougeL }),
	newGauge("bleu_1", func(a *answerObservation) float64 { return a.whole.bleu1 }),
	newGauge("bleu_4", func(a *answerObservation) float64 { return a.whole.bleu4 }),
	newGauge("meteor", func(a *answerObservation) float64 { return a.whole.meteor }),
	newGauge("contains", func(a *answerObservation) float64 { return a.contains }),
	newGauge("em_whole", func(a *answerObservation) float64 { return a.whole.em }),
	newGauge("f1_whole", func(a *answerObservation) float64 { return a.whole.f1 }),
	newGauge("rouge_l_short", func(a *answerObservation) float64 { return a.short.rougeL }),
	newGauge("bleu_1_short", func(a *answerObservation) float64 { return a.short.bleu1 }),
	newGauge("bleu_4_short", func(a *answerObservation) float64 { return a.short.bleu4 }),
	newGauge("meteor_short", func(a *answerObservation) float64 { return a.short.meteor }),
	newGauge("citation_precision", func(a *answerObservation) float64 { return a.documents.precision }),
	newGauge("citation_recall", func(a *answerObservation) float64 { return a.documents.recall }),
	newGauge("quote_precision", func(a *answerObservation) float64 { return a.quotes.precision }),
	newGauge("quote_recall", func(a *answerObservation) float64 { return a.quotes.recall }),
	newGauge("skipped", func(a *answerObservation) float64 { return a.skipped }),
	newGauge("answered", func(a *answerObservation) float64 { return a.answered }),
	newGauge("unanswerable_accuracy", func(a *answerObservation) float64 { return a.refused }),
	newGauge("choice_accuracy", func(a *answerObservation) float64 { return a.chosen }),
	newGauge("input_tokens", func(a *answerObservation) float64 { return a.input }),
	newGauge("output_tokens", func(a *answerObservation) float64 { return a.output }),
	newGauge("cost", func(a *answerObservation) float64 { return a.cost }),
	newGauge("rounds", func(a *answerObservation) float64 { return a.rounds }),
	newGauge(correctness, func(a *answerObservation) float64 { return a.correct }),
}

func newGauge(name string, of func(a *answerObservation) float64) measure {
	return measure{name, func(o *observation) float64 {
		if o.answer == nil {
			return math.NaN()
		}
		return of(o.answer)
	}}
}

// answerObservation has the measured values of one answer. A value is NaN if the question has no
// reference for it, or there is no answer.
type answerObservation struct {
	short, whole      similarities
	contains          float64
	correct           float64 // by the judge
	documents, quotes agreement
	answered, refused float64
	chosen            float64
	skipped           float64 // answered without retrieval
	input, output     float64 // tokens
	cost              float64 // US dollars
	rounds            float64
	nominal, failed   bool // the cost is at nominal prices; the answer failed with an error
	text, shortText   string
	judgement         *QuestionJudgement // nil: it was not judged

	confidence   float64
	rated, right bool // there is a confidence; the answer is right
	features     map[string]float64
}

// similarities has the measures of how similar a text is to a right answer.
type similarities struct{ em, f1, rougeL, bleu1, bleu4, meteor float64 }

// observeAnswer measures an answer. An unsupported answer counts as an empty text, with 0 in each
// of the similarities.
func observeAnswer(q *judged, a *Answered, prices Prices) *answerObservation {
	none := math.NaN()
	out := &answerObservation{short: similarities{none, none, none, none, none, none}, contains: none, correct: none, answered: none, refused: none, chosen: none,
		documents: agreement{none, none}, quotes: agreement{none, none},
		skipped: share(a.Uncited), input: float64(a.Usage.InputTokens), output: float64(a.Usage.OutputTokens), rounds: float64(max(1, a.Rounds))}
	out.whole = out.short
	out.cost, out.nominal = cost(prices, a.Usage)
	given := a.Supported || a.Uncited
	if given {
		out.text = withoutMarks(a.Answer.Answer)
		out.shortText = shortAnswer(&a.Answer, out.text)
		out.rate(q, &a.Answer)
	}
	if q.Unanswerable {
		out.refused = share(!given)
		return out
	}
	out.answered = share(given)
	proofs := a.Citations
	if !a.Supported { // they are only the nearest passages
		proofs = nil
	}
	out.documents, out.quotes = cited(q, proofs)
	if len(q.golds) > 0 {
		out.short, out.whole = similaritiesTo(out.shortText, q.golds), similaritiesTo(out.text, q.golds)
		whole := tokens(out.text)
		out.contains = share(slices.ContainsFunc(q.answers, func(g string) bool { return strings.Contains(whole, g) }))
	}
	if len(q.right) > 0 {
		out.chosen = share(slices.Contains(q.right, a.Choice))
	}
	return out
}

func share(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// shortAnswer returns the text that exact match and F1 compare: the short answer with the highest
// confidence among the citations, else the whole text.
func shortAnswer(a *schema.Answer, text string) string {
	short := schema.ShortAnswer{Text: text, Confidence: math.Inf(-1)}
	for _, c := range a.Citations {
		if c.Answer.Text != "" && c.Answer.Confidence > short.Confidence {
			short = c.Answer
		}
	}
	return short.Text
}

// mark matches a reference to a citation in the text of an answer: "[2]", "[1, 3]".
var mark = regexp.MustCompile(`\s*\[\d+(?:\s*,\s*\d+)*\]`)

func withoutMarks(text string) string { return mark.ReplaceAllString(text, "") }

// gold is a right answer, prepared for comparison.
type gold struct{ squad, plain []string }

func golds(answers []string) []gold {
	var out []gold
	for _, a := range answers {
		out = append(out, gold{squadWords(a), plainWords(a)})
	}
	return out
}

// similaritiesTo compares a text with the right answers. Each measure takes the best of them,
// except BLEU, which takes all at once.
func similaritiesTo(text string, golds []gold) similarities {
	var squad, plain [][]string
	for _, g := range golds {
		squad, plain = append(squad, g.squad), append(plain, g.plain)
	}
	s, p := squadWords(text), plainWords(text)
	if len(p) == 0 { // an empty answer is never right, even if a gold has no words
		return similarities{}
	}
	return similarities{em: best(s, squad, exactMatch), f1: best(s, squad, wordF1), rougeL: best(p, plain, rougeL),
		bleu1: bleu(p, plain, 1), bleu4: bleu(p, plain, 4), meteor: best(p, plain, meteor)}
}

// rightChoices returns the numbers, from 1, of the choices that equal a right answer by exact
// match.
func rightChoices(choices, answers []string) []int {
	var out []int
	for i, c := range choices {
		if slices.ContainsFunc(answers, func(a string) bool { return slices.Equal(squadWords(a), squadWords(c)) }) {
			out = append(out, i+1)
		}
	}
	return out
}
