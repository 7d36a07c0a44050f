package evaluate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// memory stores figures like a file, separately by plan and question.
type memory struct {
	mu    sync.Mutex
	known map[string]QuestionFigures
	kept  int
}

func (m *memory) Find(plan string, q Topic) (QuestionFigures, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.known[plan+q.Hash()]
	return f, ok
}

func (m *memory) Keep(plan string, q Topic, f QuestionFigures) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if q.Text == "unkept" {
		return errors.New("the disk is full")
	}
	m.kept++
	m.known[plan+q.Hash()] = f
	return nil
}

// TestRunsGoOnWithWhatIsKept: the second run asks nothing that the first asked, and its summary is
// equal, including answers with confidence.
func TestRunsGoOnWithWhatIsKept(t *testing.T) {
	d := questions(6)
	for i := range d.Queries {
		d.Queries[i].Answers, d.Queries[i].Evidence = []string{"seven"}, []string{"It is seven."}
	}
	d.Unanswerable = []Topic{{ID: "none", Text: "Who?", Unanswerable: true}}
	searched := func() *scripted {
		return &scripted{found: func(plan, question string) Found {
			f := Found{Documents: []string{"dirt", "gold"}, Millis: float64(len(question)), Stages: []schema.StageReport{{Stage: "dense", Millis: 2}, {Stage: "limit", Millis: 1}},
				Passages: []schema.Candidate{{ExternalID: "gold", Text: "It is seven."}}, Context: []int{0}}
			if plan == "b" && strings.HasSuffix(question, "3") {
				return Found{Millis: 1}
			}
			return f
		}}
	}
	answered := 0
	var mu sync.Mutex
	answerer := answers(func(plan string, q Topic) (Answered, error) {
		mu.Lock()
		defer mu.Unlock()
		if answered++; plan == "b" && q.ID == "q2" {
			return Answered{}, errors.New("no answer")
		}
		return newAnswer("It is seven.", q.ID != "q1", citation(0.7, "seven")), nil
	})
	kept := &memory{known: map[string]QuestionFigures{}}
	run := func(plans ...string) (*Results, *scripted) {
		t.Helper()
		s := searched()
		r, err := Run(t.Context(), d, s, Options{Plans: plans, Parallel: 2, Answerer: answerer, Kept: kept, Prices: Prices{Input: 10, Output: 30}})
		if err != nil {
			t.Fatal(err)
		}
		return r, s
	}
	run("a")
	both, s := run("a", "b")
	if len(s.asked) != 7 || kept.kept != 14 || answered != 14 {
		t.Errorf("searched %d, kept %d, answered %d", len(s.asked), kept.kept, answered)
	}
	again, s := run("a", "b")
	if len(s.asked) != 0 || answered != 14 {
		t.Errorf("asked again %q, answered %d", s.asked, answered)
	}
	before, err := json.Marshal(both.Summary())
	if err != nil {
		t.Fatal(err)
	}
	if now, err := json.Marshal(again.Summary()); err != nil || !bytes.Equal(now, before) {
		t.Errorf("what was kept gives %s, not %s, %v", now, before, err)
	}
	var one, two, page, other bytes.Buffer
	if err := errors.Join(both.WriteQuestions(&one), again.WriteQuestions(&two), WriteHTML(&page, []*Results{both}, []Summary{both.Summary()}, ""),
		WriteHTML(&other, []*Results{again}, []Summary{again.Summary()}, "")); err != nil || one.String() != two.String() || page.String() != other.String() {
		t.Errorf("questions are %s, not %s, %v", &two, &one, err)
	}
	d.Queries[0].Text = "unkept"
	if _, err := Run(t.Context(), d, searched(), Options{Plans: []string{"a"}, Parallel: 1, Kept: kept}); err == nil || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("what could not be kept: %v", err)
	}
}

// scriptedRun returns a run with given values, by plan, measure and question.
func scriptedRun(names []string, plans map[string][][]float64, order ...string) *Results {
	r := &Results{dataset: &Dataset{}, names: names, options: Options{Answerer: answers(nil)}}
	for _, name := range order {
		r.plans = append(r.plans, &planResults{name: name, values: plans[name], millis: plans[name][0], answering: plans[name][0]})
	}
	return r
}

func identity(name string) string { return name }

