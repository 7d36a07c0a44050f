package tabular

// Questions for a value that is computed from a row's figures of several years: a change, a change
// in percent, a mean, a sum.

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/internal/identity"
	"github.com/sluice-rag/sluice/internal/text"
)

// Operation is a computation on figures in the order of their years.
type Operation string

const (
	Change        Operation = "change"         // the last minus the first
	Difference    Operation = "difference"     // the greater minus the smaller
	PercentChange Operation = "percent change" // the change in percent of the first
	Mean          Operation = "mean"
	Sum           Operation = "sum"
)

// Computed is a value that was computed from cells of one table.
type Computed struct {
	Operation Operation
	Value     string  // "-94", "14.07%", "1.9 percentage points"
	Cells     []Match // in the order of their years
	// Confidence is the chance in [0, 1] that the cells are those asked for.
	Confidence float64
}

var (
	changes  = regexp.MustCompile(`(?i)\b(changes?|changed|increases?|increased|decreases?|decreased|differences?|declines?|declined|growth|grow|grew|rise|rose|fall|fell|drop|dropped)\b`)
	percent  = regexp.MustCompile(`(?i)%|\bper ?cents?\b|\bpercentages?\b`)
	relative = regexp.MustCompile(`(?i)(?:%|\bper ?cent|\bpercentage) ?(?:change|increase|decrease|growth|decline|difference|rise|drop|fall)|\b(?:growth|increase|decrease|change|decline) rate\b|\brate of (?:growth|increase|decrease|change|decline)\b|` +
		`\b(?:what|how many|which) (?:per ?cent|percentage)|\bin (?:units of )?(?:%|per ?cents?|percentages?)|\bas a (?:per ?cent|percentage)\b`)
	means    = regexp.MustCompile(`(?i)\b(average|mean)\b`)
	sums     = regexp.MustCompile(`(?i)\b(sum|combined|altogether|taken together)\b`)
	shares   = regexp.MustCompile(`(?i)\b(?:change|increase|decrease|difference|decline)s? in (?:the )?(?:%|per ?cent|percentage)`)
	apartBy  = regexp.MustCompile(`(?i)\bdifference`)
	less     = regexp.MustCompile(`(?i)\bhow much\b.*\b(?:decreased?|declined?|fall|fell|drop|dropped)\b`)
	through  = regexp.MustCompile(`(?i)\b(?:19|20)\d\d\s?(?:-|–|—|to|through|until)\s?(?:fy|fiscal |year )?\d{2,4}\b`)
	yearly   = regexp.MustCompile(`(?i)\byear[ -](?:over|on|to)[ -]year\b|\byoy\b|\b(?:previous|prior|preceding) (?:fiscal |financial )?year\b|\bthe year before\b`)
	decimals = regexp.MustCompile(`(?i)\b(no|zero|one|two|three|four|[0-4])\s+decimals?\b`)
	reasons  = regexp.MustCompile(`(?i)\b(why|explain|drive[sn]?|drove|caused?|reasons?|ratio|divided|per employee|proportion)\b`)
	deriving = words("change changes changed percentage increase increased decrease decreased difference decline declined growth grow grew rise rose fall fell drop dropped rate average mean sum combined altogether taken together year over previous prior preceding before basis round rounded decimal place units yoy compared between")
	months   = words("january february march april may june july august september october november december ended months")
)

// operationOf returns what a question asks to compute, and for which years.
func operationOf(question string) (Operation, []int) {
	years := slices.Sorted(maps.Keys(identity.Years(question)))
	if len(years) == 1 && yearly.MatchString(question) {
		years = []int{years[0] - 1, years[0]}
	}
	if reasons.MatchString(question) || text.ExpectedAnswerType(question) == text.AnswerYesNo || len(years) < 2 {
		return "", nil
	}
	mean, sum := means.MatchString(question), sums.MatchString(question)
	switch change := changes.MatchString(question); {
	case change && (mean || sum || len(years) != 2): // the change of a computed value is not supported
	case change && relative.MatchString(question) && !shares.MatchString(question):
		return PercentChange, years
	case change && apartBy.MatchString(question):
		return Difference, years
	case change:
		return Change, years
	case mean:
		return Mean, everyYear(question, years)
	case sum:
		return Sum, everyYear(question, years)
	}
	return "", nil
}

