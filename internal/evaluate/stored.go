package evaluate

// This file compares evaluations that were run at different times, in what both measured. If the
// values of single questions are known, the questions that both asked are compared by the paired
// bootstrap, like plans of one evaluation.

import (
	"maps"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/schema"
)

// kept are the metrics whose values by question are stored with an evaluation: the deciding ones,
// and the costs of an answer.
var kept = slices.Concat(Deciding, AnswerQualities, []string{"mrr@10", "document_recall@100", "tokens", "answered", "input_tokens", "output_tokens", "cost", "rounds"})

// milliseconds is the metric of the time of a search.
const milliseconds = "ms"

// lowerBetter are the metrics of which lower values are better.
var lowerBetter = []string{"entropy@4", "tokens", "input_tokens", "output_tokens", "cost", "rounds", "ms", "ms_p50", "ms_p95", "answer_ms", "answer_ms_p50", "answer_ms_p95", "errors"}

// Figures returns the values of each question under each plan. A failed answer has the values that
// count in the plan's means.
func (r *Results) Figures() schema.EvaluationFigures {
	out := schema.EvaluationFigures{Queries: make([]string, len(r.queries)), Plans: make([]schema.PlanFigures, len(r.plans))}
	for q := range r.queries {
		out.Queries[q] = r.queries[q].ID
	}
	for i, p := range r.plans {
		figures := schema.PlanFigures{Plan: p.name, Metrics: map[string][]*float64{milliseconds: pointers(p.millis)}}
		for m, name := range r.names {
			if slices.Contains(kept, name) && slices.ContainsFunc(p.values[m], func(v float64) bool { return !math.IsNaN(v) }) {
				figures.Metrics[name] = pointers(p.values[m])
			}
		}
		if len(p.answers) > 0 {
			figures.Metrics["answer_ms"] = pointers(p.answering)
		}
		out.Plans[i] = figures
	}
	return out
}

// pointers converts NaN, which JSON does not have, to nil.
func pointers(values []float64) []*float64 {
	out := make([]*float64, len(values))
	for i, v := range values {
		if !math.IsNaN(v) {
			out[i] = &v
		}
	}
	return out
}

// Compare compares two evaluations in the datasets and plans that both have. ofA and ofB are the
// values by question of each report; nil if unknown. The time of the bootstrap is proportional to
// them: 10,000 sums over all values.
func Compare(a, b schema.Evaluation, ofA, ofB []schema.EvaluationFigures) schema.EvaluationComparison {
	out := schema.EvaluationComparison{Evaluation: a, Against: b, Datasets: []schema.DatasetComparison{}}
	out.Evaluation.Reports, out.Against.Reports = nil, nil
	for i, x := range a.Reports {
		j := slices.IndexFunc(b.Reports, func(y schema.EvaluationReport) bool { return y.Dataset == x.Dataset && y.Split == x.Split })
		if j < 0 {
			continue
		}
		y := b.Reports[j]
		d := schema.DatasetComparison{Dataset: x.Dataset, Split: x.Split, Documents: x.Documents, DocumentsAgainst: y.Documents,
			Queries: x.Queries, QueriesAgainst: y.Queries, Plans: []schema.PlanComparison{}}
		for _, p := range x.Plans {
			if k := slices.IndexFunc(y.Plans, func(o schema.EvaluatedPlan) bool { return o.Plan == p.Plan }); k >= 0 {
				d.Plans = append(d.Plans, comparePlans(p, y.Plans[k]))
			}
		}
		if i < len(ofA) && j < len(ofB) {
			pair(d.Plans, ofA[i], ofB[j])
		}
		out.Datasets = append(out.Datasets, d)
	}
	return out
}

// comparePlans compares the means.
func comparePlans(a, b schema.EvaluatedPlan) schema.PlanComparison {
	out := schema.PlanComparison{Plan: a.Plan, Segmentation: a.Segmentation, SegmentationAgainst: b.Segmentation, Metrics: []schema.MetricComparison{}}
	of, against := figuresOf(a), figuresOf(b)
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if other, both := against[name]; both {
			out.Metrics = append(out.Metrics, schema.MetricComparison{Metric: name, Value: of[name], Against: other, Difference: of[name] - other,
				Lower: slices.Contains(lowerBetter, name)})
		}
	}
	return out
}

// figuresOf returns the figures of a plan by name.
func figuresOf(p schema.EvaluatedPlan) map[string]float64 {
	out := maps.Clone(p.Metrics)
	if out == nil {
		out = map[string]float64{}
	}
	out["tokens"], out[milliseconds], out["ms_p50"], out["ms_p95"] = p.Tokens, p.Millis.Mean, p.Millis.P50, p.Millis.P95
	if a := p.Answering; a != nil {
		out["answer_ms"], out["answer_ms_p50"], out["answer_ms_p95"], out["errors"] = a.Mean, a.P50, a.P95, float64(p.Errors)
	}
	return out
}

// paired is a metric of a plan on the questions for which both evaluations have a value.
type paired struct {
	metric      *schema.MetricComparison
	differences []float64 // by question
}

// pair compares by question if the values of the questions are known.
func pair(plans []schema.PlanComparison, a, b schema.EvaluationFigures) {
	inB := make(map[string]int, len(b.Queries))
	for i, q := range b.Queries {
		inB[q] = i
	}
	// Metrics with values for the same questions share their resamples.
	groups := map[string][]paired{}
	for _, p := range plans {
		x, y := planFigures(a, p.Plan), planFigures(b, p.Plan)
		for m := range p.Metrics {
			metric := &p.Metrics[m]
			of, against := x[metric.Metric], y[metric.Metric]
			if len(of) != len(a.Queries) || len(against) != len(b.Queries) {
				continue
			}
			mask, one := make([]byte, len(a.Queries)), paired{metric: metric}
			sum, other := 0.0, 0.0
			for i, q := range a.Queries {
				j, ok := inB[q]
				if !ok || of[i] == nil || against[j] == nil {
					continue
				}
				mask[i], sum, other = 1, sum+*of[i], other+*against[j]
				one.differences = append(one.differences, *of[i]-*against[j])
			}
			n := float64(len(one.differences))
			if n == 0 {
				continue
			}
			metric.Value, metric.Against, metric.Difference, metric.Questions = sum/n, other/n, (sum-other)/n, len(one.differences)
			if slices.ContainsFunc(one.differences, func(d float64) bool { return d != 0 }) {
				groups[string(mask)] = append(groups[string(mask)], one)
			} else { // no resample has a difference
				certain := 1.0
				metric.Interval, metric.P = &schema.Interval{}, &certain
			}
		}
	}
	for _, group := range groups {
		bootstrap(group)
	}
}

// bootstrap sets the intervals of metrics that have values for the same questions.
func bootstrap(group []paired) {
	rows := make([][]float64, len(group[0].differences))
	for q := range rows {
		rows[q] = make([]float64, len(group))
		for c, one := range group {
			rows[q][c] = one.differences[q]
		}
	}
	none := make([]float64, resamples)
	for c, means := range resampled(rows) {
		found, p := compare(means, none, group[c].metric.Difference)
		group[c].metric.Interval, group[c].metric.P = &found, &p
	}
}

// planFigures returns a plan's values of questions by metric.
func planFigures(f schema.EvaluationFigures, plan string) map[string][]*float64 {
	for _, p := range f.Plans {
		if p.Plan == plan {
			return p.Metrics
		}
	}
	return nil
}
