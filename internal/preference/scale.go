package preference

// This file brings features to one scale, on which the descent's steps are alike for all, and heads
// back to the features' own.

import "math"

// scaled has the mean and the deviation of each number of a Vector.
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
			s.deviation[i] = math.Inf(1) // it says nothing
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

// own are the heads that give the pair model's logits: each reads its own, the last two of a
// Vector.
func (s scaled) own() heads {
	width := len(s.mean)
	out := heads{make([]float64, width+1), make([]float64, width+1)}
	for label := range out {
		i := width - Beside + label
		out[label][width] = s.mean[i]
		if !math.IsInf(s.deviation[i], 1) {
			out[label][i] = s.deviation[i]
		}
	}
	return out
}

// head is a row of heads for features as they are.
func (s scaled) head(row []float64) Head {
	h := Head{Weights: make([]float64, len(s.mean)), Bias: row[len(s.mean)]}
	for i := range s.mean {
		h.Weights[i] = row[i] / s.deviation[i]
		h.Bias -= h.Weights[i] * s.mean[i]
	}
	return h
}
