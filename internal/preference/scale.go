package preference

// This file standardizes features, so that steps of the descent have similar effects on all, and
// converts heads back to the original features.

import "math"

// scaled has the mean and the standard deviation of each number of a Vector.
type scaled struct{ mean, deviation []float64 }

func scaling(samples []Sample) scaled {
	n, width := float64(len(samples)), len(samples[0].X)
	s := scaled{make([]float64, width), make([]float64, width)}
	for _, one := range samples {
		for i, x := range one.X {
			s.mean[i] += x / n
		}
	}
	for _, one := range samples {
		for i, x := range one.X {
			s.deviation[i] += (x - s.mean[i]) * (x - s.mean[i]) / n
		}
	}
	for i, v := range s.deviation {
		if s.deviation[i] = math.Sqrt(v); s.deviation[i] < 1e-6 {
			s.deviation[i] = math.Inf(1) // it is constant
		}
	}
	return s
}

func (s scaled) all(samples []Sample) []Sample {
	out := make([]Sample, len(samples))
	for n, one := range samples {
		x := make([]float64, len(one.X))
		for i, v := range one.X {
			x[i] = (v - s.mean[i]) / s.deviation[i]
		}
		one.X = x
		out[n] = one
	}
	return out
}

// own returns the heads that reproduce the pair model's logits, the last two numbers of a Vector.
func (s scaled) own() heads {
	width := len(s.mean)
	out := heads{make([]float64, width+1), make([]float64, width+1)}
	for label := range out {
		i := width - Appended + label
		out[label][width] = s.mean[i]
		if !math.IsInf(s.deviation[i], 1) {
			out[label][i] = s.deviation[i]
		}
	}
	return out
}

// head converts a row of heads to a Head for features that are not standardized.
func (s scaled) head(row []float64) Head {
	h := Head{Weights: make([]float64, len(s.mean)), Bias: row[len(s.mean)]}
	for i := range s.mean {
		h.Weights[i] = row[i] / s.deviation[i]
		h.Bias -= h.Weights[i] * s.mean[i]
	}
	return h
}
