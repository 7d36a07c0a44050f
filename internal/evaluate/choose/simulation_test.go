package choose

// Simulations of how often the rule is wrongly sure of a plan. The truth is known, so errors can be
// counted. Each family of figures is one for which a bound can be wrong: rare losses, losses and
// gains that nearly cancel out, partial losses, and many plans at the margin at once.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// drawn draws a plan's quality on one question, given that of the best plan.
type drawn func(random *rand.Rand, best float64) float64

// rareLoss loses questions that the best plan answers, with the probability that gives the mean
// loss.
func rareLoss(loss, level float64) drawn {
	return func(random *rand.Rand, best float64) float64 {
		if best == 1 && random.Float64() < loss/level {
			return 0
		}
		return best
	}
}

// mixed wins and loses questions at random, with a mean loss.
func mixed(loss, level, wins float64) drawn {
	return func(random *rand.Rand, best float64) float64 {
		x := random.Float64()
		switch {
		case best == 0 && x < wins/(1-level):
			return 1
		case best == 1 && x < (loss+wins)/level:
			return 0
		}
		return best
	}
}

// inParts loses a little on many questions.
func inParts(loss, level float64) drawn {
	return func(random *rand.Rand, best float64) float64 {
		if best == 1 {
			return 1 - 2*loss/level*random.Float64()
		}
		return best
	}
}

const level = 0.7 // of the best plan

// simulate measures a best plan, which is the most expensive, and others that get cheaper in order.
// It drops plans on the way, ends when one is left, and returns them all.
func simulate(random *rand.Rand, questions int, others []drawn, o Options) []Measured {
	plans := make([]Measured, len(others)+1)
	for p := range plans {
		plans[p].Plan = fmt.Sprintf("plan %d", p)
	}
	for q, left := 0, len(plans); q < questions && left > 1; q++ {
		best := 0.0
		if random.Float64() < level {
			best = 1
		}
		for p := range plans {
			if plans[p].Dropped {
				continue
			}
			quality := best
			if p > 0 {
				quality = others[p-1](random, best)
			}
			plans[p].Quality = append(plans[p].Quality, quality)
			plans[p].Tokens = append(plans[p].Tokens, float64(1000*(len(plans)-p)))
			plans[p].Millis = append(plans[p].Millis, 1)
		}
		if Look(q + 1) {
			for _, name := range Drop(plans, o) {
				plans[slices.IndexFunc(plans, func(m Measured) bool { return m.Plan == name })].Dropped = true
				left--
			}
		}
	}
	return plans
}

// surePlan returns the plan of which the rule is sure; empty: none. It is Choose without intervals,
// which take a thousand times as long.
func surePlan(plans []Measured, o Options) (plan string, better bool) {
	r := newRound(plans, o.complete())
	sure := r.sure()
	if len(sure) == 0 {
		return "", false
	}
	p := r.cheapest(sure)
	current := slices.IndexFunc(plans, func(m Measured) bool { return m.Plan == o.Current })
	return plans[p].Plan, current >= 0 && r.better(p, current)
}

// expectAtMost fails if the share of wrong simulations is more than two standard deviations above
// Alpha.
func expectAtMost(t *testing.T, name string, wrong, simulations int) {
	t.Helper()
	share, n := float64(wrong)/float64(simulations), float64(simulations)
	t.Logf("%s: wrong in %.1f %% of %d simulations", name, 100*share, simulations)
	if share > Alpha+2*math.Sqrt(Alpha*(1-Alpha)/n) {
		t.Errorf("%s: wrong in %.1f %% of %d simulations", name, 100*share, simulations)
	}
}

