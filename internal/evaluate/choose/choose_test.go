package choose

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// constantCost is a plan with the same cost for all questions.
func constantCost(name string, tokens, millis float64, quality ...float64) Measured {
	m := Measured{Plan: name, Quality: quality, Tokens: make([]float64, len(quality)), Millis: make([]float64, len(quality))}
	for i := range quality {
		m.Tokens[i], m.Millis[i] = tokens, millis
	}
	return m
}

// right returns "of" qualities: the first n are 1, the others 0.
func right(n, of int) []float64 {
	out := make([]float64, of)
	for i := range n {
		out[i] = 1
	}
	return out
}

func chosen(t *testing.T, o Options, plans ...Measured) schema.PlanVerdicts {
	t.Helper()
	out, err := Choose(plans, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func verdict(v schema.PlanVerdicts, plan string) schema.PlanVerdict {
	for _, p := range v.Plans {
		if p.Plan == plan {
			return p
		}
	}
	return schema.PlanVerdict{}
}

func TestTheCheapestOfEqualPlansIsChosen(t *testing.T) {
	same := right(700, 1000)
	out := chosen(t, Options{}, constantCost("dear", 4000, 50, same...), constantCost("cheap", 1000, 90, same...), constantCost("middle", 2000, 10, same...))
	if out.Plan != "cheap" || !out.Sure || out.Needed != 0 {
		t.Errorf("chose %+v", out)
	}
	for plan, want := range map[string]schema.PlanStanding{"cheap": schema.PlanChosen, "dear": schema.PlanAsGood, "middle": schema.PlanAsGood} {
		if got := verdict(out, plan); got.Verdict != want || got.Loss != 0 || *got.LossBound <= 0 || *got.LossBound >= Margin {
			t.Errorf("%s: %+v, want %s", plan, got, want)
		}
	}
}

func TestOfPlansThatCostAboutTheSameTheFastestIsChosen(t *testing.T) {
	same := right(700, 1000)
	out := chosen(t, Options{}, constantCost("slow", 1000, 90, same...), constantCost("fast", 1040, 20, same...), constantCost("dear", 1100, 1, same...))
	if out.Plan != "fast" {
		t.Errorf("chose %s", out.Plan)
	}
}

func TestDollarsGoBeforeTokensWhereAllAreKnown(t *testing.T) {
	same := right(700, 1000)
	a, b := constantCost("many tokens", 4000, 1, same...), constantCost("few tokens", 1000, 1, same...)
	a.Dollars, b.Dollars = slices.Repeat([]float64{0.001}, 1000), slices.Repeat([]float64{0.002}, 1000)
	if out := chosen(t, Options{}, a, b); out.Plan != "many tokens" {
		t.Errorf("chose %s", out.Plan)
	}
	b.Dollars = nil
	if out := chosen(t, Options{}, a, b); out.Plan != "few tokens" {
		t.Errorf("chose %s where dollars are known of one", out.Plan)
	}
}

func TestAPlanThatLosesMoreThanThePointIsNotChosen(t *testing.T) {
	out := chosen(t, Options{}, constantCost("best", 4000, 1, right(900, 1000)...), constantCost("cheap", 100, 1, right(850, 1000)...))
	if out.Plan != "best" || !out.Sure {
		t.Errorf("chose %+v", out)
	}
	if got := verdict(out, "cheap"); got.Verdict != schema.PlanWorse || math.Abs(got.Loss-0.05) > 1e-9 {
		t.Errorf("cheap: %+v", got)
	}
}

// TestFewQuestionsAreNotSure: the cheapest plan within a point by mean is proposed. The result says
// that no plan is sure, and how many questions it would take.
func TestFewQuestionsAreNotSure(t *testing.T) {
	out := chosen(t, Options{}, constantCost("best", 4000, 1, right(70, 100)...), constantCost("cheap", 1000, 1, right(70, 100)...), constantCost("bad", 10, 1, right(20, 100)...))
	if out.Plan != "cheap" || out.Sure || out.Better || out.Needed < 300 || out.Needed > 800 {
		t.Errorf("chose %+v", out)
	}
	more := out.Needed
	if at := chosen(t, Options{}, constantCost("best", 4000, 1, right(70, more)...), constantCost("cheap", 1000, 1, right(70, more)...), constantCost("bad", 10, 1, right(20, more)...)); !at.Sure {
		t.Errorf("%d questions were said to do: %+v", more, at)
	}
	if got := verdict(out, "bad"); got.Verdict != schema.PlanWorse {
		t.Errorf("bad: %+v", got)
	}
	few := chosen(t, Options{}, constantCost("only", 1, 1, right(10, 20)...))
	if few.Plan != "only" || few.Sure {
		t.Errorf("of one plan and 20 questions: %+v", few)
	}
}

func TestWhatDoesNotFitIsRefused(t *testing.T) {
	for name, x := range map[string]struct {
		plans []Measured
		word  string
	}{
		"none":        {nil, "none to choose from"},
		"twice":       {[]Measured{constantCost("a", 1, 1, 1), constantCost("a", 1, 1, 1)}, "twice"},
		"lengths":     {[]Measured{constantCost("a", 1, 1, 1), constantCost("b", 1, 1, 1, 0)}, "figures of 2 questions"},
		"no question": {[]Measured{constantCost("a", 1, 1)}, "no question"},
		"all dropped": {[]Measured{{Plan: "a", Quality: []float64{1}, Tokens: []float64{1}, Millis: []float64{1}, Dropped: true}}, "no question"},
		"quality":     {[]Measured{constantCost("a", 1, 1, math.NaN())}, "from 0 to 1"},
		"tokens":      {[]Measured{{Plan: "a", Quality: []float64{1}}}, "counts of tokens"},
	} {
		if _, err := Choose(x.plans, Options{}); !errors.Is(err, schema.ErrInvalid) || !strings.Contains(err.Error(), x.word) {
			t.Errorf("%s: %v, want %q", name, err, x.word)
		}
	}
}

// TestThePlanThatOutlivesTheOthersIsSure: plans that were dropped after the first questions were
// surely worse, so no more questions are needed.
func TestThePlanThatOutlivesTheOthersIsSure(t *testing.T) {
	plans := []Measured{constantCost("good", 900, 1, right(31, 32)...), constantCost("bad", 1000, 1, right(4, 32)...)}
	if out := chosen(t, Options{Current: "bad"}, plans...); out.Sure || out.Better {
		t.Errorf("of 32 questions it is sure: %+v", out)
	}
	if got := Drop(plans, Options{}); !slices.Equal(got, []string{"bad"}) {
		t.Fatalf("dropped %v", got)
	}
	plans[1].Dropped = true
	if out := chosen(t, Options{Current: "bad"}, plans...); out.Plan != "good" || !out.Sure || !out.Better || out.Needed != 0 {
		t.Errorf("chose %+v", out)
	}
}

// randomPlans makes random plans.
func randomPlans(random *rand.Rand) []Measured {
	plans := make([]Measured, 1+random.IntN(6))
	n := 1 + random.IntN(200)
	for p := range plans {
		m := constantCost(string(rune('a'+p)), float64(100+random.IntN(5000)), float64(1+random.IntN(100)))
		level := random.Float64()
		for range n {
			q := math.Round(random.Float64()*4) / 4
			if random.Float64() < level {
				q = 1
			}
			m.Quality, m.Tokens, m.Millis = append(m.Quality, q), append(m.Tokens, 100+900*random.Float64()*float64(p+1)), append(m.Millis, random.Float64())
		}
		plans[p] = m
	}
	return plans
}

// TestProperties: whatever the figures are, the proposed plan is within the margin by mean or by
// bound, no cheaper sure plan is passed over, and neither the order of plans nor that of questions
// matters.
func TestProperties(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		plans := randomPlans(random)
		out := chosen(t, Options{}, plans...)
		got := verdict(out, out.Plan)
		if got.Verdict != schema.PlanChosen || len(out.Plans) != len(plans) || out.Plans[0].Quality < out.Plans[len(plans)-1].Quality {
			t.Fatalf("%+v", out)
		}
		if got.Loss > Margin+1e-9 {
			t.Fatalf("%s loses %v", out.Plan, got.Loss)
		}
		if out.Sure && got.LossBound != nil && *got.LossBound >= Margin {
			t.Fatalf("%s is sure and may lose %v", out.Plan, *got.LossBound)
		}
		for _, v := range out.Plans {
			within := v.Loss <= Margin
			if out.Sure {
				within = v.LossBound != nil && *v.LossBound < Margin
			}
			if within && v.Tokens*costTolerance < got.Tokens {
				t.Fatalf("%s was chosen and %s is cheaper: %+v", out.Plan, v.Plan, out)
			}
			if v.LossInterval.Low > v.Loss+1e-9 || v.LossInterval.High < v.Loss-1e-9 || v.Interval.Low > v.Interval.High {
				t.Fatalf("the intervals of %+v", v)
			}
		}
		order := random.Perm(len(plans[0].Quality))
		turned := make([]Measured, len(plans))
		for p, m := range plans {
			x := Measured{Plan: m.Plan}
			for _, q := range order {
				x.Quality, x.Tokens, x.Millis = append(x.Quality, m.Quality[q]), append(x.Tokens, m.Tokens[q]), append(x.Millis, m.Millis[q])
			}
			turned[len(plans)-1-p] = x
		}
		if again := chosen(t, Options{}, turned...); again.Plan != out.Plan || again.Sure != out.Sure {
			t.Fatalf("in another order %s (%t) and not %s (%t) was chosen", again.Plan, again.Sure, out.Plan, out.Sure)
		}
	}
}

// TestAWorsePlanIsNeverChosenForBeingWorse: lowering the quality of a plan that was not chosen does
// not make it the chosen one.
func TestAWorsePlanIsNeverChosenForBeingWorse(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		plans := randomPlans(random)
		out := chosen(t, Options{}, plans...)
		p := random.IntN(len(plans))
		if plans[p].Plan == out.Plan || plans[p].Plan == out.Best {
			continue
		}
		for q := range plans[p].Quality {
			if random.IntN(3) == 0 {
				plans[p].Quality[q] = 0
			}
		}
		if after := chosen(t, Options{}, plans...); after.Plan == plans[p].Plan {
			t.Fatalf("%s was chosen after it got worse: %+v", after.Plan, after)
		}
	}
}

