package evaluate

// This file combines the rows of a matrix, plans with their settings, over all datasets. Each row
// is compared with the baseline row by the paired bootstrap over the questions of each dataset
// (bootstrap.go). The difference over all datasets is the mean of their differences. A resample
// draws from each dataset as many questions as it has (stratified bootstrap), so that a small
// dataset counts as much as a large one.

import (
	"fmt"
	"math"
	"slices"
)

// Set has the rows of a dataset, with their names and results.
type Set struct {
	Dataset string
	rows    []setRow
}

type setRow struct {
	name    string
	results *Results
	plan    int
}

// Add adds the plans of r as rows. All results of a set have the same questions.
func (s *Set) Add(r *Results, name func(plan string) string) {
	for i, p := range r.plans {
		s.rows = append(s.rows, setRow{name(p.name), r, i})
	}
}

// Combination has the rows of a matrix over all datasets.
type Combination struct {
	Baseline string        `json:"baseline"` // the row that the others are compared with
	Datasets []string      `json:"datasets"`
	Metrics  []string      `json:"metrics"`
	Rows     []CombinedRow `json:"rows"`
	Judged   []Judged      `json:"judged,omitempty"` // by dataset, if there is a judge
}

// CombinedRow is a plan with its settings.
type CombinedRow struct {
	Row     string                    `json:"row"`
	Figures map[string]CombinedFigure `json:"figures"` // by metric; absent if no dataset has it
}

// CombinedFigure is a value of a metric of a row.
type CombinedFigure struct {
	Value    float64          `json:"value"` // mean over the datasets that have it
	Against  *Comparison      `json:"against,omitempty"`
	Datasets []CombinedFigure `json:"by_dataset,omitempty"` // in the order of the datasets
	Dataset  string           `json:"dataset,omitempty"`    // of a figure of one dataset
}

// Comparison is the difference of a row from the baseline.
type Comparison struct {
	Difference float64  `json:"difference"`
	Interval   Interval `json:"interval"` // 95 %
	P          float64  `json:"p"`
}

// Combine compares all rows with the baseline. Every set has the same rows.
func Combine(sets []*Set, metrics []string, baseline string) Combination {
	out := Combination{Baseline: baseline, Metrics: metrics}
	for _, row := range sets[0].rows {
		out.Rows = append(out.Rows, CombinedRow{Row: row.name, Figures: map[string]CombinedFigure{}})
	}
	differences := map[[2]int][]sampled{} // by row and metric, of each dataset
	for d, s := range sets {
		out.Datasets = append(out.Datasets, s.Dataset)
		if judged := s.judged(); len(judged.Rows) > 0 {
			out.Judged = append(out.Judged, judged)
		}
		base := slices.IndexFunc(s.rows, func(r setRow) bool { return r.name == baseline })
		compared := s.against(base, metrics, uint64(d))
		for i, row := range s.rows {
			known := quantities(row.results.options.Cutoffs, row.results.options.Answerer != nil)
			for m, metric := range metrics {
				v := row.results.value(row.plan, known[metric])
				if math.IsNaN(v) {
					continue
				}
				one := CombinedFigure{Dataset: s.Dataset, Value: v}
				if c, ok := compared[[2]int{i, m}]; ok {
					one.Against = c.comparison()
					differences[[2]int{i, m}] = append(differences[[2]int{i, m}], c)
				}
				all := out.Rows[i].Figures[metric]
				all.Datasets = append(all.Datasets, one)
				out.Rows[i].Figures[metric] = all
			}
		}
	}
	for i := range out.Rows {
		for m, metric := range metrics {
			all, ok := out.Rows[i].Figures[metric]
			if !ok {
				continue
			}
			for _, d := range all.Datasets {
				all.Value += d.Value / float64(len(all.Datasets))
			}
			if of := differences[[2]int{i, m}]; len(of) > 0 {
				all.Against = meanOfDatasets(of).comparison()
			}
			out.Rows[i].Figures[metric] = all
		}
	}
	return out
}

// sampled is a difference, with its value in each resample.
type sampled struct {
	observed  float64
	resamples []float64
}

func (s sampled) comparison() *Comparison {
	c := Comparison{Difference: s.observed}
	c.Interval, c.P = compare(s.resamples, make([]float64, len(s.resamples)), s.observed)
	return &c
}

// meanOfDatasets returns the mean of the differences of several datasets.
func meanOfDatasets(of []sampled) sampled {
	out := sampled{resamples: make([]float64, resamples)}
	for _, s := range of {
		out.observed += s.observed / float64(len(of))
		for r, v := range s.resamples {
			out.resamples[r] += v / float64(len(of))
		}
	}
	return out
}