// TestCombineByHand: differences of sets in which all questions have equal differences, and of
// sums, products and quotients of means.
func TestCombineByHand(t *testing.T) {
	none := math.NaN()
	names := []string{"hit@1", "f1", "cost", "passage_recall@1", "passage_precision@1"}
	first := scriptedRun(names, map[string][][]float64{
		"base": {{0, 0, 1, 1}, {0.2, 0.4, none, 0.6}, {1, 1, 1, 1}, {0.5, 0.5, 0.5, 0.5}, {0.4, 0.4, 0.4, 0.4}},
		"more": {{0.5, 0.5, 1.5, 1.5}, {0.4, 0.6, none, 0.8}, {2, 2, 2, none}, {1, 1, 1, 1}, {0.5, none, 0.5, 0.5}},
	}, "base", "more")
	second := scriptedRun(names, map[string][][]float64{
		"base": {{1, 0}, {none, none}, {0, 0}, {none, none}, {none, none}},
		"more": {{1, 0}, {none, none}, {0, 0}, {none, none}, {none, none}},
	}, "base", "more")
	sets := []*Set{{Dataset: "one"}, {Dataset: "two"}}
	sets[0].Add(first, identity)
	sets[1].Add(second, identity)
	c := Combine(sets, []string{"hit@1", "f1", "cost_efficiency", "passage_ie@1", "ms"}, "base")
	base, more := c.Rows[0].Figures, c.Rows[1].Figures
	check := func(name string, f CombinedFigure, value, difference float64, sets int) {
		t.Helper()
		near(t, name, f.Value, value)
		if len(f.Datasets) != sets || f.Against == nil {
			t.Errorf("%s is of %d datasets, compared %v", name, len(f.Datasets), f.Against)
			return
		}
		near(t, name+" difference", f.Against.Difference, difference)
	}
	check("hit@1", more["hit@1"], (1+0.5)/2, (0.5+0)/2, 2)
	near(t, "low", more["hit@1"].Against.Interval.Low, 0.25) // the same in every resample
	near(t, "high", more["hit@1"].Against.Interval.High, 0.25)
	near(t, "p", more["hit@1"].Against.P, 1./(resamples+1))
	check("f1", more["f1"], 0.6, 0.2, 1)
	near(t, "base f1", base["f1"].Value, 0.4)
	// Only the first two questions have F1 and cost under both: 0.5 / 2 less 0.3 / 1.
	check("cost_efficiency", more["cost_efficiency"], 0.5/2, 0.5/2-0.3, 1)
	near(t, "base cost_efficiency", base["cost_efficiency"].Value, 0.4)
	// Recall is over all questions, precision over those that have one under both.
	check("passage_ie@1", more["passage_ie@1"], 0.5, 0.5-0.2, 1)
	if base["hit@1"].Against != nil || c.Baseline != "base" {
		t.Errorf("the baseline is compared: %+v", base["hit@1"])
	}
	if d := more["hit@1"].Datasets[1]; d.Dataset != "two" || d.Against.P != 1 || d.Against.Interval != (Interval{}) {
		t.Errorf("of the second set: %+v", d)
	}
	var b strings.Builder
	if err := c.WriteMarkdown(&b, "title", "about"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# title", "## All 2 datasets", "| | hit@1 | F1 | F1/$ | passage_ie@1 | ms |", "| base | 0.5000 | 0.4000 |",
		"| more | 0.7500 (+0.2500*, +0.2500 to +0.2500) |", "## two", "| more | 0.5000 (+0.0000, +0.0000 to +0.0000) | - |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, &b)
		}
	}
}

// TestCombinedIntervalIsThatOfStrata: for many questions the interval of the mean over sets agrees
// with the normal limit, whose variance is the mean of the sets' variances divided by the number of
// sets.
func TestCombinedIntervalIsThatOfStrata(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var sets []*Set
	variance, difference := 0.0, 0.0
	sizes := []int{400, 400, 900}
	for _, n := range sizes {
		values := map[string][][]float64{"a": {make([]float64, n)}, "b": {make([]float64, n)}}
		sum, squares := 0.0, 0.0
		for q := range n {
			values["a"][0][q], values["b"][0][q] = random.Float64(), random.Float64()+0.03
			d := values["b"][0][q] - values["a"][0][q]
			sum, squares = sum+d, squares+d*d
		}
		mean := sum / float64(n)
		difference += mean / float64(len(sizes))
		variance += (squares/float64(n) - mean*mean) / float64(n) / float64(len(sizes)*len(sizes))
		set := &Set{Dataset: fmt.Sprint(n, len(sets))}
		set.Add(scriptedRun([]string{"hit@1"}, values, "a", "b"), identity)
		sets = append(sets, set)
	}
	got := Combine(sets, []string{"hit@1"}, "a").Rows[1].Figures["hit@1"].Against
	deviation := math.Sqrt(variance)
	near(t, "difference", got.Difference, difference)
	if math.Abs(got.Interval.Low-(difference-1.96*deviation)) > 0.1*deviation || math.Abs(got.Interval.High-(difference+1.96*deviation)) > 0.1*deviation {
		t.Errorf("interval %+v; the normal limit is %g to %g", got.Interval, difference-1.96*deviation, difference+1.96*deviation)
	}
}