// everyYear adds the years between two years that a question names as a range.
func everyYear(question string, years []int) []int {
	if len(years) != 2 || years[1]-years[0] > 10 || !through.MatchString(question) {
		return years
	}
	var out []int
	for y := years[0]; y <= years[1]; y++ {
		out = append(out, y)
	}
	return out
}

// Derive computes what a question asks for from the cells of a table. It returns false if the
// question asks for no computation, or no row has the figures.
func Derive(question string, sources []Input) (Computed, bool) {
	op, years := operationOf(question)
	if op == "" || !numbersAsked.MatchString(question) {
		return Computed{}, false
	}
	q := newQuery(question)
	q.choice, q.years = noChoice, nil
	for w := range q.words {
		if deriving[w] {
			delete(q.words, w)
		}
	}
	if len(q.words) == 0 {
		return Computed{}, false
	}
	tables := q.tables(sources)
	points := op != PercentChange && percent.MatchString(question) // the figures must be percentages
	var all []series
	for i, s := range sources {
		for _, t := range tables[i] {
			all = append(all, q.series(i, s, t, years)...)
		}
	}
	slices.SortStableFunc(all, func(a, b series) int { return cmp.Compare(b.score, a.score) })
	places := decimalPlacesAsked(question)
	for i, best := range all {
		if best.score < leastScore {
			break
		}
		value, ok := op.Of(best.figures(), places)
		if !ok || points && !strings.Contains(best.cells[0].Cell.Text, "%") {
			continue
		}
		if rest, fell := strings.CutPrefix(value, "-"); fell && op == Change && less.MatchString(question) {
			op, value = Difference, rest
		}
		ahead := 1.0
		for _, other := range all[i+1:] {
			if !slices.Equal(other.figures(), best.figures()) {
				ahead = best.score - other.score
				break
			}
		}
		return Computed{Operation: op, Value: value, Cells: best.cells, Confidence: confidence(best.score, ahead, true)}, true
	}
	return Computed{}, false
}

// series is one cell for each year, from one row or one column.
type series struct {
	cells []Match
	score float64
}

func (s series) figures() []string {
	out := make([]string, len(s.cells))
	for i, c := range s.cells {
		out[i] = c.Cell.Text
	}
	return out
}

// series finds the cells of the years in a table that differ only in the year.
func (q *query) series(source int, s Input, t Table, years []int) []series {
	found := map[string]*series{}
	var order []string
	asked := monthsOf(q.question)
	for i, y := range years {
		of := *q
		of.years = map[int]bool{y: true}
		for _, c := range of.cells(source, s, t) {
			named := identity.Years(c.Column + " | " + c.Row.Group.Text + " | " + c.Row.Label)
			if len(named) != 1 || !named[y] {
				continue
			}
			if of := monthsOf(c.Column + " " + c.Row.Label); len(asked) > 0 && len(of) > 0 && !identity.Overlap(asked, of) {
				continue
			}
			key := fmt.Sprint(plain(c.Column), plain(c.Row.Label), plain(c.Row.Group.Text))
			if len(identity.Years(c.Column)) > 0 {
				key = fmt.Sprint(c.Row.Start, plain(c.Column))
			}
			k := found[key]
			if k == nil {
				k = &series{}
				found[key] = k
				order = append(order, key)
			}
			if len(k.cells) == i { // only the first cell of a year counts
				k.cells, k.score = append(k.cells, c.Match), k.score+c.score/float64(len(years))
			}
		}
	}
	var out []series
	for _, key := range order {
		if k := found[key]; len(k.cells) == len(years) {
			out = append(out, *k)
		}
	}
	return out
}

