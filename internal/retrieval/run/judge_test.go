package run_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// scriptedJudges implements retrieval.Judges with judgements that are set by a test.
type scriptedJudges struct {
	judge   func(task wire.LLMTask, p wire.LLMPassage) float64
	rewrite func(question string) string
	fail    map[wire.LLMTask]error
	fewer   bool                         // one judgement less than passages
	fails   func(r wire.LLMRequest) bool // requests that fail

	mu    sync.Mutex
	asked []wire.LLMRequest
}

func (j *scriptedJudges) Complete(_ context.Context, r wire.LLMRequest) (wire.LLMReply, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked = append(j.asked, r)
	if err := j.fail[r.Task]; err != nil {
		return wire.LLMReply{}, err
	}
	if j.fails != nil && j.fails(r) {
		return wire.LLMReply{}, errors.New("the reply is no JSON")
	}
	reply := wire.LLMReply{Usage: schema.Usage{Model: "scripted"}}
	if r.Task == wire.TaskRewrite {
		if reply.Text = r.Question; j.rewrite != nil {
			reply.Text = j.rewrite(r.Question)
		}
		return reply, nil
	}
	for _, p := range r.Passages {
		reply.Scores = append(reply.Scores, j.judge(r.Task, p))
	}
	if j.fewer {
		reply.Scores = reply.Scores[1:]
	}
	return reply, nil
}

// judgedAs returns judges that give passage p the score scores[p] in every task.
func judgedAs(scores ...float32) *scriptedJudges {
	of := numbered(scores...)
	return &scriptedJudges{judge: func(_ wire.LLMTask, p wire.LLMPassage) float64 { return float64(of(p.Text)) }}
}

func TestJudgeCombinesThreeJudgements(t *testing.T) {
	c := ranked([]float64{5, 4, 3, 2})
	table := map[wire.LLMTask]func(string) float32{
		wire.TaskRelevance: numbered(0.2, 0.9, 0.5), wire.TaskReflect: numbered(0.3, 0.6, 0.5), wire.TaskCritic: numbered(0.1, 0.9, 0.8),
	}
	j := &scriptedJudges{judge: func(task wire.LLMTask, p wire.LLMPassage) float64 { return float64(table[task](p.Text)) }}
	c.judges = j
	question := uuid.MustParse("aaaaaaaa-0000-7000-8000-000000000001")
	got := c.run(t, "- dense\n- judge: {depth: 3, batch: 2, parallel: 1}", func(q *wire.SearchQuery) { q.Question = question })
	want(t, "by the mean of three, the rest behind", places(got), []string{"a/0/1", "a/0/2", "a/0/0", "a/0/3"})
	want(t, "the means", []float64{scoresOf(got.Candidates[0], "judge")[0], scoresOf(got.Candidates[1], "judge")[0], scoresOf(got.Candidates[2], "judge")[0]},
		[]float64{0.8, 0.6, 0.2})
	type ask struct {
		task     wire.LLMTask
		item     int
		passages int
		judged   int
	}
	var asked []ask
	for _, r := range j.asked {
		asked = append(asked, ask{r.Task, r.Step.Item, len(r.Passages), len(r.Passages[0].Judged)})
		if r.Step.Question != question || r.Step.Step != "stage 1 "+string(r.Task) || r.Question != "words of the question" {
			t.Errorf("asked as %+v about %q", r.Step, r.Question)
		}
	}
	want(t, "each judgement comes with those before", asked, []ask{
		{wire.TaskRelevance, 0, 2, 0}, {wire.TaskReflect, 0, 2, 1}, {wire.TaskCritic, 0, 2, 2},
		{wire.TaskRelevance, 1, 1, 0}, {wire.TaskReflect, 1, 1, 1}, {wire.TaskCritic, 1, 1, 2},
	})
	if r := got.Trace[1]; !strings.Contains(r.Why, "critique of 3 candidates by scripted; judge 0.800 to 0.200") {
		t.Errorf("the report says %s", r.Why)
	}
}

// TestOnePassageARequestIsJudgedByItself: a judge that compares the passages of a request gives the
// best one 1, whatever the others are worth. With batch 1 it sees one passage at a time, in all
// three judgements, and gives each what it is worth.
func TestOnePassageARequestIsJudgedByItself(t *testing.T) {
	worth := []float64{0.4, 0.1, 0.8, 0.2}
	of := numbered(0, 1, 2, 3)
	judged := func(stage string) (scores []float64, asked []wire.LLMRequest) {
		c := ranked([]float64{5, 4, 3, 2})
		j := &comparingJudge{worth: func(p wire.LLMPassage) float64 { return worth[int(of(p.Text))] }}
		c.judges = j
		for _, x := range c.run(t, "- dense\n- judge: "+stage).Candidates {
			scores = append(scores, scoresOf(x, "judge")[0])
		}
		return scores, j.asked
	}
	together, _ := judged("{batch: 4}")
	want(t, "together", together, []float64{1, 0.5, 0.25, 0.125})
	alone, asked := judged("{batch: 1, parallel: 1}")
	want(t, "one by one", alone, []float64{0.8, 0.4, 0.2, 0.1})
	want(t, "requests", len(asked), 12)
	for i, r := range asked {
		if len(r.Passages) != 1 || r.Step.Item != i/3 || len(r.Passages[0].Judged) != i%3 {
			t.Errorf("request %d is of %d passages, item %d, after %d judgements", i, len(r.Passages), r.Step.Item, len(r.Passages[0].Judged))
		}
	}
}

