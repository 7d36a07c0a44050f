package evaluate

// This file is what an evaluation gives: the figures of the plans on a dataset,
// as `sluice eval --json` writes them.

import (
	"math"
	"slices"
)

// Summary are the figures of the plans on one dataset.
type Summary struct {
	Dataset   string `json:"dataset"`
	Split     string `json:"split"`
	Documents int    `json:"documents"`
	Failed    int    `json:"failed"`  // documents that could not be ingested
	Queries   int    `json:"queries"` // questions asked
	Unjudged  int    `json:"unjudged"`
	Limit     int    `json:"limit,omitempty"`
	Seed      uint64 `json:"seed,omitempty"`
	Parallel  int    `json:"parallel"`
	// Segmentation is how the documents were cut into passages.
	Segmentation string `json:"segmentation,omitempty"`

	Plans []PlanSummary `json:"plans"`
	// Differences compare each plan with each before it, in the metrics that
	// decide.
	Differences []Difference `json:"differences"`
}

// PlanSummary are the figures of one plan.
type PlanSummary struct {
	Plan      string              `json:"plan"`
	Metrics   map[string]float64  `json:"metrics"`
	Intervals map[string]Interval `json:"intervals"` // of the metrics that decide
	Tokens    float64             `json:"tokens"`    // mean tokens of the selected context
	Millis    Latency             `json:"ms"`
	Stages    []StageSummary      `json:"stages"`
}

// Latency is time per question in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	Mean float64 `json:"mean"`
}

// StageSummary is the time of one stage per question.
type StageSummary struct {
	Stage string `json:"stage"`
	Latency
}

// Deciding are the metrics in which plans are compared.
var Deciding = []string{"ndcg@10", "hit@1", "ar@4", "evidence_recall"}

// Summary computes the figures.
func (r *Results) Summary() Summary {
	out := Summary{Dataset: r.dataset.Name, Split: r.dataset.Split, Documents: r.dataset.Documents, Failed: r.Failed, Queries: len(r.queries), Unjudged: r.dataset.Unjudged,
		Limit: r.options.Limit, Parallel: r.options.Parallel, Segmentation: r.Segmentation, Differences: []Difference{}}
	if r.options.Limit > 0 {
		out.Seed = r.options.Seed
	}
	for i := range r.plans {
		out.Plans = append(out.Plans, r.plans[i].summary(r.names, r.options.Cutoffs))
	}
	for _, metric := range Deciding {
		r.decide(&out, metric)
	}
	return out
}

func (p *planResults) summary(names []string, cutoffs []int) PlanSummary {
	out := PlanSummary{Plan: p.name, Metrics: map[string]float64{}, Intervals: map[string]Interval{}, Millis: latency(p.millis), Stages: p.stageSummaries()}
	for m, name := range names {
		switch v := mean(p.values[m]); {
		case name == "tokens":
			out.Tokens = v
		case !math.IsNaN(v): // the dataset knows what it takes
			out.Metrics[name] = v
		}
	}
	combined(out.Metrics, cutoffs)
	return out
}

func latency(millis []float64) Latency {
	sorted := slices.Clone(millis)
	slices.Sort(sorted)
	out := Latency{P50: percentile(sorted, 50), P95: percentile(sorted, 95)}
	if len(sorted) > 0 {
		out.Mean = mean(sorted)
	}
	return out
}

// stageSummaries are in the order in which the stages first ran. A question for
// which a stage did not run has taken no time in it.
func (p *planResults) stageSummaries() []StageSummary {
	order := []string{}
	millis := map[string][]float64{}
	for q, stages := range p.stages {
		for _, s := range stages {
			if millis[s.name] == nil {
				order = append(order, s.name)
				millis[s.name] = make([]float64, len(p.stages))
			}
			millis[s.name][q] = s.millis
		}
	}
	out := []StageSummary{}
	for _, name := range order {
		out = append(out, StageSummary{name, latency(millis[name])})
	}
	return out
}

// decide compares the plans in one metric.
func (r *Results) decide(out *Summary, metric string) {
	m := slices.Index(r.names, metric)
	var rows [][]float64
	for q := range r.queries {
		row := make([]float64, len(r.plans))
		for p := range r.plans {
			row[p] = r.plans[p].values[m][q]
		}
		if !slices.ContainsFunc(row, math.IsNaN) {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return
	}
	means := resampled(rows)
	for p := range r.plans {
		out.Plans[p].Intervals[metric] = interval(means[p])
		for before := range p {
			d := Difference{Metric: metric, Plan: r.plans[p].name, Against: r.plans[before].name,
				Difference: out.Plans[p].Metrics[metric] - out.Plans[before].Metrics[metric]}
			d.Interval, d.P = compare(means[p], means[before], d.Difference)
			out.Differences = append(out.Differences, d)
		}
	}
}
