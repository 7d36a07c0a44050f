package evaluate

// This file writes a matrix as Markdown tables.

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// metricFormat returns how a metric is written: its title, factor and digits.
func metricFormat(metric string) (title string, factor float64, digits int) {
	switch metric {
	case milliseconds:
		return "ms", 1, 1
	case answerMilliseconds:
		return "answer ms", 1, 0
	case "cost":
		return "$/1000", 1000, 3
	}
	for _, columns := range [][]column{columns, answerColumns} {
		for _, c := range columns {
			if c.metric == metric {
				return c.title, 1, c.digits
			}
		}
	}
	return metric, 1, 4
}

// CombinedTable returns the table of a combination for a dataset, or over all datasets if dataset
// is empty. A figure has its difference from the baseline with the interval; without intervals it
// has only a star if the difference is significant.
func (c Combination) CombinedTable(dataset string, intervals bool) Table {
	out := Table{Columns: make([]string, 0, len(c.Metrics))}
	for _, m := range c.Metrics {
		title, _, _ := metricFormat(m)
		out.Columns = append(out.Columns, title)
	}
	for _, row := range c.Rows {
		cells := Row{Plan: row.Row}
		for _, m := range c.Metrics {
			f, ok := row.Figures[m]
			if ok && dataset != "" {
				f, ok = f.of(dataset)
			}
			text := "-"
			if ok {
				text = f.text(m, intervals)
			}
			cells.Cells = append(cells.Cells, Cell{Text: text})
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}

func (f CombinedFigure) of(dataset string) (CombinedFigure, bool) {
	for _, d := range f.Datasets {
		if d.Dataset == dataset {
			return d, true
		}
	}
	return CombinedFigure{}, false
}

func (f CombinedFigure) text(metric string, intervals bool) string {
	_, factor, digits := metricFormat(metric)
	write := func(v float64, sign string) string {
		if v *= factor; v >= 0 {
			return sign + strconv.FormatFloat(v, 'f', digits, 64)
		}
		return strconv.FormatFloat(v, 'f', digits, 64)
	}
	out := write(f.Value, "")
	if a := f.Against; a != nil {
		star := ""
		if a.P < Significant {
			star = "*"
		}
		if !intervals {
			return out + star
		}
		out += fmt.Sprintf(" (%s%s, %s to %s)", write(a.Difference, "+"), star, write(a.Interval.Low, "+"), write(a.Interval.High, "+"))
	}
	return out
}

// WriteMarkdown writes the combination: the table over all datasets, and the table of each.
func (c Combination) WriteMarkdown(w io.Writer, title, about string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n%s\n", title, about, c.legend())
	if len(c.Datasets) > 1 {
		fmt.Fprintf(&b, "\n## All %d datasets\n\nMeans over the datasets.\n\n", len(c.Datasets))
		markdownTable(&b, c.CombinedTable("", true))
	}
	for _, d := range c.Datasets {
		fmt.Fprintf(&b, "\n## %s\n\n", cellText(d))
		markdownTable(&b, c.CombinedTable(d, true))
	}
	for _, j := range c.Judged {
		fmt.Fprintf(&b, "\n## The judge, %s\n\n%s\n\n", cellText(j.Dataset), judgeLegend)
		markdownTable(&b, j.Table())
	}
	_, err := io.WriteString(w, b.String())
	if err != nil {
		return fmt.Errorf("write the tables: %w", err)
	}
	return nil
}

// legend explains the brackets.
func (c Combination) legend() string {
	return fmt.Sprintf("In brackets: the difference from %s, with its 95 %% interval by the paired bootstrap over the questions; * p < %g.", cellText(c.Baseline), Significant)
}

// judgeLegend explains the table of a judge.
const judgeLegend = "The share of the judged answers on which judge and labels say the same, and Cohen's kappa, each with its 95 % interval by the bootstrap over the answers. " +
	"Failed and unreadable judgements have no verdict, and their answers no correctness."

func markdownTable(b *strings.Builder, t Table) {
	fmt.Fprintf(b, "| | %s |\n|---|%s\n", strings.Join(t.Columns, " | "), strings.Repeat("---|", len(t.Columns)))
	for _, row := range t.Rows {
		fmt.Fprintf(b, "| %s |", cellText(row.Plan))
		for _, cell := range row.Cells {
			fmt.Fprintf(b, " %s |", cellText(cell.Text))
		}
		b.WriteByte('\n')
	}
}

// cellText escapes text for a cell of a table.
func cellText(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}