// TestARequestNamesTheVersionsOfItsPassages: a stored reply is deleted with these.
func TestARequestNamesTheVersionsOfItsPassages(t *testing.T) {
	c := corpus([]int{1}, []int{1}, []int{1}, []int{1}, []int{1})
	for d := range 5 {
		c.dense[passage(d, 0, 0)] = float64(9 - d)
	}
	j := judgedAs()
	j.judge = func(wire.LLMTask, wire.LLMPassage) float64 { return 1 }
	c.judges = j
	c.run(t, "- dense\n- judge: {by: filter, batch: 2, parallel: 1}")
	var got [][]uuid.UUID
	for _, r := range j.asked {
		got = append(got, r.Versions)
	}
	want(t, "versions", got, [][]uuid.UUID{{version(0), version(1)}, {version(2), version(3)}, {version(4)}})
}

// comparingJudge judges the passages of a request relative to the best one, if there are several.
type comparingJudge struct {
	worth func(wire.LLMPassage) float64
	mu    sync.Mutex
	asked []wire.LLMRequest
}

func (j *comparingJudge) Complete(_ context.Context, r wire.LLMRequest) (wire.LLMReply, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked = append(j.asked, r)
	best := 1.0
	if len(r.Passages) > 1 {
		best = 0
		for _, p := range r.Passages {
			best = max(best, j.worth(p))
		}
	}
	var reply wire.LLMReply
	for _, p := range r.Passages {
		reply.Scores = append(reply.Scores, j.worth(p)/best)
	}
	return reply, nil
}

func TestJudgeFilters(t *testing.T) {
	c := ranked([]float64{5, 4, 3, 2})
	c.judges = judgedAs(0, 1, 1, 0)
	got := c.run(t, "- dense\n- judge: {by: filter, least: 1, depth: 3, parallel: 1}")
	want(t, "those with 1, in their order", places(got), []string{"a/0/1", "a/0/2"})
	if dropped := got.Trace[1].Dropped; len(dropped) != 2 || !strings.Contains(dropped[0].Why+dropped[1].Why, "below rank 3") {
		t.Errorf("dropped %+v", dropped)
	}
}

func TestFailedJudgementsChangeNothing(t *testing.T) {
	broken := &schema.RemoteError{Code: schema.CodeOverloaded, Message: "no budget is left"}
	for name, j := range map[string]*scriptedJudges{
		"none there":         nil,
		"the first fails":    {fail: map[wire.LLMTask]error{wire.TaskRelevance: broken}},
		"the last fails":     {judge: judgedAs(0, 1, 1, 0).judge, fail: map[wire.LLMTask]error{wire.TaskCritic: broken}},
		"one is left out":    {judge: judgedAs(0, 1, 1, 0).judge, fewer: true},
		"a rewriting failed": {judge: judgedAs(0.9, 0.8, 0.7, 0.6).judge, fail: map[wire.LLMTask]error{wire.TaskRewrite: broken}},
	} {
		c := ranked([]float64{5, 4, 3, 2})
		if j != nil {
			c.judges = j
		}
		got := c.run(t, "- rewrite\n- dense\n- judge: {least: 0.5}")
		want(t, name, places(got), []string{"a/0/0", "a/0/1", "a/0/2", "a/0/3"})
		if why := got.Trace[0].Why + got.Trace[2].Why; !strings.Contains(why, "no language model is configured") && !strings.Contains(why, "budget") &&
			!strings.Contains(why, "judgements of") {
			t.Errorf("%s: the report says %s", name, why)
		}
	}
}