func TestSurePlansAreWrongInOneOfTwentySimulationsAtMost(t *testing.T) {
	const simulations = 400
	families := map[string][]drawn{
		"rare losses":        {rareLoss(Margin, level)},
		"losses and gains":   {mixed(Margin, level, 0.02)},
		"in parts":           {inParts(Margin, level)},
		"twice the margin":   {rareLoss(2*Margin, level)},
		"far below":          {mixed(0.3, level, 0.05), rareLoss(0.5, level)},
		"nine at the border": {},
		"nine mixed":         {},
	}
	for i := range 9 {
		families["nine at the border"] = append(families["nine at the border"], rareLoss(Margin, level))
		families["nine mixed"] = append(families["nine mixed"], mixed(Margin*(1+float64(i)/4), level, 0.01))
	}
	for name, others := range families {
		for _, questions := range []int{32, 60, 330, 800} {
			random := rand.New(rand.NewPCG(uint64(questions), 7))
			wrong := 0
			for range simulations {
				// Only the best plan, the first one, is within a point of the best.
				if plan, _ := surePlan(simulate(random, questions, others, Options{}), Options{}); plan != "" && plan != "plan 0" {
					wrong++
				}
			}
			expectAtMost(t, fmt.Sprintf("%s, %d questions", name, questions), wrong, simulations)
		}
	}
}

// TestEqualPlansAreTold: with enough questions the rule finds the cheapest of equal plans, although
// a clearly worse plan is even cheaper.
func TestEqualPlansAreTold(t *testing.T) {
	same := func(_ *rand.Rand, best float64) float64 { return best }
	random := rand.New(rand.NewPCG(5, 6))
	found := 0
	for range 100 {
		if plan, _ := surePlan(simulate(random, 1000, []drawn{same, same, rareLoss(0.3, level)}, Options{}), Options{}); plan == "plan 2" {
			found++
		}
	}
	if found < 97 {
		t.Errorf("the cheapest of equal plans was found %d times of 100", found)
	}
}

// TestWithoutWhatIsAddedItWouldBeWrong shows why the bound is not the bootstrap's. Of plans that
// lose one question in a hundred, a third agree on all of a hundred questions, and so does every
// resample of these.
func TestWithoutWhatIsAddedItWouldBeWrong(t *testing.T) {
	const simulations = 400
	random := rand.New(rand.NewPCG(8, 9))
	bare, bound := 0, 0
	for range simulations {
		plans := simulate(random, 100, []drawn{rareLoss(Margin, level)}, Options{})
		losses := newRound(plans, Options{}.complete()).losses(1, 0)
		if mean(losses)+quantile(Alpha)*deviation(losses)/10 < Margin {
			bare++
		}
		if upperBound(losses, Alpha) < Margin {
			bound++
		}
	}
	if bare < simulations/4 {
		t.Errorf("the bare bound is wrong %d times of %d: there is no need to add anything", bare, simulations)
	}
	expectAtMost(t, "100 questions", bound, simulations)
}

// TestRepeatedRechecks: a collection is measured repeatedly, with other questions, under plans that
// are as good as its own at the same cost, or cheaper with a loss of the margin. However often, one
// of these is promoted in at most one of twenty simulations.
func TestRepeatedRechecks(t *testing.T) {
	sum := 0.0
	for n := range 100_000 {
		sum += RecheckAlpha(n + 1)
	}
	if sum > Alpha || sum < 0.99*Alpha {
		t.Errorf("the parts of the chance of error add up to %v", sum)
	}
	for name, x := range map[string]struct {
		current string
		others  []drawn
	}{
		"as good and dearer":             {"plan 1", []drawn{mixed(0, level, 0.003)}},
		"cheaper and worse by the point": {"plan 0", []drawn{mixed(Margin, level, 0.02)}},
	} {
		random := rand.New(rand.NewPCG(11, 12))
		wrong := 0
		const simulations = 200
		for range simulations {
			for n := 1; n <= 12; n++ {
				o := Options{Alpha: RecheckAlpha(n), Current: x.current}
				if _, better := surePlan(simulate(random, 800, x.others, o), o); better {
					wrong++
					break
				}
			}
		}
		expectAtMost(t, name, wrong, simulations)
	}
}
