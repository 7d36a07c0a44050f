package evaluate

// This file writes the report: one HTML file without external resources.

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
)

//go:embed report.html
var reportText string

var report = template.Must(template.New("report").Funcs(template.FuncMap{
	"tint": func(i int) int { return i % tints },
	"figure": func(p PlanSummary, metric string) string {
		if v, ok := p.Metrics[metric]; ok {
			return fmt.Sprintf("%.4f", v)
		}
		return "-"
	},
	"judgeLegend": func() string { return judgeLegend },
	"signed":      func(v float64) string { return fmt.Sprintf("%+.4f", v) },
	"chance": func(p float64) string {
		if p < 0.001 {
			return "< 0.001"
		}
		return fmt.Sprintf("%.3f", p)
	},
}).Parse(reportText))

// section is the part of the report about one dataset.
type section struct {
	Summary
	Table     Table
	Answers   Table
	Judge     Table    // without columns if there is no judge
	Metrics   []string // of any plan
	Intervals []plot
	Hits      template.HTML
	Trade     template.HTML // quality against time
	Tokens    template.HTML // quality against tokens; empty without answers
	Times     template.HTML
	Stages    []string
	Contested []contest
	Disputed  []contest // by their answers
	Errors    int
}

type plot struct {
	Title   string
	Drawing template.HTML
}

// contest is a question on which the plans differ.
type contest struct {
	ID, Text string
	Ranks    []string // by plan: of the first relevant document, or the short answer
	spread   float64
}

// maxContests is the most questions on which plans differ in the report.
const maxContests = 20

// WriteHTML writes the report of results and their summaries, in the same order. about describes
// the run, for example its date.
func WriteHTML(w io.Writer, results []*Results, summaries []Summary, about string) error {
	return writeReport(w, results, summaries, reportPage{About: about})
}

// WriteMatrixHTML writes the report of a matrix: its combination, followed by what WriteHTML writes
// for the results.
func WriteMatrixHTML(w io.Writer, c Combination, results []*Results, summaries []Summary, about string) error {
	page := reportPage{About: about, Legend: c.legend(), Combined: []matrixTable{}}
	if len(c.Datasets) > 1 {
		page.Combined = append(page.Combined, matrixTable{fmt.Sprintf("All %d datasets", len(c.Datasets)), c.CombinedTable("", true)})
	}
	for _, d := range c.Datasets {
		page.Combined = append(page.Combined, matrixTable{d, c.CombinedTable(d, true)})
	}
	return writeReport(w, results, summaries, page)
}

// reportPage is the data of the report.
type reportPage struct {
	About    string
	Combined []matrixTable // of a matrix
	Legend   string
	Sections []section
}

// matrixTable is a table of a matrix, with a title.
type matrixTable struct {
	Title string
	Table Table
}

func writeReport(w io.Writer, results []*Results, summaries []Summary, page reportPage) error {
	for i, r := range results {
		page.Sections = append(page.Sections, r.section(summaries[i]))
	}
	if err := report.Execute(w, page); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (r *Results) section(s Summary) section {
	out := section{Summary: s, Table: s.Table(), Answers: s.Answers(), Judge: s.Judged().Table(), Hits: r.hits(), Trade: prices(s, Deciding[0])}
	for _, metric := range slices.Concat(Deciding, drawn) {
		if everyPlan(s, metric) {
			out.Intervals = append(out.Intervals, plot{metric, intervals(s, metric)})
		}
	}
	if len(out.Answers.Columns) > 0 && everyPlan(s, efficient) {
		out.Tokens = tokenPlot(s, efficient)
	}
	metrics := map[string]bool{}
	for _, p := range s.Plans {
		out.Errors += p.Errors
		for name := range p.Metrics {
			metrics[name] = true
		}
		for _, stage := range p.Stages {
			if !slices.Contains(out.Stages, stage.Stage) {
				out.Stages = append(out.Stages, stage.Stage)
			}
		}
	}
	out.Metrics = slices.Sorted(maps.Keys(metrics))
	out.Times = stagePlot(s, out.Stages)
	if len(r.plans) > 1 {
		out.Contested = r.contested(Deciding[0], func(p *planResults, q int) string {
			if p.first[q] > 0 {
				return fmt.Sprint(p.first[q])
			}
			return "-"
		})
	}
	if len(r.plans) > 1 && r.options.Answerer != nil {
		out.Disputed = r.contested(efficient, func(p *planResults, q int) string { return cmp.Or(p.answers[q].shortText, "-") })
	}
	return out
}

// drawn are the measures of answers for which the report draws intervals.
var drawn = []string{"f1", "em", "contains", correctness, "citation_precision"}

// everyPlan reports whether all plans have an interval of a metric.
func everyPlan(s Summary, metric string) bool {
	return !slices.ContainsFunc(s.Plans, func(p PlanSummary) bool {
		_, ok := p.Intervals[metric]
		return !ok
	})
}

// contested returns the questions on which the plans differ most in a metric, with what has returns
// for each plan.
func (r *Results) contested(metric string, has func(p *planResults, q int) string) []contest {
	m := slices.Index(r.names, metric)
	var out []contest
	for q := range r.queries {
		c := contest{ID: r.queries[q].ID, Text: r.queries[q].Text}
		low, high := math.Inf(1), math.Inf(-1)
		for _, p := range r.plans {
			low, high = min(low, p.values[m][q]), max(high, p.values[m][q])
			c.Ranks = append(c.Ranks, has(p, q))
		}
		if c.spread = high - low; c.spread > 0 {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b contest) int { return cmp.Compare(b.spread, a.spread) })
	return out[:min(maxContests, len(out))]
}
