package main

// This file prints what an evaluation found as a table.

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sluice-rag/sluice/internal/evaluate"
)

// printSummary writes one row per plan. The best value of a column has a star;
// one that the questions do not tell from it has a wave.
func printSummary(out io.Writer, s evaluate.Summary) error {
	fmt.Fprintf(out, "\n%s: %d documents, %d questions", printable(s.Dataset), s.Documents, s.Queries)
	if s.Failed > 0 {
		fmt.Fprintf(out, "; %d documents could not be ingested", s.Failed)
	}
	if s.Unjudged > 0 {
		fmt.Fprintf(out, "; %d questions without a relevant document left out", s.Unjudged)
	}
	if s.Segmentation != "" {
		fmt.Fprintf(out, "; cut by %s", printable(s.Segmentation))
	}
	fmt.Fprint(out, "\n\n")
	table := s.Table()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "plan\t")
	for _, c := range table.Columns {
		fmt.Fprintf(w, "%s \t", c)
	}
	fmt.Fprintln(w)
	for _, row := range table.Rows {
		fmt.Fprintf(w, "%s\t", printable(row.Plan))
		for _, cell := range row.Cells {
			mark := " "
			switch {
			case cell.Best:
				mark = "*"
			case cell.Level:
				mark = "~"
			}
			fmt.Fprintf(w, "%s%s\t", cell.Text, mark)
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
