package evaluate

// This file defines metrics in terms of means of measures: most are one mean, some are sums,
// products or quotients of several. In a resample a metric is computed from the resample's means.

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/schema"
)

// MeasuresVersion is the version of the measures. It is incremented when a measure gives another
// value for the same question, or the judge gets another prompt, so that stored values are measured
// again.
const MeasuresVersion = 1

// answerMilliseconds is the metric of the time of an answer.
const answerMilliseconds = "answer_ms"

// quantity is a metric as a function of means.
type quantity struct {
	parts []string // measures
	of    func(means []float64) float64
	// joint: the means are over the questions that have a value of every part; else each is over
	// those that have a value of its own.
	joint bool
}

func single(means []float64) float64 { return means[0] }

func sumOf(means []float64) float64 {
	sum := 0.0
	for _, m := range means {
		sum += m
	}
	return sum
}

// products returns the sum of the products of adjacent pairs of means.
func products(means []float64) float64 {
	sum := 0.0
	for i := 0; i+1 < len(means); i += 2 {
		sum += means[i] * means[i+1]
	}
	return sum
}

// quantities returns all metrics for these cutoffs, by name.
func quantities(cutoffs []int, answers bool) map[string]quantity {
	out := map[string]quantity{}
	one := func(name string) { out[name] = quantity{parts: []string{name}, of: single} }
	for _, m := range measures(cutoffs) {
		one(m.name)
	}
	one(milliseconds)
	if answers {
		for _, m := range answerMeasures {
			one(m.name)
		}
		one(answerMilliseconds)
		out[efficiency] = quantity{parts: []string{efficient, "cost"}, joint: true, of: func(m []float64) float64 { return m[0] / m[1] }}
	}
	for _, g := range groups(cutoffs) {
		at := func(name string, k int) string { return fmt.Sprintf("%s%s@%d", g.prefix, name, k) }
		for _, k := range g.cutoffs {
			out[at("ie", k)] = quantity{parts: []string{at("recall", k), at("precision", k)}, of: products}
		}
		for _, name := range g.summed {
			q := quantity{of: sumOf}
			for _, k := range summed {
				if name == "ie" {
					q.parts, q.of = append(q.parts, at("recall", k), at("precision", k)), products
				} else {
					q.parts = append(q.parts, at(name, k))
				}
			}
			out[g.prefix+name+"_sum"] = q
		}
	}
	return out
}

// CheckMetrics returns an error for the first name that is no metric. answers says whether answers
// are measured, judge whether they are judged.
func CheckMetrics(metrics []string, cutoffs []int, answers, judge bool) error {
	available, every := quantities(cutoffs, answers), quantities(cutoffs, true)
	for i, m := range metrics {
		field := fmt.Sprintf("metrics[%d]", i)
		_, known := available[m]
		_, otherwise := every[m]
		switch {
		case known && m == correctness && !judge:
			return schema.Invalid(field, "%q is what a judge says, and none is asked: add judge: true", m)
		case known && slices.Contains(metrics[:i], m):
			return schema.Invalid(field, "%q is named twice", m)
		case known:
		case otherwise:
			return schema.Invalid(field, "%q is a measure of answers, and no answers are asked for", m)
		default:
			return schema.Invalid(field, "there is no metric %q; with these cutoffs there are: %s", m, strings.Join(slices.Sorted(maps.Keys(available)), ", "))
		}
	}
	return nil
}

// column returns a plan's values of a measure by question; nil: it is not measured.
func (r *Results) column(plan int, measure string) []float64 {
	p := r.plans[plan]
	switch measure {
	case milliseconds:
		return p.millis
	case answerMilliseconds:
		if len(p.answering) == 0 {
			return nil
		}
		return p.answering
	}
	if m := slices.Index(r.names, measure); m >= 0 {
		return p.values[m]
	}
	return nil
}

// value returns a plan's value of a metric; NaN: it has none.
func (r *Results) value(plan int, q quantity) float64 {
	if len(q.parts) == 0 {
		return math.NaN()
	}
	columns := make([][]float64, len(q.parts))
	for i, part := range q.parts {
		if columns[i] = r.column(plan, part); columns[i] == nil {
			return math.NaN()
		}
	}
	return finite(q.of(means(columns, q.masks(columns))))
}

// masks returns, for each part, which questions count.
func (q quantity) masks(columns ...[][]float64) [][]bool {
	masks := make([][]bool, len(q.parts))
	for i := range q.parts {
		masks[i] = make([]bool, len(columns[0][i]))
		for n := range masks[i] {
			masks[i][n] = true
			for _, of := range columns {
				masks[i][n] = masks[i][n] && !math.IsNaN(of[i][n])
			}
		}
	}
	if q.joint {
		for i := 1; i < len(masks); i++ {
			for n := range masks[0] {
				masks[0][n] = masks[0][n] && masks[i][n]
			}
		}
		for i := range masks {
			masks[i] = masks[0]
		}
	}
	return masks
}

// means returns the means of the columns, each over the questions that count; NaN if none do.
func means(columns [][]float64, masks [][]bool) []float64 {
	out := make([]float64, len(columns))
	for i, column := range columns {
		sum, n := 0.0, 0
		for q, v := range column {
			if masks[i][q] {
				sum, n = sum+v, n+1
			}
		}
		out[i] = sum / float64(n)
	}
	return out
}

// finite converts infinities, which come from a division by 0, to NaN.
func finite(v float64) float64 {
	if math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}
