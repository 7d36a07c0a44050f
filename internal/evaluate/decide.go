package evaluate

// This file compares each plan with each plan before it, in the deciding metrics.

import (
	"math"
	"slices"
)

// decide compares the plans in one metric, on the questions that have a value under all plans.
// Which questions have a value may depend on the plan, like the precision of citations, which needs
// citations. Each pair of plans is then compared on the questions that have a value under both.
func (r *Results) decide(out *Summary, metric string) {
	m := slices.Index(r.names, metric)
	if m < 0 {
		return
	}
	columns := make([][]float64, len(r.plans))
	for p := range r.plans {
		columns[p] = r.plans[p].values[m]
	}
	rows, same := complete(columns)
	if same {
		if len(rows) > 0 {
			r.compareAll(out, metric, resampled(rows), func(p, before int) float64 {
				return out.Plans[p].Metrics[metric] - out.Plans[before].Metrics[metric]
			})
		}
		return
	}
	for p := range r.plans {
		if own, _ := complete(columns[p : p+1]); len(own) > 0 {
			out.Plans[p].Intervals[metric] = interval(resampled(own)[0])
		}
		for before := range p {
			both, _ := complete([][]float64{columns[p], columns[before]})
			if len(both) == 0 {
				continue
			}
			sum := 0.0
			for _, row := range both {
				sum += row[0] - row[1]
			}
			means := resampled(both)
			out.Differences = append(out.Differences, difference(metric, r.plans[p].name, r.plans[before].name, means[0], means[1], sum/float64(len(both))))
		}
	}
}

// complete returns, as rows, the questions that have a value in every column. same reports whether
// all other questions have a value in no column.
func complete(columns [][]float64) (rows [][]float64, same bool) {
	same = true
	for q := range columns[0] {
		row := make([]float64, len(columns))
		missing := 0
		for c := range columns {
			if row[c] = columns[c][q]; math.IsNaN(row[c]) {
				missing++
			}
		}
		if missing == 0 {
			rows = append(rows, row)
		}
		same = same && (missing == 0 || missing == len(columns))
	}
	return rows, same
}

// compareAll sets the intervals of the plans, and compares each plan with each one before it, by
// their means over the same resamples.
func (r *Results) compareAll(out *Summary, metric string, means [][]float64, observed func(p, before int) float64) {
	for p := range r.plans {
		out.Plans[p].Intervals[metric] = interval(means[p])
		for before := range p {
			out.Differences = append(out.Differences, difference(metric, r.plans[p].name, r.plans[before].name, means[p], means[before], observed(p, before)))
		}
	}
}

func difference(metric, plan, against string, means, others []float64, observed float64) Difference {
	d := Difference{Metric: metric, Plan: plan, Against: against, Difference: observed}
	d.Interval, d.P = compare(means, others, observed)
	return d
}

// decideEfficiency compares the plans in cost efficiency. It is a ratio of means, so it is computed
// from the means of each resample.
func (r *Results) decideEfficiency(out *Summary) {
	quality, cost := slices.Index(r.names, efficient), slices.Index(r.names, "cost")
	columns := make([][]float64, 0, 2*len(r.plans))
	for _, p := range r.plans {
		columns = append(columns, p.values[quality], p.values[cost])
	}
	rows, _ := complete(columns)
	if len(rows) == 0 {
		return
	}
	means := resampled(rows)
	ratios := make([][]float64, len(r.plans))
	for p := range r.plans {
		ratios[p] = make([]float64, resamples)
		for i := range resamples {
			if ratios[p][i] = means[2*p][i] / means[2*p+1][i]; math.IsNaN(ratios[p][i]) || math.IsInf(ratios[p][i], 0) {
				return // answers that cost nothing have no efficiency
			}
		}
	}
	r.compareAll(out, efficiency, ratios, func(p, before int) float64 {
		return out.Plans[p].Metrics[efficiency] - out.Plans[before].Metrics[efficiency]
	})
}
