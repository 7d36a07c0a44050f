package stage

// This file combines the scores of a hybrid's components.

import (
	"cmp"
	"math"
	"slices"
)

// combine scores every candidate by each component and by the weighted sum of all components.
func (h hybrid) combine(t *Task, p *pool) []item {
	items := make([]item, 0, len(p.items))
	for _, c := range p.items {
		items = append(items, c)
	}
	slices.SortFunc(items, func(a, b item) int { return compareKeys(a.key, b.key) })
	total := make([]float64, len(items))
	for i, c := range h.of {
		// A candidate gets the score of its best smaller unit.
		scores := p.scores[i]
		if larger(h.unit, c.size()) {
			scores = map[key]hit{}
			for k, x := range p.scores[i] {
				up := t.enclosing(k.ref, h.unit)
				if have, ok := scores[up]; !ok || x.score > have.score {
					scores[up] = x
				}
			}
		}
		units, values := make([]key, len(items)), make([]float64, len(items))
		for j, it := range items {
			units[j] = it.key
			if larger(c.size(), h.unit) {
				units[j] = t.enclosing(it.ref, c.size())
			}
			values[j] = scores[units[j]].score
			items[j] = it.scored(c.scorer(), values[j])
		}
		var shares []float64
		if h.method == reciprocal {
			shares = reciprocalRanks(units, values, h.rankConstant)
		} else {
			shares = normalised(values, h.normalise)
			if full := p.full[i]; full > 0 && len(values) > 0 && h.normalise != "none" {
				for j, best := 0, slices.Max(values); best < full && j < len(shares); j++ {
					shares[j] *= best / full
				}
			}
		}
		for j := range items {
			total[j] += c.share(t) * shares[j]
		}
	}
	for j := range items {
		items[j] = items[j].scored("hybrid", total[j])
	}
	return items
}

// reciprocalRanks returns 1 / (constant + rank) of the units' scores. Candidates that share a unit
// have the same rank, and so do equal scores. A score of zero has no rank.
func reciprocalRanks(units []key, values []float64, constant int) []float64 {
	best := map[key]float64{}
	for i, u := range units {
		best[u] = values[i]
	}
	ordered := make([]float64, 0, len(best))
	for _, v := range best {
		ordered = append(ordered, v)
	}
	slices.SortFunc(ordered, func(a, b float64) int { return cmp.Compare(b, a) })
	rankOf := map[float64]int{}
	for i, v := range ordered {
		if _, ok := rankOf[v]; !ok {
			rankOf[v] = i + 1
		}
	}
	out := make([]float64, len(values))
	for i, v := range values {
		if v > 0 {
			out[i] = 1 / float64(constant+rankOf[v])
		}
	}
	return out
}

// normalised scales scores: by the highest (max), to the range 0 to 1 (minmax), to mean 0 and
// deviation 1 (standard), or not at all (none).
func normalised(values []float64, how string) []float64 {
	out := slices.Clone(values)
	switch {
	case len(values) == 0 || how == "none":
		return out
	case how == "standard":
		return standardised(out)
	}
	low, high := slices.Min(values), slices.Max(values)
	if how == "max" {
		low = 0
	}
	for i := range out {
		if high > low {
			out[i] = (out[i] - low) / (high - low)
		} else {
			out[i] = 0
		}
	}
	return out
}

// standardised scales values to mean 0 and deviation 1; equal values become 0.
func standardised(values []float64) []float64 {
	mean, variance := 0.0, 0.0
	for _, x := range values {
		mean += x / float64(len(values))
	}
	for _, x := range values {
		variance += (x - mean) * (x - mean) / float64(len(values))
	}
	for i, x := range values {
		values[i] = 0
		if variance > 0 {
			values[i] = (x - mean) / math.Sqrt(variance)
		}
	}
	return values
}
