package tabular

// Finds the cell of some tables that a question asks for: by the words of the row, the column and
// the surroundings, and by the years in the question.

import (
	"cmp"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/identity"
	"github.com/sluice-rag/sluice/internal/text"
)

// Input is a text with tables, and its context.
type Input struct {
	Text    string
	Context string // title and headings
}

// apart separates the words of a file's or a company's name.
var apart = strings.NewReplacer("_", " ", ".", " ")

// named returns the context with its words separated.
func (s Input) named() string { return apart.Replace(s.Context) }

// Match is a cell that answers a question.
type Match struct {
	Source int // index of the source
	Row    TableRow
	Cell   TableCell
	Header []text.Range
	Column string // the column's header
	Unit   string // such as "in millions"; "" if there is none
	// UnitAt is where the text has the unit; empty if the unit is from the context.
	UnitAt text.Range
	// Confidence is the chance in [0, 1] that the cell is the one asked for.
	Confidence float64
}

// Weights of the parts of a cell's score.
const (
	weightLabel   = 1.0 // share of the row's label that is in the question
	weightHeader  = 0.5 // the same for the column's header
	weightAsked   = 1.5 // share of the question that is in the cell's row, column and context
	weightNear    = 0.6 // share of the question that is in the row and the column
	weightYear    = 0.8 // the column or the row is of the year asked for
	weightQuarter = 0.8 // the cell is of the quarter asked for
	newest        = 0.1 // the cell is of the latest year, and the question asks for no year
	rankLoss      = 0.1 // the most that a later source loses
	described     = 0.7 // minimum share of the label for a row that several cells describe
	// leastScore is the minimum score of a cell that may answer.
	leastScore = 1.5
)

var (
	// numbersAsked matches questions for a figure.
	numbersAsked = regexp.MustCompile(`(?i)\b(what|how much|how many|how high|how large|quel|wie hoch|wie viel|combien|cu[aá]nto)\b`)
	// derived matches questions for something that no cell has.
	derived  = regexp.MustCompile(`(?i)\b(change|changes|changed|growth|increase[sd]?|decrease[sd]?|difference|ratio|rate of|margin|average|percentage|percent|proportion|compared|compare|sum of|times|divided|per cent|year-over-year|dpo|turnover|drive[sn]?|drove|why|explain|which|who|where|when)\b`)
	unitForm = regexp.MustCompile(`(?i)\(?\b(?:[a-z.$€£ ]{0,24}\b)?in (?:u\.?s\.? )?(?:\$ ?)?(?:dollars |whole )?(?:millions|thousands|billions)\b(?:[^)|\n]{0,60}\))?|[$€£] ?(?:m|bn|000s?|’000|'000|million|thousand|billion)\b`)
)

// OtherYears reports whether bytes of a text are in a table row of other years than the question
// asks for.
func OtherYears(question, s string, at text.Range) bool {
	asked := identity.Years(question)
	if len(asked) == 0 {
		return false
	}
	for _, t := range Tables(s) {
		for _, r := range t.Rows {
			if at.Start >= r.End || at.End <= r.Start {
				continue
			}
			named := identity.Years(strings.Join(t.Columns, " | ") + " | " + t.Caption + " | " + r.Group.Text + " | " + r.Of(s))
			return len(named) > 0 && !identity.Overlap(asked, named)
		}
	}
	return false
}

// Asks reports whether a question may ask for a cell of a table.
func Asks(question string) bool {
	c, _ := choiceOf(question)
	return c != noChoice || numbersAsked.MatchString(question) && text.ExpectedAnswerType(question) != text.AnswerYesNo
}

// scored is a cell with its score.
type scored struct {
	Match
	score float64
}

