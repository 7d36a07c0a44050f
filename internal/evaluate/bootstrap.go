package evaluate

// This file tests whether a difference between plans is more than chance in the choice of
// questions, with the paired bootstrap over questions (Efron and Tibshirani 1993; Sakai 2006 for
// rankings).

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	resamples     = 10_000
	bootstrapSeed = 20_250_101 // fixed, so that the same results give the same figures
)

// Significant is the p below which a difference counts as significant.
const Significant = 0.05

// resampled returns, for each column, the means over the resamples of rows. A resample draws the
// same rows for all columns, which pairs them.
func resampled(rows [][]float64) [][]float64 { return resampledFrom(rows, bootstrapSeed) }

// resampledFrom is resampled with a random stream. Different datasets use different streams, so
// that their draws are independent.
func resampledFrom(rows [][]float64, stream uint64) [][]float64 {
	columns := len(rows[0])
	out := make([][]float64, columns)
	for c := range out {
		out[c] = make([]float64, resamples)
	}
	flat := slices.Concat(rows...) // contiguous in memory
	random := rand.New(rand.NewPCG(bootstrapSeed, stream))
	sums := make([]float64, columns)
	for r := range resamples {
		clear(sums)
		for range rows {
			at := random.IntN(len(rows)) * columns
			for c, v := range flat[at : at+columns] {
				sums[c] += v
			}
		}
		for c, sum := range sums {
			out[c][r] = sum / float64(len(rows))
		}
	}
	return out
}

// compare compares two columns by the means of their resamples. p is the share of resamples whose
// difference is as far from the observed one as that is from zero. It counts the observed one
// itself, so that it is never zero.
func compare(a, b []float64, observed float64) (Interval, float64) {
	differences := make([]float64, len(a))
	extreme := 0
	for r := range a {
		differences[r] = a[r] - b[r]
		if math.Abs(differences[r]-observed) >= math.Abs(observed)-1e-12 {
			extreme++
		}
	}
	return interval(differences), float64(extreme+1) / float64(len(a)+1)
}

// MeanInterval returns the 95 % bootstrap interval of the mean of values.
func MeanInterval(values []float64) Interval {
	if len(values) == 0 {
		return Interval{}
	}
	rows := make([][]float64, len(values))
	for i := range values {
		rows[i] = values[i : i+1]
	}
	return interval(resampled(rows)[0])
}

// interval returns the middle 95 % of the values.
func interval(values []float64) Interval {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return Interval{Low: percentile(sorted, 2.5), High: percentile(sorted, 97.5)}
}
