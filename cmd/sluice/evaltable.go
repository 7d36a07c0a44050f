package main

// This file prints the results of an evaluation as a table.

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/sluice-rag/sluice/internal/evaluate"
)

// printSummary prints one row per plan. A star marks the best value of a column; a tilde marks
// values that do not differ significantly from it.
func printSummary(out io.Writer, s evaluate.Summary) error {
	fmt.Fprintf(out, "\n%s: %s, %s", printable(s.Dataset), plural(s.Documents, "document"), plural(s.Queries, "question"))
	if s.Failed > 0 {
		fmt.Fprintf(out, "; %s could not be ingested", plural(s.Failed, "document"))
	}
	if s.Unjudged > 0 {
		fmt.Fprintf(out, "; %s without a relevant document left out", plural(s.Unjudged, "question"))
	}
	if s.Segmentation != "" {
		fmt.Fprintf(out, "; cut by %s", printable(s.Segmentation))
	}
	fmt.Fprint(out, "\n\n")
	err := printTable(out, s.Table())
	if answers := s.Answers(); len(answers.Columns) > 0 && err == nil {
		fmt.Fprint(out, "\nAnswers\n\n")
		err = printTable(out, answers)
	}
	if err != nil {
		return err
	}
	for _, p := range s.Plans {
		if p.Errors > 0 {
			fmt.Fprintf(out, "\n%s: %d answers failed; they count as not given", printable(p.Plan), p.Errors)
		}
		if s.Segmentation == "" && p.Segmentation != "" {
			fmt.Fprintf(out, "\n%s searched documents cut by %s", printable(p.Plan), printable(p.Segmentation))
		}
	}
	for _, p := range s.Plans {
		printCalibration(out, p)
	}
	if judged := s.Judged(); len(judged.Rows) > 0 {
		if err := printJudge(out, judged); err != nil {
			return err
		}
	}
	if s.Prices != nil {
		fmt.Fprintf(out, "\n$ and F1/$: at %g and %g dollars a million tokens of input and output, for the %d answers that do not state their cost", s.Prices.Input, s.Prices.Output, s.Nominal)
	}
	if len(s.Plans) > 1 {
		fmt.Fprint(out, "\n* best; ~ no significant difference from the best (paired bootstrap over the questions, p >= 0.05)")
	}
	fmt.Fprintln(out)
	return nil
}

// printJudge prints how far labels agree with the judge.
func printJudge(out io.Writer, judged evaluate.Judged) error {
	fmt.Fprint(out, "\n\nThe judge, and labels of the answers that it judged (95 % intervals)\n\n")
	return printTable(out, judged.Table())
}

func printTable(out io.Writer, table evaluate.Table) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "plan\t")
	for _, c := range table.Columns {
		fmt.Fprintf(w, "%s \t", c)
	}
	fmt.Fprintln(w)
	for _, row := range table.Rows {
		fmt.Fprintf(w, "%s\t", printable(row.Plan))
		for _, cell := range row.Cells {
			cell.Text = printable(cell.Text) // a judge's name comes from the server
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
	return w.Flush()
}

// printCalibration prints the calibration error of the answers' confidence, and the reliability
// diagram as a table.
func printCalibration(out io.Writer, p evaluate.PlanSummary) {
	c := p.Calibration
	if c == nil {
		return
	}
	fmt.Fprintf(out, "\n%s: confidence of %d answers, %.0f %% of which are right: expected calibration error %.3f", printable(p.Plan), c.Answers, 100*c.Right, c.Error)
	if c.AUROC != nil {
		fmt.Fprintf(out, ", AUROC %.3f", *c.AUROC)
	}
	for _, b := range c.Bins {
		if b.Answers > 0 {
			fmt.Fprintf(out, "\n  %.1f to %.1f  %5d answers  confidence %.3f  right %.3f", b.Low, b.High, b.Answers, b.Confidence, b.Right)
		}
	}
}
