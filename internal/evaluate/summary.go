package evaluate

// This file computes the summary of an evaluation: the figures of the plans on a dataset, as
// `sluice eval --json` writes them.

import (
	"math"
	"slices"

	"github.com/sluice-rag/sluice/schema"
)

// Summary has the figures of the plans on one dataset.
type Summary schema.EvaluationReport

// The parts of a summary; package schema documents them.
type (
	PlanSummary  = schema.EvaluatedPlan
	Latency      = schema.Latency
	StageSummary = schema.StageLatency
	Interval     = schema.Interval
	Difference   = schema.EvaluationDifference
)

// Deciding are the metrics in which plans are compared.
var Deciding = []string{"ndcg@10", "hit@1", "ar@4", "evidence_recall"}

// Summary computes the figures.
func (r *Results) Summary() Summary {
	out := Summary{Dataset: r.dataset.Name, Split: r.dataset.Split, Documents: r.dataset.Documents, Failed: r.Failed, Queries: len(r.queries), Unjudged: r.dataset.Unjudged,
		Limit: r.options.Limit, Parallel: r.options.Parallel, Segmentation: r.segmentation(), Differences: []Difference{}}
	if r.options.Limit > 0 {
		out.Seed = r.options.Seed
	}
	for i, p := range r.plans {
		s := p.summary(r.names, r.options.Cutoffs)
		s.Judging = r.judging(i)
		s.Segmentation = r.Segmentations[p.name]
		for _, a := range p.answers {
			if a.nominal && !a.failed {
				out.Nominal++
			}
		}
		out.Plans = append(out.Plans, s)
	}
	if out.Nominal > 0 {
		out.Prices = &r.options.Prices
	}
	deciding := Deciding
	if r.options.Answerer != nil {
		deciding = slices.Concat(Deciding, AnswerQualities, []string{"input_tokens"})
	}
	for _, metric := range deciding {
		r.decide(&out, metric)
	}
	if r.options.Answerer != nil {
		r.decideEfficiency(&out)
	}
	return out
}

// segmentation returns the segmentation of the documents, if it is the same for all plans.
func (r *Results) segmentation() string {
	first := r.Segmentations[r.plans[0].name]
	for _, p := range r.plans {
		if r.Segmentations[p.name] != first {
			return ""
		}
	}
	return first
}

func (p *planResults) summary(names []string, cutoffs []int) PlanSummary {
	out := PlanSummary{Plan: p.name, Metrics: map[string]float64{}, Intervals: map[string]Interval{}, Millis: latency(p.millis), Stages: p.stageSummaries()}
	for m, name := range names {
		switch v := mean(p.values[m]); {
		case name == "tokens":
			out.Tokens = v
		case !math.IsNaN(v): // the dataset has what the measure needs
			out.Metrics[name] = v
		}
	}
	combined(out.Metrics, cutoffs)
	if len(p.answers) > 0 {
		millis := latency(p.answering)
		out.Answering, out.Calibration = &millis, p.calibration()
		if e := p.efficiency(names); !math.IsNaN(e) {
			out.Metrics[efficiency] = e
		}
	}
	for _, a := range p.answers {
		if a.failed {
			out.Errors++
		}
	}
	return out
}

// efficiency is SAGE's cost efficiency (equation 2), quality over cost: mean F1 over mean dollars
// of the questions that have both. It is NaN if they cost nothing.
func (p *planResults) efficiency(names []string) float64 {
	rows, _ := complete([][]float64{p.values[slices.Index(names, efficient)], p.values[slices.Index(names, "cost")]})
	quality, cost := 0.0, 0.0
	for _, row := range rows {
		quality, cost = quality+row[0], cost+row[1]
	}
	if cost == 0 {
		return math.NaN()
	}
	return quality / cost
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

// stageSummaries returns the times of stages, in the order in which they first ran. A question for
// which a stage did not run counts as 0 ms.
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
		out = append(out, StageSummary{Stage: name, Latency: latency(millis[name])})
	}
	return out
}
