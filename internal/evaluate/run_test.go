package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// scripted is a Searcher that calls a function of the test. The plans themselves are tested
// elsewhere.
type scripted struct {
	found func(plan, question string) Found

	mu    sync.Mutex
	asked []string
	depth int
}

// Search returns ten passages unless it is asked for more, like the server for a plan whose context
// is from the first ten.
func (s *scripted) Search(_ context.Context, plan string, q Topic, depth, passages int) (Found, error) {
	question := q.Text
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.depth = append(s.asked, plan+":"+question), depth
	if passages == 0 {
		passages = 10
	}
	if strings.Contains(question, "broken") {
		return Found{}, errors.New("the index is gone")
	}
	f := s.found(plan, question)
	f.Passages = f.Passages[:min(passages, len(f.Passages))]
	return f, nil
}

func questions(n int) *Dataset {
	d := &Dataset{Name: "set", Split: "test", Documents: 5}
	for i := range n {
		d.Queries = append(d.Queries, Topic{ID: fmt.Sprint("q", i), Text: fmt.Sprint("question ", i), Relevant: map[string]int{"gold": 1}})
	}
	return d
}

func TestRunByHand(t *testing.T) {
	d := questions(2)
	d.Queries[0].Answers, d.Queries[0].Evidence = []string{"seven"}, []string{"It is seven."}
	d.Unjudged = 3
	right := schema.Candidate{ExternalID: "gold", Title: "Gold", Text: "It is seven."}
	wrong := schema.Candidate{ExternalID: "dirt", Title: "Dirt", Text: "Mud here"}
	s := &scripted{found: func(plan, question string) Found {
		if plan == "good" {
			return Found{Documents: []string{"gold", "dirt"}, Passages: []schema.Candidate{right, wrong}, Context: []int{0}, Millis: 30,
				Stages: []schema.StageReport{{Stage: "lexical", Millis: 10}, {Stage: "zoom", Millis: 8}, {Stage: "lexical", Millis: 2}}}
		}
		f := Found{Documents: []string{"dirt", "gold"}, Passages: []schema.Candidate{wrong, right}, Context: []int{0, 1}, Millis: 10}
		if question == "question 1" {
			f = Found{Millis: 20} // nothing at all
		}
		return f
	}}
	r, err := Run(t.Context(), d, s, Options{Plans: []string{"good", "bad"}, Parallel: 1, Cutoffs: []int{2}})
	if err != nil {
		t.Fatal(err)
	}
	r.Failed = 1
	got := r.Summary()
	if got.Dataset != "set" || got.Documents != 5 || got.Queries != 2 || got.Failed != 1 || got.Unjudged != 3 || len(got.Plans) != 2 {
		t.Fatalf("summary is %+v", got)
	}
	if s.depth != 100 {
		t.Errorf("asked for %d documents; recall@100 needs 100", s.depth)
	}
	good, bad := got.Plans[0], got.Plans[1]
	for name, want := range map[string]float64{"ndcg@10": 1, "hit@1": 1, "mrr@10": 1, "document_recall@1": 1, "document_recall@100": 1, "document_precision@1": 1, "document_precision@2": 0.5, "document_ie@1": 1,
		"document_ie@3": 1. / 3, "document_ie_sum": 1 + 1./3 + 0.2, "ar@1": 1, "ar@4": 1, "context_ar": 1, "evidence_recall": 1, "evidence_precision": 1, "context_precision": 1, "entropy@4": 1} {
		near(t, "good "+name, good.Metrics[name], want)
	}
	for name, want := range map[string]float64{"ndcg@10": 1 / math.Log2(3) / 2, "hit@1": 0, "hit@2": 0.5, "mrr@10": 0.25, "document_recall@1": 0, "document_recall@100": 0.5, "document_precision@2": 0.25,
		"document_ie@2": 0.125, "ar@1": 0, "ar@4": 1, "evidence_recall": 1, "evidence_precision": 0.5, "context_precision": 0.5, "entropy@4": 1} {
		near(t, "bad "+name, bad.Metrics[name], want)
	}
	near(t, "good tokens", good.Tokens, 4) // "It is seven."
	near(t, "bad tokens", bad.Tokens, 3)   // six for one question, none for the other
	near(t, "good p50", good.Millis.P50, 30)
	near(t, "bad p50", bad.Millis.P50, 10)
	near(t, "bad p95", bad.Millis.P95, 20)
	var stages []string
	for _, stage := range good.Stages {
		stages = append(stages, fmt.Sprintf("%s %g", stage.Stage, stage.Mean))
	}
	if want := []string{"lexical 10", "zoom 8", "lexical 2 2"}; !slices.Equal(stages, want) {
		t.Errorf("stages are %q, not %q", stages, want)
	}
}

