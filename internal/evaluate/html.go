package evaluate

// This file writes the report: one HTML file that needs no other and asks for
// none.

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
)

//go:embed report.html
var reportText string

var report = template.Must(template.New("report").Funcs(template.FuncMap{
	"tint":   func(i int) int { return i % tints },
	"figure": func(v float64) string { return fmt.Sprintf("%.4f", v) },
	"signed": func(v float64) string { return fmt.Sprintf("%+.4f", v) },
	"chance": func(p float64) string {
		if p < 0.001 {
			return "< 0.001"
		}
		return fmt.Sprintf("%.3f", p)
	},
}).Parse(reportText))

// section is one dataset in the report.
type section struct {
	Summary
	Table     Table
	Intervals []plot
	Hits      template.HTML
	Prices    template.HTML
	Times     template.HTML
	Stages    []string
	Contested []contest
}

type plot struct {
	Title   string
	Drawing template.HTML
}

// contest is a question on which the plans differ.
type contest struct {
	ID, Text string
	Ranks    []string // of the first relevant document, by plan
	spread   float64
}

// contests is how many of them the report has.
const contests = 20

// WriteHTML writes the report of results and their summaries, in the same order.
// about tells of the run, for example when it was.
func WriteHTML(w io.Writer, results []*Results, summaries []Summary, about string) error {
	page := struct {
		About    string
		Sections []section
	}{About: about}
	for i, r := range results {
		page.Sections = append(page.Sections, r.section(summaries[i]))
	}
	if err := report.Execute(w, page); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

func (r *Results) section(s Summary) section {
	out := section{Summary: s, Table: s.Table(), Hits: r.hits(), Prices: prices(s, Deciding[0])}
	for _, metric := range Deciding {
		if _, there := s.Plans[0].Intervals[metric]; there {
			out.Intervals = append(out.Intervals, plot{metric, intervals(s, metric)})
		}
	}
	for _, p := range s.Plans {
		for _, stage := range p.Stages {
			if !slices.Contains(out.Stages, stage.Stage) {
				out.Stages = append(out.Stages, stage.Stage)
			}
		}
	}
	out.Times = stagePlot(s, out.Stages)
	if len(r.plans) > 1 {
		out.Contested = r.contested(Deciding[0])
	}
	return out
}

// contested are the questions on which the plans differ most in a metric.
func (r *Results) contested(metric string) []contest {
	m := slices.Index(r.names, metric)
	var out []contest
	for q := range r.queries {
		c := contest{ID: r.queries[q].ID, Text: r.queries[q].Text}
		low, high := math.Inf(1), math.Inf(-1)
		for _, p := range r.plans {
			low, high = min(low, p.values[m][q]), max(high, p.values[m][q])
			rank := "-"
			if p.first[q] > 0 {
				rank = fmt.Sprint(p.first[q])
			}
			c.Ranks = append(c.Ranks, rank)
		}
		if c.spread = high - low; c.spread > 0 {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b contest) int {
		switch {
		case a.spread > b.spread:
			return -1
		case a.spread < b.spread:
			return 1
		}
		return 0
	})
	return out[:min(contests, len(out))]
}
