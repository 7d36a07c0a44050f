package tabular

// Questions for the year in which a row has its greatest or smallest figure, or its only figure
// above or below a bound.

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/sluice-rag/sluice/internal/identity"
)

var (
	yearAsked = regexp.MustCompile(`(?i)\b(which|what) (?:fiscal |financial |calendar )?(?:year|period)\b`)
	greatest  = regexp.MustCompile(`(?i)\b(largest|highest|greatest|biggest|most|maximum|larger|higher|greater|bigger|more)\b`)
	least     = regexp.MustCompile(`(?i)\b(smallest|lowest|least|fewest|minimum|smaller|lower|less|fewer)\b`)
	bound     = regexp.MustCompile(`(?i)\b(less than|below|under|fewer than|lower than|more than|above|over|exceed(?:ed|s)?|greater than|higher than|larger than)\s*[$€£]?\s?(\d[\d,.]*)`)
)

// choice says which of a row's figures a question asks for.
type choice int

const (
	noChoice choice = iota
	mostOf
	leastOf
	aboveBound
	belowBound
)

// choiceOf returns what a question for a year asks for, and its bound.
func choiceOf(question string) (choice, float64) {
	if !yearAsked.MatchString(question) {
		return noChoice, 0
	}
	if m := bound.FindStringSubmatch(question); m != nil {
		x, ok := Value(m[2])
		switch {
		case !ok:
		case least.MatchString(m[1]) || strings.EqualFold(m[1], "below") || strings.EqualFold(m[1], "under"):
			return belowBound, x
		default:
			return aboveBound, x
		}
	}
	switch {
	case least.MatchString(question):
		return leastOf, 0
	case greatest.MatchString(question):
		return mostOf, 0
	}
	return noChoice, 0
}

var plainYear = regexp.MustCompile(`\b(?:19|20)\d\d\b`)

var digitsForm = regexp.MustCompile(`\d[\d,.']*`)

// digitsOf returns the digits of a figure, with its decimal point.
func digitsOf(s string) string {
	return strings.TrimRight(strings.NewReplacer(",", "", "'", "").Replace(digitsForm.FindString(s)), ".")
}

// Value returns the number that a figure stands for; brackets and a minus make it negative.
func Value(s string) (float64, bool) {
	x, err := strconv.ParseFloat(digitsOf(s), 64)
	if err != nil {
		return 0, false
	}
	if strings.ContainsAny(s, "(-–—") {
		x = -x
	}
	return x, true
}

// choose returns the year in the header of the column that a choice selects in a row. It returns
// false unless exactly one column qualifies.
func (c choice) choose(t Table, r TableRow, limit float64, among map[int]bool) (TableCell, bool) {
	best, chosen, hits := 0.0, -1, 0
	for i, cell := range r.Cells {
		column := t.index(r, i)
		if column < 0 || len(identity.Years(t.Columns[column])) != 1 || !Figure(cell.Text) {
			continue
		}
		if len(among) > 1 && !identity.Overlap(among, identity.Years(t.Columns[column])) {
			continue
		}
		x, ok := Value(cell.Text)
		if !ok {
			continue
		}
		switch {
		case c == aboveBound && x > limit, c == belowBound && x < limit:
			hits++
			chosen = column
		case (c == mostOf || c == leastOf) && (chosen < 0 || c == mostOf && x > best || c == leastOf && x < best):
			best, chosen = x, column
			hits = 1
		case (c == mostOf || c == leastOf) && x == best:
			hits++
		}
	}
	if hits != 1 {
		return TableCell{}, false
	}
	for _, over := range t.Over[chosen] {
		if at := plainYear.FindStringIndex(over.Text); at != nil {
			return TableCell{over.Text[at[0]:at[1]], over.Start + at[0], over.Start + at[1]}, true
		}
	}
	return TableCell{}, false
}