// Find returns the cell that a question asks for. It returns false if no cell is close enough to
// the question.
func Find(question string, sources []Input) (Match, bool) {
	if !Asks(question) {
		return Match{}, false
	}
	q := newQuery(question)
	if len(q.words) == 0 {
		return Match{}, false
	}
	tables := q.tables(sources)
	var all []scored
	for i, s := range sources {
		for _, t := range tables[i] {
			all = append(all, q.cells(i, s, t)...)
		}
	}
	if len(all) == 0 {
		return Match{}, false
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	best := all[0]
	if best.score < leastScore {
		return Match{}, false
	}
	ahead := 1.0
	for _, other := range all[1:] {
		if other.Cell.Text != best.Cell.Text {
			ahead = min(ahead, best.score-other.score)
			break
		}
	}
	best.Confidence = confidence(best.score, ahead, derived.MatchString(question))
	return best.Match, true
}

// confidence returns the chance that a cell is the right one. It is fitted on questions for one
// cell of TAT-QA's development split.
func confidence(score, ahead float64, isDerived bool) float64 {
	x := -3.5 + 1.3*score + 3*min(ahead, 0.5)
	if isDerived {
		x--
	}
	return 1 / (1 + math.Exp(-x))
}

// cells returns the figures of a table with their scores.
func (q *query) cells(source int, s Input, t Table) []scored {
	around := words(t.Caption + " " + s.named())
	unit, unitAt := t.unit(s)
	columns := make([]map[string]bool, len(t.Columns))
	columnYears := make([]map[int]bool, len(t.Columns))
	dated := false
	last := 0
	for i, c := range t.Columns {
		columns[i], columnYears[i] = withoutPeriods(words(c)), identity.Years(c)
		dated = dated || len(columnYears[i]) > 0
		for y := range columnYears[i] {
			last = max(last, y)
		}
	}
	captionYears := identity.Years(t.Caption + " " + s.Context)
	var out []scored
	for _, r := range t.Rows {
		label, group := withoutPeriods(words(r.Label)), withoutPeriods(words(r.Group.Text))
		rowYears := identity.Years(r.Group.Text + " " + r.Label)
		of := q.share(label, q.words)
		beside := map[string]bool{} // other words that describe the row
		for _, c := range r.Cells {
			if !Figure(c.Text) {
				maps.Copy(beside, withoutPeriods(words(c.Text)))
			}
		}
		if len(beside) > 0 { // no question repeats all the words that describe a row
			of = max(of, described)
		}
		if len(label) == 0 {
			of = 0.3
		}
		if opposes(q.words, label) {
			continue
		}
		if q.choice != noChoice {
			if c, ok := q.choice.choose(t, r, q.limit, q.years); ok {
				score := weightLabel*of + weightAsked*q.share(q.words, label, beside, group, around) + weightNear*q.share(q.words, label, beside) -
					rankLoss*(1-1/float64(1+source)) + weightYear
				out = append(out, scored{Match{Source: source, Row: r, Cell: c, Header: t.Header, Unit: unit, UnitAt: unitAt}, score})
			}
			continue
		}
		for i, c := range r.Cells {
			if !Figure(c.Text) {
				continue
			}
			var header map[string]bool
			var headerYears map[int]bool
			if column := t.index(r, i); column >= 0 {
				header, headerYears = columns[column], columnYears[column]
			}
			score := weightLabel*of + weightAsked*q.share(q.words, label, beside, group, header, around) + weightNear*q.share(q.words, label, beside, header)
			if specific := without(header, around); len(specific) > 0 {
				score += weightHeader * (q.share(specific, q.words) - 0.5)
			}
			if of := quarterOf(t.Column(r, i) + " " + r.Label + " " + r.Group.Text); q.quarter != 0 && of != 0 {
				if of != q.quarter {
					continue
				}
				score += weightQuarter
			}
			score -= rankLoss * (1 - 1/float64(1+source))
			switch {
			case len(q.years) == 0:
				if headerYears[last] {
					score += newest
				}
				score += weightYear / 2
			case identity.Overlap(q.years, headerYears), identity.Overlap(q.years, rowYears):
				score += weightYear
				if len(q.years) > 1 {
					score -= weightYear / 2
				}
			case dated && len(headerYears) > 0 || len(rowYears) > 0:
				continue // it is of another year
			case identity.Overlap(q.years, captionYears):
				score += weightYear * 0.75
			default:
				score += weightYear * 0.25
			}
			out = append(out, scored{Match{Source: source, Row: r, Cell: c, Header: t.Header, Column: t.Column(r, i), Unit: unit, UnitAt: unitAt}, score})
		}
	}
	return out
}

func without(a, b map[string]bool) map[string]bool {
	out := map[string]bool{}
	for w := range a {
		if !b[w] {
			out[w] = true
		}
	}
	return out
}

// unit returns the unit in the table's header or before the table, or otherwise in the context.
func (t Table) unit(s Input) (string, text.Range) {
	end := len(s.Text)
	if len(t.Rows) > 0 {
		end = t.Rows[0].Start
	}
	if all := unitForm.FindAllStringIndex(s.Text[:end], -1); len(all) > 0 {
		at := all[len(all)-1]
		return strings.Trim(s.Text[at[0]:at[1]], "( )"), text.Range{Start: at[0], End: at[1]}
	}
	return strings.Trim(unitForm.FindString(s.Context), "( )"), text.Range{}
}
