package main

// This file prints what an evaluation found as a table.

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/sluice-rag/sluice/internal/evaluate"
)

// column is a figure of the table; those that a dataset does not give are left
// out.
type column struct {
	title, metric string
	digits        int
}

var evalColumns = []column{
	{"nDCG@10", "ndcg@10", 4}, {"hit@1", "hit@1", 4}, {"MRR@10", "mrr@10", 4}, {"recall@100", "recall@100", 4},
	{"AR@4", "ar@4", 4}, {"evidence", "evidence_recall", 4}, {"IE sum", "ie_sum", 4}, {"entropy@4", "entropy@4", 3},
	{"tokens", "tokens", 0}, {"p50 ms", "p50", 1}, {"p95 ms", "p95", 1},
}

// figure returns a plan's value of a column; NaN: it has none.
func (c column) figure(p evaluate.PlanSummary) float64 {
	switch c.metric {
	case "tokens":
		return p.Tokens
	case "p50":
		return p.Millis.P50
	case "p95":
		return p.Millis.P95
	}
	if v, ok := p.Metrics[c.metric]; ok {
		return v
	}
	return math.NaN()
}

// printSummary writes one row per plan. The best value of a column has a star;
// one that the questions cannot tell from it has a wave.
func printSummary(out io.Writer, s evaluate.Summary) error {
	fmt.Fprintf(out, "\n%s: %d documents, %d questions", s.Dataset, s.Documents, s.Queries)
	if s.Failed > 0 {
		fmt.Fprintf(out, "; %d documents could not be ingested", s.Failed)
	}
	if s.Unjudged > 0 {
		fmt.Fprintf(out, "; %d questions without a relevant document left out", s.Unjudged)
	}
	fmt.Fprint(out, "\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "plan\t")
	var columns []column
	for _, c := range evalColumns {
		if !math.IsNaN(c.figure(s.Plans[0])) {
			columns = append(columns, c)
			fmt.Fprintf(w, "%s\t", c.title+" ")
		}
	}
	fmt.Fprintln(w)
	for i, p := range s.Plans {
		fmt.Fprintf(w, "%s\t", printable(p.Plan))
		for _, c := range columns {
			fmt.Fprintf(w, "%.*f%s\t", c.digits, c.figure(p), mark(s, c, i))
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(s.Plans) > 1 {
		fmt.Fprintln(out, "\n* best; ~ not told apart from the best (paired bootstrap over the questions, p >= 0.05)")
	}
	return nil
}

// mark says how plan i compares with the best in a column.
func mark(s evaluate.Summary, c column, i int) string {
	if len(s.Plans) < 2 {
		return ""
	}
	best := 0
	for j := range s.Plans {
		a, b := c.figure(s.Plans[j]), c.figure(s.Plans[best])
		if evaluate.LowerIsBetter(c.metric) {
			a, b = b, a
		}
		if a > b {
			best = j
		}
	}
	if c.figure(s.Plans[i]) == c.figure(s.Plans[best]) {
		return "*"
	}
	for _, d := range s.Differences {
		same := d.Plan == s.Plans[i].Plan && d.Against == s.Plans[best].Plan || d.Plan == s.Plans[best].Plan && d.Against == s.Plans[i].Plan
		if same && d.Metric == c.metric && d.P >= evaluate.Significant {
			return "~"
		}
	}
	return " "
}