// TestAFailedRequestCostsItsBatchAlone: its candidates keep their ranks, have no score of the
// judge, and are kept by stages that select by it.
func TestAFailedRequestCostsItsBatchAlone(t *testing.T) {
	failing := func(passage string) func() *scriptedJudges {
		return func() *scriptedJudges {
			j := judgedAs(0.1, 0.9, 0.5, 0.4, 0.8, 0.2)
			j.fails = func(r wire.LLMRequest) bool {
				return r.Task == wire.TaskCritic && strings.Contains(r.Passages[0].Text, passage)
			}
			return j
		}
	}
	for _, x := range []struct {
		name, stages string
		judges       func() *scriptedJudges
		places       []string
		context      []int
	}{
		{"the second of three", "- judge: {batch: 2}", failing("a 0 2"), []string{"a/0/1", "a/0/4", "a/0/2", "a/0/3", "a/0/5", "a/0/0"}, nil},
		{"with a least score", "- judge: {batch: 2, least: 0.5}", failing("a 0 2"), []string{"a/0/1", "a/0/4", "a/0/2", "a/0/3"}, nil},
		{"the first", "- judge: {batch: 2, least: 0.5}", failing("a 0 0"), []string{"a/0/0", "a/0/1", "a/0/4", "a/0/2"}, nil},
		// Of 0.1, 0.9, 0.8 and 0.2 the mean is 0.5.
		{"a threshold", "- judge: {batch: 2}\n- threshold: {score: judge}", failing("a 0 2"), nil, []int{0, 1, 2, 3}},
		{"all, and a threshold", "- judge: {batch: 2}\n- threshold: {score: judge, at: 1}", failing(""), nil, []int{0, 1, 2, 3, 4, 5}},
		{"by 1 and 0", "- judge: {by: filter}\n- threshold: {score: judge, at: 1}", func() *scriptedJudges {
			return &scriptedJudges{fails: func(wire.LLMRequest) bool { return true }}
		}, nil, []int{0, 1, 2, 3, 4, 5}},
	} {
		c := ranked([]float64{9, 8, 7, 6, 5, 4})
		c.judges = x.judges()
		got := c.run(t, "- dense\n"+x.stages)
		if x.places != nil {
			want(t, x.name, places(got), x.places)
		}
		if x.context != nil {
			want(t, x.name, got.Context, x.context)
		}
		if why := got.Trace[1].Why; !strings.Contains(why, "the reply is no JSON") {
			t.Errorf("%s: the report says %s", x.name, why)
		}
		for i := 1; i < len(got.Candidates); i++ {
			if got.Candidates[i].Score > got.Candidates[i-1].Score {
				t.Errorf("%s: candidate %d scores %g, more than the one before it", x.name, i, got.Candidates[i].Score)
			}
		}
	}
}

func TestCancelledJudgementsEndTheRun(t *testing.T) {
	c := ranked([]float64{5, 4})
	ctx, cancel := context.WithCancelCause(t.Context())
	c.judges = &scriptedJudges{judge: func(wire.LLMTask, wire.LLMPassage) float64 {
		cancel(errors.New("enough"))
		return 1
	}, fewer: true}
	if _, err := c.engine(t, "- dense\n- judge").Run(ctx, query()); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run gives %v", err)
	}
}

// TestAPassageInPlaceOfTheQuestion: its vector has the same weight as the question's, and the words
// stay the question's.
func TestAPassageInPlaceOfTheQuestion(t *testing.T) {
	c := read(1, 2)
	c.judges = &scriptedJudges{rewrite: func(string) string { return "Words answer it." }}
	c.encodes = map[string][]float32{"words of the question": {1, 0}, "Words answer it.": {0, 1}}
	got := c.run(t, "- rewrite: {as: passage}\n- hybrid: {of: [lexical, dense]}")
	want(t, "what the index was asked for", c.queries[0].Terms, []string{"word", "question"})
	if v := c.nearest[0].Vector; len(v) != 2 || math.Abs(float64(v[0])-math.Sqrt2/2) > 1e-6 || math.Abs(float64(v[1])-math.Sqrt2/2) > 1e-6 {
		t.Errorf("vectors were compared with %v, want the mean of both at unit length", v)
	}
	if asked := c.judges.(*scriptedJudges).asked; len(asked) != 1 || asked[0].Task != wire.TaskRewrite || asked[0].Prompt != "passage" {
		t.Errorf("the model was asked %+v", asked)
	}
	if !strings.Contains(got.Trace[0].Why, `"Words answer it.", too by scripted`) {
		t.Errorf("the report says %s", got.Trace[0].Why)
	}
}

func TestRewrittenQuestionIsSearched(t *testing.T) {
	c := read(1, 2)
	c.judges = &scriptedJudges{rewrite: func(q string) string { return "winged " + q }}
	got := c.run(t, "- rewrite\n- lexical\n- score")
	want(t, "what the models read with", c.readers.questions, []string{"winged words of the question"})
	want(t, "what the index was asked for", c.queries[0].Terms, []string{"wing", "word", "question"})
	if !strings.Contains(got.Trace[0].Why, `"winged words of the question" by scripted`) {
		t.Errorf("the report says %s", got.Trace[0].Why)
	}
	same := read(1, 2)
	same.judges = &scriptedJudges{rewrite: func(q string) string { return q }}
	if got := same.run(t, "- rewrite\n- lexical"); !strings.Contains(got.Trace[0].Why, "stays as it is") {
		t.Errorf("the report says %s", got.Trace[0].Why)
	}
}

// TestOneCandidateIsJudged: a single candidate is judged too, and dropped if it does not help.
func TestOneCandidateIsJudged(t *testing.T) {
	c := ranked([]float64{5})
	c.judges = judgedAs(0)
	got := c.run(t, "- dense\n- judge: {by: filter}\n- threshold: {score: judge, at: 1, empty: true}")
	if len(got.Candidates) != 1 || len(got.Context) != 0 {
		t.Errorf("of %d candidates %d are in the context (%s)", len(got.Candidates), len(got.Context), got.Trace[1].Why)
	}
}