func TestBetterThanTheCurrentPlan(t *testing.T) {
	same := right(700, 1000)
	for name, x := range map[string]struct {
		current string
		plans   []Measured
		better  bool
	}{
		"as good and cheaper":    {"dear", []Measured{constantCost("dear", 4000, 1, same...), constantCost("cheap", 1000, 1, same...)}, true},
		"the same":               {"cheap", []Measured{constantCost("dear", 4000, 1, same...), constantCost("cheap", 1000, 1, same...)}, false},
		"better and dearer":      {"bad", []Measured{constantCost("good", 4000, 1, right(900, 1000)...), constantCost("bad", 1000, 1, same...)}, true},
		"a little cheaper":       {"b", []Measured{constantCost("a", 990, 1, same...), constantCost("b", 1000, 2, same...)}, false},
		"of none":                {"", []Measured{constantCost("dear", 4000, 1, same...), constantCost("cheap", 1000, 1, same...)}, false},
		"of one that is not run": {"gone", []Measured{constantCost("dear", 4000, 1, same...), constantCost("cheap", 1000, 1, same...)}, false},
	} {
		if out := chosen(t, Options{Current: x.current}, x.plans...); out.Better != x.better {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

func TestDropLeavesTheClearlyWorseOut(t *testing.T) {
	got := Drop([]Measured{
		constantCost("best", 2000, 1, right(60, 64)...), constantCost("bad", 100, 1, right(5, 64)...), constantCost("dear and worse", 9000, 1, right(30, 64)...),
		constantCost("near", 500, 1, right(58, 64)...),
	}, Options{})
	if !slices.Equal(got, []string{"bad", "dear and worse"}) {
		t.Errorf("dropped %v", got)
	}
	for range 3 {
		if got := Drop([]Measured{constantCost("a", 1, 1, right(3, 64)...)}, Options{}); got != nil {
			t.Errorf("dropped %v, the only one", got)
		}
	}
	var looks []int
	for n := range 10_000 {
		if Look(n) {
			looks = append(looks, n)
		}
	}
	if !slices.Equal(looks, []int{32, 64, 128, 256, 512, 1024, 2048, 4096}) {
		t.Errorf("looks after %v", looks)
	}
}

func TestQuantile(t *testing.T) {
	for alpha, want := range map[float64]float64{0.05: 1.644854, 0.025: 1.959964, 0.005: 2.575829} {
		if got := quantile(alpha); math.Abs(got-want) > 1e-5 {
			t.Errorf("quantile(%v) = %v, want %v", alpha, got, want)
		}
	}
}