// TestAnswersAtMoreCutoffs: a value covers as many passages as its name says, or is absent.
func TestAnswersAtMoreCutoffs(t *testing.T) {
	d := questions(1)
	d.Queries[0].Answers = []string{"seven"}
	long := make([]schema.Candidate, 200)
	for i := range long {
		long[i].Text = "Mud here"
	}
	long[29].Text = "It is seven."
	found := Found{Documents: []string{"gold"}, Passages: long, Context: []int{0, 1}}
	s := &scripted{found: func(string, string) Found { return found }}
	for _, c := range []struct {
		cutoffs []int
		want    map[string]float64
	}{
		{nil, map[string]float64{"ar@10": 0}},
		{[]int{2}, map[string]float64{"ar@2": 0, "ar@10": 0}},
		{[]int{20, 30, 500}, map[string]float64{"ar@10": 0, "ar@20": 0, "ar@30": 1, "document_recall@500": 1}},
		{[]int{100}, map[string]float64{"ar@100": 1}},
		{[]int{101}, map[string]float64{"ar@10": 0, "document_recall@101": 1}},
	} {
		r, err := Run(t.Context(), d, s, Options{Plans: []string{"a"}, Parallel: 1, Cutoffs: c.cutoffs})
		if err != nil {
			t.Fatal(err)
		}
		got := r.Summary().Plans[0]
		for name, want := range c.want {
			if v, ok := got.Metrics[name]; !ok || v != want {
				t.Errorf("with %v, %s is %v (there: %v), not %v", c.cutoffs, name, v, ok, want)
			}
		}
		for _, name := range []string{"ar@500", "ar@101"} {
			if v, ok := got.Metrics[name]; ok {
				t.Errorf("with %v, %s is %v, of %d passages at most", c.cutoffs, name, v, MaxPassages)
			}
		}
		near(t, "tokens", got.Tokens, 4) // of the context, whatever else is returned
	}
	found.Context = make([]int, 100)
	if _, err := Run(t.Context(), d, s, Options{Plans: []string{"a"}, Parallel: 1, Cutoffs: []int{20}}); err == nil {
		t.Error("a context that the passages asked for may have cut short was measured")
	}
}