// monthsOf returns the months, 1 to 12, of the dates in a text.
func monthsOf(s string) map[int]bool {
	out := map[int]bool{}
	for _, p := range identity.Periods(s) {
		if p.Month > 0 {
			out[p.Month] = true
		}
	}
	return out
}

// plain returns the words that name a row or a column, without its period.
func plain(s string) []string {
	out := withoutPeriods(words(s))
	for w := range out {
		if months[w] || strings.Trim(w, "0123456789") == "" {
			delete(out, w)
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// decimalPlacesAsked returns how many decimal places a question asks for, or -1 if it does not say.
func decimalPlacesAsked(question string) int {
	m := decimals.FindStringSubmatch(question)
	if m == nil {
		return -1
	}
	for i, words := range []string{"no zero 0", "one 1", "two 2", "three 3", "four 4"} {
		if slices.Contains(strings.Fields(words), strings.ToLower(m[1])) {
			return i
		}
	}
	return -1
}

// mostPlaces is the maximum number of decimal places that a question can ask for.
const mostPlaces = 4

// Gives reports whether op computes value from figures, with any rounding that a question can ask
// for.
func Gives(op Operation, figures []string, value string) bool {
	for places := -1; places <= mostPlaces; places++ {
		if got, ok := op.Of(figures, places); ok && got == value {
			return true
		}
	}
	return false
}

// Of applies the operation to figures in the order of their years, and rounds the result to places
// decimal places; -1 means two for a percentage, otherwise as many as the figures have, and up to
// two more for a mean. It returns false if the result has no meaning, such as a change in percent
// from zero or from a loss to a profit.
func (op Operation) Of(figures []string, places int) (string, bool) {
	values := make([]*big.Rat, len(figures))
	most, negative, percents := 0, 0, 0
	for i, f := range figures {
		if !Figure(f) {
			return "", false
		}
		digits := digitsOf(f)
		v, ok := new(big.Rat).SetString(digits)
		if !ok {
			return "", false
		}
		if _, after, ok := strings.Cut(digits, "."); ok {
			most = max(most, len(after))
		}
		if x, _ := Value(f); x < 0 {
			negative++
			v.Neg(v)
		}
		if strings.Contains(f, "%") {
			percents++
		}
		values[i] = v
	}
	if len(values) < 2 || percents != 0 && percents != len(values) {
		return "", false
	}
	if negative == len(values) && op == PercentChange { // losses and deductions are compared by their amounts
		for _, v := range values {
			v.Neg(v)
		}
	}
	unit := ""
	if percents > 0 {
		unit = "%"
	}
	result, first := new(big.Rat), values[0]
	switch op {
	case Change, Difference, PercentChange:
		if len(values) != 2 {
			return "", false
		}
		result.Sub(values[1], first)
		if op == Difference {
			result.Abs(result)
		}
		if op != PercentChange {
			if percents > 0 {
				unit = " percentage points"
			}
			break
		}
		if first.Sign() <= 0 || values[1].Sign() < 0 {
			return "", false
		}
		result.Mul(result.Quo(result, first), big.NewRat(100, 1))
		unit, most = "%", 2
	case Mean, Sum:
		for _, v := range values {
			result.Add(result, v)
		}
		if op == Mean {
			result.Quo(result, big.NewRat(int64(len(values)), 1))
			most += 2
		}
	default:
		return "", false
	}
	fixed := result.FloatString(most)
	if places >= 0 {
		fixed = result.FloatString(places)
	} else if op == Mean && strings.Contains(fixed, ".") {
		fixed = strings.TrimRight(strings.TrimRight(fixed, "0"), ".")
	}
	return grouped(fixed) + unit, true
}

// grouped separates a number's thousands: "-1,234.5".
func grouped(s string) string {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	whole, rest, _ := strings.Cut(s, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		whole += "." + rest
	}
	if x, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(x) == 0 {
		sign = ""
	}
	return sign + whole
}
