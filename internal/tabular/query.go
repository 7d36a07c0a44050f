package tabular

// What a question says about the cell that it asks for.

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/identity"
	"github.com/sluice-rag/sluice/internal/text"
)

// fillers are words of questions that describe no cell.
var fillers = func() map[string]bool {
	out := map[string]bool{}
	for w := range words("amount value number figure year fiscal company company's respectively much many reported recorded answer question usd million millions thousand thousands billion give state following based using information shown statement") {
		out[w] = true
	}
	return out
}()

// choosers are words of questions for a year that describe no row.
var choosers = words("largest highest greatest biggest most maximum larger higher greater bigger more smallest lowest least fewest minimum smaller lower less fewer below under above exceed exceeded exceeds than between period year")

// edges are words for an end of a period; alone they describe no row.
var edges = words("end ended ending begin beginning start")

// hinted is the weight of a hint relative to a word of what is asked.
const hinted = 0.3

// bracketed matches remarks: "Block (formerly known as Square)", "(in USD millions)".
var bracketed = regexp.MustCompile(`\([^()]*\)`)

// newQuery analyses a question. What is asked is the part of its sentences from the word that asks
// for a figure on. Text before that, in brackets, or in other sentences only hints at where to look
// or how to answer.
func newQuery(question string) query {
	q := query{question: question, words: map[string]bool{}, years: identity.Years(question), quarter: quarterOf(question), hints: withoutPeriods(words(question))}
	q.choice, q.limit = choiceOf(question)
	plain := bracketed.ReplaceAllString(question, " ")
	for _, r := range text.Sentences(plain) {
		sentence := r.Of(plain)
		at := numbersAsked.FindAllStringIndex(sentence, -1)
		if q.choice != noChoice {
			at = yearAsked.FindAllStringIndex(sentence, -1)
		}
		if len(at) > 0 {
			maps.Copy(q.words, withoutPeriods(words(sentence[at[len(at)-1][0]:])))
		}
	}
	for w := range q.words {
		if fillers[w] {
			delete(q.words, w)
		}
	}
	if len(q.words) == 0 { // "Net income of 2019: how much?"
		q.words, q.hints = q.hints, nil
	}
	for w := range q.words {
		if delete(q.hints, w); edges[w] && len(q.words) > 1 {
			if q.hints == nil {
				q.hints = map[string]bool{}
			}
			q.hints[w] = true
		}
	}
	maps.Copy(q.words, q.hints)
	for w := range q.words {
		if fillers[w] || q.choice != noChoice && (choosers[w] || figureForm.MatchString(w)) {
			delete(q.words, w)
		}
	}
	return q
}

// opposites are pairs of words; a row with the opposite of a word in the question is not the one
// asked for.
var opposites = opposed("start end", "begin end", "open clos", "begin clos", "open end", "basic dilut", "gross net", "asset liability", "minimum maximum", "low high",
	"current non-current", "current noncurrent", "before after", "borrow repay", "increas decreas", "gain loss")

func opposed(pairs ...string) map[string][]string {
	out := map[string][]string{}
	for _, p := range pairs {
		a, b, _ := strings.Cut(p, " ")
		out[a], out[b] = append(out[a], b), append(out[b], a)
	}
	return out
}

// opposes reports whether a label says the opposite of what is asked for: it has the opposite of a
// word in the question, and neither of them has both words.
func opposes(asked, label map[string]bool) bool {
	for w := range asked {
		for _, o := range opposites[w] {
			if label[o] && !label[w] && !asked[o] {
				return true
			}
		}
	}
	return false
}

// percents unifies the spellings of per cent.
var percents = strings.NewReplacer("%", " percentage ", "per cent", "percentage", "percent ", "percentage ")

// digits maps small numbers in words to digits.
var digits = map[string]string{"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10"}

// words returns a text's content words, with unified spellings of per cent and small numbers.
func words(s string) map[string]bool {
	out := text.ContentWords(percents.Replace(s))
	for w, d := range digits {
		if out[w] {
			delete(out, w)
			out[d] = true
		}
	}
	return out
}

// query is a question in the form in which cells are compared with it.
type query struct {
	question string
	words    map[string]bool
	years    map[int]bool
	quarter  int // 0: none
	choice   choice
	limit    float64 // bound of aboveBound and belowBound
	// hints are words beside what is asked. They count a little if a table has them.
	hints   map[string]bool
	weights map[string]float64
	usual   float64 // weight of a word that is in no row
}

// tables returns the tables of each source, and weighs the question's words by them.
func (q *query) tables(sources []Input) [][]Table {
	out := make([][]Table, len(sources))
	for i, s := range sources {
		out[i] = Tables(s.Text)
	}
	q.weigh(sources, out)
	return out
}

// weigh gives each word a weight: the fewer rows have it, the higher.
func (q *query) weigh(sources []Input, tables [][]Table) {
	df := map[string]float64{}
	rows := 0.0
	seen := map[string]bool{}
	for i, s := range sources {
		maps.Copy(seen, words(s.named()))
		for _, t := range tables[i] {
			maps.Copy(seen, words(t.Caption+" "+strings.Join(t.Columns, " ")))
			for _, r := range t.Rows {
				rows++
				said := r.Group.Text + " " + r.Label
				for _, c := range r.Cells {
					if !Figure(c.Text) {
						said += " " + c.Text
					}
				}
				for w := range words(said) {
					df[w]++
				}
			}
		}
	}
	q.weights = map[string]float64{}
	for w, n := range df {
		q.weights[w] = math.Log(1 + (rows+1)/(n+0.5))
	}
	q.usual = math.Log(1 + (rows+1)/1.5)
	for w := range q.hints {
		switch x, ok := q.weights[w]; {
		case ok:
			q.weights[w] = x * hinted
		case seen[w]:
			q.weights[w] = q.usual * hinted
		default:
			delete(q.words, w)
		}
	}
}

func (q *query) weight(w string) float64 {
	if x, ok := q.weights[w]; ok {
		return x
	}
	return q.usual
}

// share returns the share of words, by weight, that are in any of the sets.
func (q *query) share(words map[string]bool, sets ...map[string]bool) float64 {
	in, all := 0.0, 0.0
	// The order is fixed: sums of the same numbers in another order differ in their last bits.
	for _, w := range slices.Sorted(maps.Keys(words)) {
		x := q.weight(w)
		all += x
		for _, s := range sets {
			if s[w] {
				in += x
				break
			}
		}
	}
	if all == 0 {
		return 0
	}
	return in / all
}

// periodForm matches words that name a period; identity.Years and quarterOf evaluate these.
var periodForm = regexp.MustCompile(`^(?:(?:fy|cy)?(?:19|20)\d\d|(?:fy|cy)\d\d|q[1-4](?:(?:20)?\d\d)?|[1-4]q(?:(?:20)?\d\d)?)$`)

// withoutPeriods removes the words that name a period.
func withoutPeriods(words map[string]bool) map[string]bool {
	for w := range words {
		if periodForm.MatchString(w) || yearForm.MatchString(w) {
			delete(words, w)
		}
	}
	return words
}
