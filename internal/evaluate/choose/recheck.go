package choose

import "math"

// RecheckAlpha is the chance of error of the n-th repetition of a choice, from 1. All
// of them together stay below Alpha however long a choice is repeated, and whatever one
// has to do with another: the parts are 6/π² 1/n² of it, whose sum is 1.
func RecheckAlpha(n int) float64 {
	if n < 1 {
		n = 1
	}
	return Alpha * 6 / (math.Pi * math.Pi * float64(n) * float64(n))
}
