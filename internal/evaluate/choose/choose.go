// Package choose selects one of several plans for searching a collection, from the figures of each
// question under each plan. It only computes: it depends neither on the source of the figures nor
// on the use of the choice.
//
// The rule: the cheapest plan whose quality is surely less than the margin below that of every
// other plan. docs/choosing-plans.md explains what "surely" means (bound.go), and what is proposed
// if no plan is sure.
package choose

import (
	"math"
	"slices"

	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/schema"
)

// Constants of the rule.
const (
	// Margin is how much quality a cheaper plan may lose: one point of 100.
	Margin = 0.01
	// Alpha bounds the probability that a plan which loses more is called sure.
	Alpha = 0.05
	// droppingShare is the part of Alpha that is spent on dropping plans before all questions are
	// asked.
	droppingShare = 0.2
	// costTolerance is the ratio up to which costs count as equal, so that time decides.
	costTolerance = 1.05
	// minQuestions is the least number of questions for a sure choice, unless all plans but one
	// were dropped, which is only done when sure.
	minQuestions = 50
)

// Measured has the figures of one plan by question. All plans that are not Dropped have values for
// the same questions, in the same order.
type Measured struct {
	Plan    string
	Quality []float64 // in [0, 1]
	Tokens  []float64 // of the context, or of the answer
	Millis  []float64
	// Dollars are the costs of the questions; nil if unknown.
	Dollars []float64
	// Dropped plans were clearly worse on the first questions, and have values only for these.
	Dropped bool
}

// Options are the options of a choice. Zero values mean the rule's constants.
type Options struct {
	Margin float64
	Alpha  float64
	// Current is the collection's plan; empty: none.
	Current string
}

func (o Options) complete() Options {
	if o.Margin <= 0 {
		o.Margin = Margin
	}
	if o.Alpha <= 0 {
		o.Alpha = Alpha
	}
	return o
}

// Choose applies the rule. It returns a schema.FieldError if the figures are inconsistent or there
// are no plans.
func Choose(plans []Measured, o Options) (schema.PlanVerdicts, error) {
	o = o.complete()
	if err := check(plans); err != nil {
		return schema.PlanVerdicts{}, err
	}
	r := newRound(plans, o)
	out := schema.PlanVerdicts{Questions: r.questions, Margin: o.Margin, Best: r.plans[r.best].Plan}
	sure := r.sure()
	var near []int
	for p := range r.plans {
		if !r.plans[p].Dropped && r.loss(p) <= o.Margin+1e-12 {
			near = append(near, p)
		}
	}
	var chosen int
	if len(sure) > 0 {
		chosen, out.Sure = r.cheapest(sure), true
	} else {
		chosen = r.cheapest(near)
		out.Needed = r.needed(chosen)
	}
	out.Plan = r.plans[chosen].Plan
	if current := slices.IndexFunc(plans, func(m Measured) bool { return m.Plan == o.Current }); current >= 0 && out.Sure {
		out.Better = r.better(chosen, current)
	}
	out.Plans = r.verdicts(chosen, sure, near)
	return out, nil
}

func check(plans []Measured) error {
	if len(plans) == 0 {
		return schema.Invalid("plans", "there is none to choose from")
	}
	n, seen := -1, map[string]bool{}
	for _, m := range plans {
		if seen[m.Plan] {
			return schema.Invalid("plans", "%q occurs twice", m.Plan)
		}
		seen[m.Plan] = true
		if len(m.Tokens) != len(m.Quality) || len(m.Millis) != len(m.Quality) || m.Dollars != nil && len(m.Dollars) != len(m.Quality) {
			return schema.Invalid("plans", "%q has %d qualities, %d counts of tokens and %d times", m.Plan, len(m.Quality), len(m.Tokens), len(m.Millis))
		}
		for _, q := range m.Quality {
			if !(q >= 0 && q <= 1) {
				return schema.Invalid("plans", "%q has quality %v; it is from 0 to 1", m.Plan, q)
			}
		}
		switch {
		case m.Dropped:
		case n < 0:
			n = len(m.Quality)
		case n != len(m.Quality):
			return schema.Invalid("plans", "%q has figures of %d questions, another one of %d", m.Plan, len(m.Quality), n)
		}
	}
	if n <= 0 {
		return schema.Invalid("questions", "no question was asked under every plan")
	}
	return nil
}

// round is the state of a choice.
type round struct {
	Options
	plans     []Measured
	questions int
	best      int // the plan with the highest mean of those left; of equals the cheapest
	left      int // number of plans that were not dropped
	priced    bool
	bounds    map[int]float64
}

func newRound(plans []Measured, o Options) *round {
	r := &round{Options: o, plans: plans, best: -1, priced: true, bounds: map[int]float64{}}
	for _, m := range plans {
		if !m.Dropped {
			r.left, r.questions = r.left+1, len(m.Quality)
			r.priced = r.priced && m.Dollars != nil
		}
	}
	for p, m := range plans {
		if m.Dropped {
			continue
		}
		if r.best < 0 {
			r.best = p
			continue
		}
		difference := mean(m.Quality) - mean(plans[r.best].Quality)
		if difference > 1e-12 || difference > -1e-12 && r.cheapest([]int{r.best, p}) == p {
			r.best = p
		}
	}
	return r
}

