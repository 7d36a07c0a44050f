package evaluate

// This file writes the judge's verdicts, and how far they agree with labels.

import (
	"fmt"

	"github.com/sluice-rag/sluice/schema"
)

// JudgedRow has the verdicts on the answers under a row of a matrix.
type JudgedRow struct {
	Row string `json:"row"`
	schema.Judging
}

// Judged has the judged rows of a dataset.
type Judged struct {
	Dataset string      `json:"dataset"`
	Rows    []JudgedRow `json:"rows"`
}

// judged returns the rows of a set that were judged.
func (s *Set) judged() Judged {
	out := Judged{Dataset: s.Dataset}
	for _, row := range s.rows {
		if j := row.results.judging(row.plan); j != nil {
			out.Rows = append(out.Rows, JudgedRow{row.name, *j})
		}
	}
	return out
}

// Judged returns the plans of a summary that were judged.
func (s Summary) Judged() Judged {
	out := Judged{Dataset: s.Dataset}
	for _, p := range s.Plans {
		if p.Judging != nil {
			out.Rows = append(out.Rows, JudgedRow{p.Plan, *p.Judging})
		}
	}
	return out
}

// labelNames are the names in reports of the labels that a judge is compared with.
var labelNames = map[string]string{"em": "EM", "contains": "contains", schema.AgreementHuman: "people"}

// Table returns, for each plan and each kind of labels, the agreement and Cohen's kappa with their
// 95 % intervals. It has no columns if nothing was judged.
func (j Judged) Table() Table {
	var out Table
	if len(j.Rows) == 0 {
		return out
	}
	out.Columns = []string{"judge", "judged", "failed", "unreadable", "labels", "n", "agreement", "kappa", "tokens in", "out", "$"}
	for _, r := range j.Rows {
		before := []string{r.Model, fmt.Sprint(r.Judged), fmt.Sprint(r.Failed), fmt.Sprint(r.Unreadable)}
		after := []string{fmt.Sprint(r.InputTokens), fmt.Sprint(r.OutputTokens), fmt.Sprintf("%.4f", r.Cost)}
		agreements := r.Agreement
		if len(agreements) == 0 {
			agreements = []schema.JudgeAgreement{{}}
		}
		for i, a := range agreements {
			row := Row{Plan: r.Row}
			of := []string{"-", "0", "-", "-"}
			if a.Answers > 0 {
				name, known := labelNames[a.With]
				if !known {
					name = a.With
				}
				of = []string{name, fmt.Sprint(a.Answers), withInterval(a.Agreement, &a.Interval), "-"}
				if a.Kappa != nil {
					of[3] = withInterval(*a.Kappa, a.KappaInterval)
				}
			}
			if i > 0 {
				row.Plan, before, after = "", []string{"", "", "", ""}, []string{"", "", ""}
			}
			for _, cells := range [][]string{before, of, after} {
				for _, text := range cells {
					row.Cells = append(row.Cells, Cell{Text: text})
				}
			}
			out.Rows = append(out.Rows, row)
		}
	}
	return out
}

func withInterval(v float64, i *Interval) string {
	if i == nil {
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", v, i.Low, i.High)
}