// pairing is a row and a metric, with the indices of the resampled columns: for each part the
// column of the row, that of the baseline, and that of which questions count.
type pairing struct {
	at       [2]int // row and metric
	quantity quantity
	columns  [][3]int
	observed float64
}

// anyQuestion replaces the third column of a part in which every question counts.
const anyQuestion = -1

// against compares every row with the baseline, on the questions for which both have a value.
func (s *Set) against(base int, metrics []string, stream uint64) map[[2]int]sampled {
	var t columnTable
	var pairs []pairing
	for i, row := range s.rows {
		if i == base {
			continue
		}
		known := quantities(row.results.options.Cutoffs, row.results.options.Answerer != nil)
		for m, metric := range metrics {
			if p, ok := t.pair(row, s.rows[base], known[metric]); ok {
				p.at = [2]int{i, m}
				pairs = append(pairs, p)
			}
		}
	}
	out := map[[2]int]sampled{}
	if len(pairs) == 0 {
		return out
	}
	means := resampledFrom(t.rows(), bootstrapSeed+stream)
	for _, p := range pairs {
		one := sampled{observed: p.observed, resamples: make([]float64, resamples)}
		of, than := make([]float64, len(p.columns)), make([]float64, len(p.columns))
		for r := range resamples {
			for i, c := range p.columns {
				n := 1.0
				if c[2] != anyQuestion {
					n = means[c[2]][r]
				}
				of[i], than[i] = means[c[0]][r]/n, means[c[1]][r]/n
			}
			one.resamples[r] = finite(p.quantity.of(of) - p.quantity.of(than))
		}
		if redraw(one.resamples) {
			out[p.at] = one
		}
	}
	return out
}

// redraw replaces each resample that has no value, because none of its questions has one, by
// another resample. It returns false if no resample has a value.
func redraw(values []float64) bool {
	defined := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	if len(defined) == 0 {
		return false
	}
	for r, v := range values {
		if math.IsNaN(v) {
			values[r] = defined[r%len(defined)]
		}
	}
	return true
}

// columnTable has the columns that are resampled together, without duplicates.
type columnTable struct {
	columns [][]float64
	index   map[string]int
}

// pair adds the columns for comparing two rows.
func (t *columnTable) pair(row, base setRow, q quantity) (pairing, bool) {
	if len(q.parts) == 0 {
		return pairing{}, false
	}
	of, than := make([][]float64, len(q.parts)), make([][]float64, len(q.parts))
	for i, part := range q.parts {
		of[i], than[i] = row.results.column(row.plan, part), base.results.column(base.plan, part)
		if of[i] == nil || than[i] == nil {
			return pairing{}, false
		}
	}
	masks := q.masks(of, than)
	out := pairing{quantity: q, observed: finite(q.of(means(of, masks)) - q.of(means(than, masks)))}
	if math.IsNaN(out.observed) {
		return pairing{}, false
	}
	for i, part := range q.parts {
		mask := fmt.Sprint(masks[i])
		c := [3]int{t.column(row, part, of[i], mask, masks[i]), t.column(base, part, than[i], mask, masks[i]), anyQuestion}
		if slices.Contains(masks[i], false) {
			ones := make([]float64, len(masks[i]))
			for n := range ones {
				ones[n] = 1
			}
			c[2] = t.add("counts "+mask, ones, masks[i])
		}
		out.columns = append(out.columns, c)
	}
	return out, true
}

func (t *columnTable) column(row setRow, part string, values []float64, mask string, counts []bool) int {
	return t.add(fmt.Sprintf("%p %d %s %s", row.results, row.plan, part, mask), values, counts)
}

// add adds a column, with 0 for questions that do not count.
func (t *columnTable) add(key string, values []float64, counts []bool) int {
	if at, ok := t.index[key]; ok {
		return at
	}
	if t.index == nil {
		t.index = map[string]int{}
	}
	masked := make([]float64, len(values))
	for n, v := range values {
		if counts[n] {
			masked[n] = v
		}
	}
	t.index[key] = len(t.columns)
	t.columns = append(t.columns, masked)
	return len(t.columns) - 1
}

func (t *columnTable) rows() [][]float64 {
	out := make([][]float64, len(t.columns[0]))
	for q := range out {
		out[q] = make([]float64, len(t.columns))
		for c, column := range t.columns {
			out[q][c] = column[q]
		}
	}
	return out
}