// losses returns what p loses against another plan, by question.
func (r *round) losses(p, against int) []float64 {
	a, b := r.plans[against].Quality, r.plans[p].Quality
	out := make([]float64, min(len(a), len(b))) // a dropped plan has only the first questions
	for i := range out {
		out[i] = a[i] - b[i]
	}
	return out
}

// loss returns the mean loss against the best plan.
func (r *round) loss(p int) float64 { return mean(r.losses(p, r.best)) }

// level returns the probability of error of one bound. All plans but the best one could be called
// sure by mistake, so they share it.
func (r *round) level() float64 {
	return r.Alpha * (1 - droppingShare) / float64(max(r.left-1, 1))
}

// bound returns the most that p loses against any plan. The truly best plan is unknown: a loss that
// is small against every plan is small against that one.
func (r *round) bound(p int) float64 {
	if have, ok := r.bounds[p]; ok {
		return have
	}
	out := -1.0
	for other := range r.plans {
		if other != p && !r.plans[other].Dropped {
			out = max(out, upperBound(r.losses(p, other), r.level()))
		}
	}
	if r.left == 1 {
		out = 0 // it is the best
	}
	r.bounds[p] = out
	return out
}

// sure returns the plans whose loss is surely below the margin.
func (r *round) sure() (out []int) {
	alone := r.left == 1 && len(r.plans) > 1 // all others were dropped
	for p := range r.plans {
		if !r.plans[p].Dropped && (r.questions >= minQuestions || alone) && r.bound(p) < r.Margin {
			out = append(out, p)
		}
	}
	return out
}

// cost returns the mean cost of a question: in dollars if they are known for all plans, else in
// tokens.
func (r *round) cost(p int) float64 {
	if r.priced {
		return mean(r.plans[p].Dollars)
	}
	return mean(r.plans[p].Tokens)
}

// cheapest returns the cheapest of some plans. Of plans with about the same cost it returns the
// fastest, and of equally fast ones the first by name.
func (r *round) cheapest(of []int) int {
	minCost := math.Inf(1)
	for _, p := range of {
		minCost = min(minCost, r.cost(p))
	}
	out := -1
	for _, p := range of {
		if r.cost(p) > minCost*costTolerance {
			continue
		}
		if out < 0 {
			out = p
			continue
		}
		a, b := mean(r.plans[p].Millis), mean(r.plans[out].Millis)
		if a < b || a == b && r.plans[p].Plan < r.plans[out].Plan {
			out = p
		}
	}
	return out
}

// better reports whether a sure plan is better than the current one: it costs less, or gains more
// than chance.
func (r *round) better(p, current int) bool {
	if p == current {
		return false
	}
	if r.cost(p)*costTolerance < r.cost(current) {
		return true
	}
	return lowerBound(r.losses(current, p), r.level()) > 0
}

// needed estimates how many questions it takes until p is sure, if further questions are like those
// so far; 0: no number is enough, because the plan loses more than the margin.
func (r *round) needed(p int) int {
	out := 0
	for other := range r.plans {
		if other == p || r.plans[other].Dropped {
			continue
		}
		losses := r.losses(p, other)
		n := questionsFor(mean(losses), deviation(losses), r.Margin, r.level())
		if n == 0 {
			return 0
		}
		out = max(out, n)
	}
	return max(out, minQuestions)
}

// verdicts returns the verdict on each plan, best first.
func (r *round) verdicts(chosen int, sure, near []int) []schema.PlanVerdict {
	out := make([]schema.PlanVerdict, 0, len(r.plans))
	for p, m := range r.plans {
		v := schema.PlanVerdict{Plan: m.Plan, Questions: len(m.Quality), Quality: mean(m.Quality), Tokens: mean(m.Tokens), Millis: mean(m.Millis),
			Current: m.Plan == r.Current && r.Current != "", Verdict: schema.PlanWorse}
		if m.Dollars != nil {
			dollars := mean(m.Dollars)
			v.Dollars = &dollars
		}
		if len(m.Quality) > 0 {
			losses := r.losses(p, r.best)
			v.Loss = mean(losses)
			v.Interval, v.LossInterval = evaluate.MeanInterval(m.Quality), evaluate.MeanInterval(losses)
		}
		if !m.Dropped && r.left > 1 {
			bound := r.bound(p)
			v.LossBound = &bound
		}
		switch {
		case p == chosen:
			v.Verdict = schema.PlanChosen
		case m.Dropped:
			v.Verdict = schema.PlanDropped
		case slices.Contains(sure, p):
			v.Verdict = schema.PlanAsGood
		case p == r.best:
			v.Verdict = schema.PlanBest
		case slices.Contains(near, p):
			v.Verdict = schema.PlanNear
		}
		out = append(out, v)
	}
	slices.SortStableFunc(out, func(a, b schema.PlanVerdict) int {
		switch {
		case a.Quality != b.Quality:
			return int(math.Copysign(1, b.Quality-a.Quality))
		case a.Tokens != b.Tokens:
			return int(math.Copysign(1, a.Tokens-b.Tokens))
		}
		return 0
	})
	return out
}

func mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
