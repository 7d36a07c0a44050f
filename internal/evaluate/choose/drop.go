package choose

// This file leaves plans out that are clearly worse after the first questions, so that
// the others get the time. Looking often must not make it easier to be wrong: each look
// has a part of the chance of error, whatever it finds.

import "math"

// firstLook is after how many questions plans are looked at for the first time; each
// later look is after twice as many.
const firstLook = 32

// mostLooks are how many looks share the chance of error: up to 4,096 questions.
const mostLooks = 8

// Look reports whether plans are looked at after so many questions.
func Look(questions int) bool {
	for n, k := firstLook, 0; k < mostLooks; n, k = 2*n, k+1 {
		if n == questions {
			return true
		}
	}
	return false
}

// Drop returns the names of plans that need not be asked any more: those that lose
// more than the margin against another one, and those that cost more than another one
// and are worse, each for sure. One plan is always left.
func Drop(plans []Measured, o Options) []string {
	o = o.complete()
	if check(plans) != nil {
		return nil
	}
	r := newRound(plans, o)
	// A plan is compared with every other one at every look.
	alpha := o.Alpha * droppingShare / mostLooks / float64(max(len(plans)-1, 1))
	var out []string
	for p := range plans {
		if plans[p].Dropped {
			continue
		}
		least := math.Inf(-1)
		for other := range plans {
			if other == p || plans[other].Dropped {
				continue
			}
			above := 0.0
			bound := lowerBound(r.losses(p, other), alpha)
			if r.cost(p) <= r.cost(other)*alike { // it might be chosen for its cost
				above = o.Margin
			}
			least = max(least, bound-above)
		}
		if least > 0 {
			out = append(out, plans[p].Plan)
		}
	}
	return out
}