// TestQuantitiesAreThoseOfSummaries: every metric of a summary is known, and has the summary's
// value.
func TestQuantitiesAreThoseOfSummaries(t *testing.T) {
	d := questions(4)
	for i := range d.Queries {
		d.Queries[i].Answers, d.Queries[i].Evidence = []string{"seven"}, []string{"It is seven."}
	}
	s := &scripted{found: func(_, question string) Found {
		if question == "question 3" {
			return Found{Documents: []string{"dirt"}, Millis: 5}
		}
		return Found{Documents: []string{"dirt", "gold"}, Passages: []schema.Candidate{{ExternalID: "gold", Text: "It is seven. More."}, {Text: "Mud"}}, Context: []int{0}, Millis: 3}
	}}
	answerer := answers(func(_ string, q Topic) (Answered, error) {
		if q.ID == "q2" {
			return Answered{}, errors.New("no answer")
		}
		return newAnswer("It is seven, or so.", true, citation(0.7, "seven or so")), nil
	})
	r, err := Run(t.Context(), d, s, Options{Plans: []string{"a"}, Parallel: 1, Cutoffs: []int{2}, Answerer: answerer, Prices: Prices{Input: 10, Output: 30}})
	if err != nil {
		t.Fatal(err)
	}
	plan := r.Summary().Plans[0]
	known := quantities([]int{2}, true)
	for name, want := range plan.Metrics {
		if _, ok := known[name]; !ok {
			t.Errorf("%s is no metric of a matrix", name)
			continue
		}
		near(t, name, r.value(0, known[name]), want)
	}
	for name, want := range map[string]float64{"tokens": plan.Tokens, "ms": plan.Millis.Mean, "answer_ms": plan.Answering.Mean} {
		near(t, name, r.value(0, known[name]), want)
	}
}

// TestMeasuresHaveTheirVersion has the measures' values for a few questions. If a change of a
// measure changes them, increment MeasuresVersion, so that stored results of earlier runs are
// measured again, and update the sums here.
func TestMeasuresHaveTheirVersion(t *testing.T) {
	d := questions(3)
	d.Queries[0].Answers, d.Queries[0].Evidence = []string{"October 1973", "1973"}, []string{"The crisis began in October 1973. It was long.", "Oil was dear."}
	d.Queries[1].Answers, d.Queries[1].Choices = []string{"the second"}, []string{"First", "Second", "Third"}
	d.Queries[2].Relevant = map[string]int{"gold": 1, "other": 3}
	s := &scripted{found: func(string, string) Found {
		return Found{Documents: []string{"dirt", "other", "gold"}, Millis: 3, Context: []int{1, 0}, Passages: []schema.Candidate{
			{ExternalID: "dirt", Title: "Dirt", Text: "Mud here. The second heap."}, {ExternalID: "gold", Title: "Gold", Text: "Before. The crisis began in October 1973. After it."}}}
	}}
	answerer := answers(func(_ string, q Topic) (Answered, error) {
		a := newAnswer("The crisis that began in the autumn of 1973 was the second one [1].", true, citation(0.7, "in October 1973"))
		a.Choice, a.Rounds = 2, 2
		return a, nil
	})
	r, err := Run(t.Context(), d, s, Options{Plans: []string{"a"}, Parallel: 1, Answerer: answerer, Prices: Prices{Input: 10, Output: 30}})
	if err != nil {
		t.Fatal(err)
	}
	sum, weighted, n := 0.0, 0.0, 0
	for m, values := range r.plans[0].values {
		for q, v := range values {
			if !math.IsNaN(v) {
				sum, weighted, n = sum+v, weighted+v*math.Sqrt(float64(m+1))*float64(q+1), n+1
			}
		}
	}
	if got, want := fmt.Sprintf("version %d: %d values, %.9f, %.9f", MeasuresVersion, n, sum, weighted), "version 1: 186 values, 479.570986166, 7836.433409933"; got != want {
		t.Errorf("the measures give\n%s, before\n%s", got, want)
	}
}
