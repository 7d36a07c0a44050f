package choose

import "math"

// RecheckAlpha returns the chance of error of the n-th repetition of a choice, counted from 1:
// Alpha * 6/π² / n². The sum over all n is Alpha, which bounds the chance of any error however
// often a choice is repeated, even if the repetitions depend on each other.
func RecheckAlpha(n int) float64 {
	if n < 1 {
		n = 1
	}
	return Alpha * 6 / (math.Pi * math.Pi * float64(n) * float64(n))
}
