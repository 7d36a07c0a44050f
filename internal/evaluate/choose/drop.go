package choose

// This file drops plans that are clearly worse on the first questions, so that the others get the
// time. Checking often must not raise the chance of error: each check has a fixed part of it.

import "math"

// firstLook is the number of questions before the first check. Each later check comes after twice
// as many.
const firstLook = 32

// maxLooks is how many checks share the chance of error: up to 4,096 questions.
const maxLooks = 8

// Look reports whether Drop is to be called after that many questions.
func Look(questions int) bool {
	for n, k := firstLook, 0; k < maxLooks; n, k = 2*n, k+1 {
		if n == questions {
			return true
		}
	}
	return false
}

// Drop returns the names of plans that need not be asked anymore: those that surely lose more than
// the margin against another plan, and those that cost more than another plan and are surely worse.
// It leaves at least one plan.
func Drop(plans []Measured, o Options) []string {
	o = o.complete()
	if check(plans) != nil {
		return nil
	}
	r := newRound(plans, o)
	// Each check compares a plan with every other one.
	alpha := o.Alpha * droppingShare / maxLooks / float64(max(len(plans)-1, 1))
	var out []string
	for p := range plans {
		if plans[p].Dropped {
			continue
		}
		best := math.Inf(-1)
		for other := range plans {
			if other == p || plans[other].Dropped {
				continue
			}
			above := 0.0
			bound := lowerBound(r.losses(p, other), alpha)
			if r.cost(p) <= r.cost(other)*costTolerance { // it might be chosen for its cost
				above = o.Margin
			}
			best = max(best, bound-above)
		}
		if best > 0 {
			out = append(out, plans[p].Plan)
		}
	}
	return out
}
