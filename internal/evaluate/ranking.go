package evaluate

// This file scores a ranking of documents against the relevant ones.

import (
	"math"
	"slices"
)

// ranking is a ranking of documents, in the form that the measures need.
type ranking struct {
	grades []float64 // of the ranked documents, best first; 0: not relevant
	ideal  []float64 // the grades of all relevant documents, descending
}

// newRanking grades the ranked documents, of which it ignores repetitions.
func newRanking(documents []string, relevant map[string]int) ranking {
	r := ranking{grades: make([]float64, 0, len(documents)), ideal: make([]float64, 0, len(relevant))}
	seen := make(map[string]bool, len(documents))
	for _, d := range documents {
		if !seen[d] {
			seen[d] = true
			r.grades = append(r.grades, float64(relevant[d]))
		}
	}
	for _, grade := range relevant {
		r.ideal = append(r.ideal, float64(grade))
	}
	slices.SortFunc(r.ideal, func(a, b float64) int { return int(b - a) })
	return r
}

func first(grades []float64, k int) []float64 { return grades[:min(k, len(grades))] }

// dcg is the discounted cumulative gain with linear gains (Järvelin and
// Kekäläinen 2002, in the form of trec_eval and BEIR).
func dcg(grades []float64) float64 {
	sum := 0.0
	for i, g := range grades {
		sum += g / math.Log2(float64(i)+2)
	}
	return sum
}

// ndcg returns the gain of the first k documents over that of an ideal ranking.
func (r ranking) ndcg(k int) float64 {
	best := dcg(first(r.ideal, k))
	if best == 0 {
		return 0
	}
	return dcg(first(r.grades, k)) / best
}

// firstRelevant returns the rank, from 1, of the first relevant document; 0: none.
func (r ranking) firstRelevant() int {
	return 1 + slices.IndexFunc(r.grades, func(g float64) bool { return g > 0 })
}

// judged reports whether a document is known to be relevant.
func (r ranking) judged() bool { return len(r.ideal) > 0 }

// hit returns 1 if a relevant document is among the first k, else 0.
func (r ranking) hit(k int) float64 {
	if rank := r.firstRelevant(); rank > 0 && rank <= k {
		return 1
	}
	return 0
}

// mrr returns one over the rank of the first relevant document, or 0 if it is beyond k.
func (r ranking) mrr(k int) float64 {
	if rank := r.firstRelevant(); rank > 0 && rank <= k {
		return 1 / float64(rank)
	}
	return 0
}

func (r ranking) relevantIn(k int) float64 {
	n := 0.0
	for _, g := range first(r.grades, k) {
		if g > 0 {
			n++
		}
	}
	return n
}

// recall returns the share of the relevant documents that are among the first k.
func (r ranking) recall(k int) float64 {
	if len(r.ideal) == 0 {
		return 0
	}
	return r.relevantIn(k) / float64(len(r.ideal))
}

// precision returns the share of the first k ranks with a relevant document. Ranks that the plan
// left empty have none.
func (r ranking) precision(k int) float64 { return r.relevantIn(k) / float64(k) }
