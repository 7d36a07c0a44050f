package choose

// This file bounds the mean of differences in [-1, 1] from a sample.

import "math"

// upperBound returns an upper confidence bound of the mean of differences: the probability that the
// mean is above it is at most alpha.
//
// It is the usual normal bound with z²/2 differences of 1, the worst possible, added to the sample.
// The bootstrap only resamples what was observed: if two plans agree on 100 questions it is certain
// that they always do, although a loss on one question in 30 would go unobserved with a probability
// of 3 %. The addition keeps the bound of n questions without a difference above 3/n, the rule of
// three at alpha = 0.05 (Hanley and Lippman-Hand 1983), and becomes negligible as n grows, as in
// the interval of Agresti and Coull (1998) for a share.
func upperBound(differences []float64, alpha float64) float64 {
	return bounded(differences, 1, alpha)
}

// lowerBound returns the corresponding lower bound.
func lowerBound(differences []float64, alpha float64) float64 {
	return -bounded(differences, -1, alpha)
}

// bounded returns the upper bound of the differences, or with a sign of -1 that of their negatives.
func bounded(differences []float64, sign, alpha float64) float64 {
	n := float64(len(differences))
	if n == 0 {
		return 1
	}
	z := quantile(alpha)
	added := z * z / 2
	sum, squares := added, added
	for _, d := range differences {
		sum, squares = sum+sign*d, squares+d*d
	}
	m := sum / (n + added)
	variance := max(squares/(n+added)-m*m, 0)
	return min(m+z*math.Sqrt(variance/n), 1)
}

// questionsFor estimates how many differences of a mean and deviation have an upper bound below the
// margin; 0: no number has.
func questionsFor(m, deviation, margin, alpha float64) int {
	gap := margin - m
	if gap <= 0 {
		return 0
	}
	// Solve upperBound with its addition for n: (z²/2 + z sqrt(n variance + z²/2)) / n < gap.
	z := quantile(alpha)
	added := z * z / 2
	n := added / gap
	for range 100 { // it converges from below
		next := (added + z*math.Sqrt(n*deviation*deviation+added)) / gap
		if next-n < 0.5 {
			break
		}
		n = next
	}
	return int(math.Ceil(n))
}

// quantile returns the z that a standard normal variable exceeds with probability alpha.
func quantile(alpha float64) float64 { return math.Sqrt2 * math.Erfinv(1-2*alpha) }

func deviation(values []float64) float64 {
	m, squares := mean(values), 0.0
	for _, v := range values {
		squares += (v - m) * (v - m)
	}
	if len(values) == 0 {
		return 0
	}
	return math.Sqrt(squares / float64(len(values)))
}