func TestSummaryLeavesOutWhatTheDatasetDoesNotKnow(t *testing.T) {
	s := &scripted{found: func(string, string) Found { return Found{Documents: []string{"gold"}} }}
	r, err := Run(t.Context(), questions(3), s, Options{Plans: []string{"a"}, Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	got := r.Summary()
	for _, name := range []string{"ar@4", "evidence_recall", "entropy@4"} {
		if v, ok := got.Plans[0].Metrics[name]; ok {
			t.Errorf("%s is %v, without anything to take it from", name, v)
		}
	}
	if _, err := json.Marshal(got); err != nil { // NaN would be an error
		t.Error(err)
	}
}

// Disturbances of the machine must affect all plans alike.
func TestPlansTakeTurns(t *testing.T) {
	s := &scripted{found: func(string, string) Found { return Found{} }}
	if _, err := Run(t.Context(), questions(3), s, Options{Plans: []string{"a", "b"}, Parallel: 1}); err != nil {
		t.Fatal(err)
	}
	want := []string{"a:question 0", "b:question 0", "b:question 1", "a:question 1", "a:question 2", "b:question 2"}
	if !slices.Equal(s.asked, want) {
		t.Errorf("asked %q, not %q", s.asked, want)
	}
}

func TestLimitDrawsTheSameQuestionsForTheSameSeed(t *testing.T) {
	asked := func(seed uint64) []string {
		s := &scripted{found: func(string, string) Found { return Found{} }}
		last := 0
		o := Options{Plans: []string{"a"}, Limit: 10, Seed: seed, Parallel: 4, Progress: func(done, total int) {
			if done != last+1 || total != 10 {
				t.Errorf("progress %d of %d after %d", done, total, last)
			}
			last = done
		}}
		r, err := Run(t.Context(), questions(100), s, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Summary(); got.Queries != 10 || got.Limit != 10 || got.Seed != seed || last != 10 {
			t.Errorf("%d questions with limit %d, seed %d, progress to %d", got.Queries, got.Limit, got.Seed, last)
		}
		slices.Sort(s.asked)
		return s.asked
	}
	one := asked(1)
	if !slices.Equal(one, asked(1)) {
		t.Error("the same seed drew other questions")
	}
	if slices.Equal(one, asked(2)) {
		t.Error("another seed drew the same questions")
	}
	if len(slices.Compact(one)) != 10 {
		t.Errorf("drew %q", one)
	}
}

func TestRunNamesPlanAndQuestionOfAnError(t *testing.T) {
	d := questions(20)
	d.Queries[7].Text = "broken"
	s := &scripted{found: func(string, string) Found { return Found{} }}
	_, err := Run(t.Context(), d, s, Options{Plans: []string{"a"}, Parallel: 3})
	if err == nil || !strings.Contains(err.Error(), `plan a, question q7 ("broken"): the index is gone`) {
		t.Errorf("error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, questions(20), s, Options{Plans: []string{"a"}, Parallel: 3}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled, it gave %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for field, o := range map[string]Options{
		"plan":     {Parallel: 1},
		"limit":    {Plans: []string{"a"}, Parallel: 1, Limit: -1},
		"parallel": {Plans: []string{"a"}},
		"k":        {Plans: []string{"a"}, Parallel: 1, Cutoffs: []int{0}},
	} {
		var wrong *schema.FieldError
		if err := o.Check(); !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%+v gave %v, not an error on %s", o, err, field)
		}
	}
	if err := (Options{Plans: []string{"a", "b", "a"}, Parallel: 1}).Check(); err == nil {
		t.Error("a plan may be named twice")
	}
}

func TestBootstrapByHand(t *testing.T) {
	// Plan 1 is better by exactly 0.1 on every question, and thus in every resample.
	var rows [][]float64
	for i := range 50 {
		rows = append(rows, []float64{float64(i) / 100, float64(i)/100 + 0.1})
	}
	means := resampled(rows)
	d, p := compare(means[1], means[0], 0.1)
	near(t, "low", d.Low, 0.1)
	near(t, "high", d.High, 0.1)
	near(t, "p", p, 1./(resamples+1))
	// Without any difference p is 1.
	if _, p := compare(means[0], means[0], 0); p != 1 {
		t.Errorf("a plan differs from itself with p = %g", p)
	}
	// Of two questions one is won and one lost by 1. Half of the resamples have one of each; the
	// others have a mean of -1 or 1, the extremes.
	means = resampled([][]float64{{0, 1}, {1, 0}})
	d, p = compare(means[1], means[0], 0)
	if d.Low != -1 || d.High != 1 || p != 1 {
		t.Errorf("won and lost gave %+v, p = %g", d, p)
	}
}

// TestMeanInterval: the interval is computed from the values, and contains their mean.
func TestMeanInterval(t *testing.T) {
	if got := MeanInterval(nil); got != (Interval{}) {
		t.Errorf("of no value: %+v", got)
	}
	if got := MeanInterval([]float64{0.25}); got != (Interval{Low: 0.25, High: 0.25}) {
		t.Errorf("of one value: %+v", got)
	}
	sorted := make([]float64, 1000)
	for i := range sorted {
		sorted[i] = float64(i + 1)
	}
	if got := interval(sorted); got != (Interval{Low: 25, High: 975}) {
		t.Errorf("the middle 95 %% of 1 to 1000 is %+v", got)
	}
	values := make([]float64, 400)
	for i := range values {
		values[i] = float64(i % 2)
	}
	// The standard error is 0.5 / 20.
	if got := MeanInterval(values); math.Abs(got.Low-(0.5-1.96*0.025)) > 0.005 || math.Abs(got.High-(0.5+1.96*0.025)) > 0.005 {
		t.Errorf("of halves: %+v", got)
	}
}

// For many questions the bootstrap must agree with the t test's normal limit.
func TestBootstrapAgreesWithTheNormalLimit(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	var rows [][]float64
	var sum, squares float64
	const n = 2000
	for range n {
		a, b := random.Float64(), random.Float64()+0.02
		rows = append(rows, []float64{a, b})
		sum, squares = sum+b-a, squares+(b-a)*(b-a)
	}
	difference := sum / n
	deviation := math.Sqrt((squares/n - difference*difference) / n)
	means := resampled(rows)
	d, p := compare(means[1], means[0], difference)
	if math.Abs(d.Low-(difference-1.96*deviation)) > 0.1*deviation || math.Abs(d.High-(difference+1.96*deviation)) > 0.1*deviation {
		t.Errorf("interval %+v; the normal limit is %g to %g", d, difference-1.96*deviation, difference+1.96*deviation)
	}
	if want := math.Erfc(difference / deviation / math.Sqrt2); math.Abs(p-want) > 0.02 {
		t.Errorf("p = %g; the normal limit is %g", p, want)
	}
	if again, q := compare(resampled(rows)[1], resampled(rows)[0], difference); again != d || q != p {
		t.Error("the same results gave other figures")
	}
}

func BenchmarkBootstrap(b *testing.B) {
	rows := make([][]float64, 10_570)
	for i := range rows {
		rows[i] = []float64{0, 1, 0, 1, 0}
	}
	for b.Loop() {
		resampled(rows)
	}
}
