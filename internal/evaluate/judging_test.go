package evaluate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// judges is a Judge that calls a function of the test.
type judges func(q Topic, answer string) (schema.Judgement, error)

func (j judges) Judge(_ context.Context, q Topic, answer string) (schema.Judgement, error) {
	return j(q, answer)
}

func verdictOf(correct bool) schema.Judgement {
	return schema.Judgement{Model: "openai/scripted", Correct: &correct, Usage: schema.Usage{InputTokens: 10, OutputTokens: 2, Cost: 0.25}}
}

// TestKappaByHand: both rate 20 of 50 answers right and 15 wrong; only the judge rates 5 right, and
// only the labels 10. Agreement is 35/50 = 0.7; by chance it is 25/50 * 30/50 + 25/50 * 20/50 =
// 0.5; kappa is (0.7 - 0.5) / (1 - 0.5).
func TestKappaByHand(t *testing.T) {
	var judge, labels []float64
	for _, x := range []struct {
		judge, label float64
		n            int
	}{{1, 1, 20}, {0, 0, 15}, {1, 0, 5}, {0, 1, 10}} {
		for range x.n {
			judge, labels = append(judge, x.judge), append(labels, x.label)
		}
	}
	got := agreementOf(judge, labels)
	near(t, "agreement", got.Agreement, 0.7)
	if got.Kappa == nil || got.KappaInterval == nil {
		t.Fatalf("got %+v", got)
	}
	near(t, "kappa", *got.Kappa, 0.4)
	if got.Answers != 50 || !(got.Interval.Low < 0.7 && got.Interval.High > 0.7 && got.Interval.Low > 0.5 && got.Interval.High < 0.9) {
		t.Errorf("got %+v", got)
	}
	if i := *got.KappaInterval; !(i.Low < 0.4 && i.High > 0.4 && i.Low > 0 && i.High < 0.7) {
		t.Errorf("the interval of kappa is %+v", i)
	}
}

// TestKappaAtItsEnds: kappa is 1 if both always agree, negative if they never do, and undefined if
// both rate all answers alike.
func TestKappaAtItsEnds(t *testing.T) {
	for name, x := range map[string]struct {
		judge, labels []float64
		alike, kappa  float64
	}{
		"always":             {[]float64{1, 0, 1, 0}, []float64{1, 0, 1, 0}, 1, 1},
		"never":              {[]float64{1, 0}, []float64{0, 1}, 0, -1},
		"one says one thing": {[]float64{1, 1, 1, 1}, []float64{1, 0, 1, 0}, 0.5, 0},
		"all alike":          {[]float64{1, 1}, []float64{1, 1}, 1, math.NaN()},
		"all wrong to both":  {[]float64{0, 0}, []float64{0, 0}, 1, math.NaN()},
	} {
		got := agreementOf(x.judge, x.labels)
		near(t, name, got.Agreement, x.alike)
		if (got.Kappa == nil) != math.IsNaN(x.kappa) || (got.Kappa == nil) != (got.KappaInterval == nil) {
			t.Errorf("%s: got %+v", name, got)
		} else if got.Kappa != nil {
			near(t, name, *got.Kappa, x.kappa)
		}
	}
}

// judgedSet has questions whose answers are judged, and others.
func judgedSet() *Dataset {
	d := questions(6)
	for i := range d.Queries {
		d.Queries[i].Answers = []string{"seven"}
	}
	d.Queries[5].Answers = nil
	d.Unanswerable = []Topic{{ID: "none", Text: "Who?", Unanswerable: true, Answers: []string{"nobody"}}}
	return d
}

// TestAnswersAreJudged: refusals are wrong without a call, unreadable and failed judgements have no
// value, and answers to questions without a right answer are not judged. A second run with the
// stored results makes no calls.
func TestAnswersAreJudged(t *testing.T) {
	d := judgedSet()
	byQuestion := map[string]Answered{"q0": newAnswer("It is seven. [1]", true, citation(0.9, "seven")), "q1": newAnswer("7", true), "q2": newAnswer("It is seven or eight.", true),
		"q3": newAnswer("It is eight.", true), "q4": newAnswer(schema.NoAnswer, false), "q5": newAnswer("Seven.", true), "none": newAnswer("Me.", true)}
	answerer := answers(func(_ string, q Topic) (Answered, error) { return byQuestion[q.ID], nil })
	var mu sync.Mutex
	asked := map[string]string{}
	judge := judges(func(q Topic, answer string) (schema.Judgement, error) {
		mu.Lock()
		defer mu.Unlock()
		asked[q.ID] += answer
		switch q.ID {
		case "q2":
			return schema.Judgement{Model: "openai/scripted", Usage: schema.Usage{InputTokens: 10, OutputTokens: 2, Cost: 0.25}}, nil
		case "q3":
			return schema.Judgement{}, errors.New("the server is busy")
		}
		return verdictOf(true), nil
	})
	kept := &memory{known: map[string]QuestionFigures{}}
	labels := labelled(t, `{"query": "q0", "correct": true}`, `{"query": "q1", "correct": true}`, `{"query": "q1", "plan": "p", "correct": false}`, `{"query": "q2", "correct": true}`)
	run := func(j Judge) Summary {
		t.Helper()
		r, err := Run(t.Context(), d, nothingFound(), Options{Plans: []string{"p"}, Parallel: 2, Answerer: answerer, Judge: j, HumanLabels: labels, Kept: kept})
		if err != nil {
			t.Fatal(err)
		}
		return r.Summary()
	}
	s := run(judge)
	if len(asked) != 4 || asked["q0"] != "It is seven." || asked["q1"] != "7" {
		t.Errorf("judged were %q", asked)
	}
	p := s.Plans[0]
	near(t, "correctness", p.Metrics["correctness"], 2./3) // q0, q1 and the refusal
	if i, ok := p.Intervals["correctness"]; !ok || i.Low > 2./3 || i.High < 2./3 {
		t.Errorf("its interval is %+v", i)
	}
	j := p.Judging
	if j == nil || j.Model != "openai/scripted" || j.Judged != 2 || j.Failed != 1 || j.Unreadable != 1 || j.InputTokens != 30 || j.OutputTokens != 6 || j.Cost != 0.75 || len(j.Agreement) != 3 {
		t.Fatalf("the judge is %+v", j)
	}
	for i, want := range []schema.JudgeAgreement{{With: "em", Answers: 2, Agreement: 0.5}, {With: "contains", Answers: 2, Agreement: 0.5}, {With: "human", Answers: 2, Agreement: 0.5}} {
		if a := j.Agreement[i]; a.With != want.With || a.Answers != want.Answers || a.Agreement != want.Agreement || a.Kappa == nil || *a.Kappa != 0 {
			t.Errorf("agreement with %s is %+v", want.With, a)
		}
	}
	before, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(run(judges(func(q Topic, _ string) (schema.Judgement, error) {
		t.Errorf("%s is judged again", q.ID)
		return schema.Judgement{}, nil
	})))
	if err != nil || !bytes.Equal(before, again) {
		t.Errorf("what was kept gives %s, not %s, %v", again, before, err)
	}
}

// TestOneAnswerIsJudged: one judged answer is reported without kappa, and without a judged answer
// there is no report.
func TestOneAnswerIsJudged(t *testing.T) {
	d := questions(1)
	d.Queries[0].Answers = []string{"seven"}
	o := Options{Plans: []string{"p"}, Parallel: 1, Answerer: answers(func(string, Topic) (Answered, error) { return newAnswer("Seven.", true), nil })}
	judging := func() *schema.Judging {
		t.Helper()
		r, err := Run(t.Context(), d, nothingFound(), o)
		if err != nil {
			t.Fatal(err)
		}
		return r.Summary().Plans[0].Judging
	}
	if j := judging(); j != nil {
		t.Errorf("nobody judged: %+v", j)
	}
	o.Judge = judges(func(Topic, string) (schema.Judgement, error) { return verdictOf(true), nil })
	if j := judging(); j == nil || j.Judged != 1 || len(j.Agreement) != 2 || j.Agreement[0].Agreement != 1 || j.Agreement[0].Kappa != nil {
		t.Errorf("the judge is %+v", j)
	}
	d.Queries[0].Answers = []string{" "}
	if j := judging(); j != nil {
		t.Errorf("there is no right answer: %+v", j)
	}
}

// TestTheJudgeIsInEveryReport, with failures and agreement.
func TestTheJudgeIsInEveryReport(t *testing.T) {
	d := judgedSet() // of q0, q1, q3 and q4 the judge rates q0 and q4 right, the labels all but q1
	n := 0
	judge := judges(func(q Topic, _ string) (schema.Judgement, error) {
		if n++; q.ID == "q2" {
			return schema.Judgement{Model: "openai/scripted"}, nil
		}
		return verdictOf(n%2 == 1), nil
	})
	r, err := Run(t.Context(), d, nothingFound(), Options{Plans: []string{"p"}, Parallel: 1, Judge: judge, Answerer: answers(func(_ string, q Topic) (Answered, error) {
		if q.ID == "q1" {
			return newAnswer("Eight.", true), nil
		}
		return newAnswer("Seven.", true), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	s := r.Summary()
	set := &Set{Dataset: "set"}
	set.Add(r, func(plan string) string { return plan })
	c := Combine([]*Set{set}, []string{"correctness"}, "p")
	var page, matrix, tables bytes.Buffer
	if err := errors.Join(WriteHTML(&page, []*Results{r}, []Summary{s}, ""), WriteMatrixHTML(&matrix, c, []*Results{r}, []Summary{s}, ""), c.WriteMarkdown(&tables, "m", "")); err != nil {
		t.Fatal(err)
	}
	if len(c.Judged) != 1 || len(c.Judged[0].Rows) != 1 || c.Judged[0].Rows[0].Unreadable != 1 {
		t.Errorf("the combination has %+v", c.Judged)
	}
	for name, text := range map[string]string{"HTML": page.String(), "a matrix in HTML": matrix.String(), "Markdown": tables.String()} {
		for _, want := range []string{"openai/scripted", "kappa", "EM", "contains", "0.750 (", "0.500 ("} {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %q", name, want)
			}
		}
	}
	if got := s.Judged().Table(); len(got.Columns) != len(got.Rows[0].Cells) || got.Rows[0].Cells[1].Text != "4" || got.Rows[0].Cells[3].Text != "1" || got.Rows[1].Plan != "" {
		t.Errorf("the table is %+v", got)
	}
	if answers := s.Answers(); !strings.Contains(strings.Join(answers.Columns, ","), "correct") {
		t.Errorf("the answers have %q", answers.Columns)
	}
	if (Summary{}).Judged().Table().Columns != nil {
		t.Error("there is a table where nobody judged")
	}
}

// TestJudgingEndsWhenNobodyJudges: an exhausted budget ends the run, with its reason.
func TestJudgingEndsWhenNobodyJudges(t *testing.T) {
	d := questions(2 * maxFailures)
	for i := range d.Queries {
		d.Queries[i].Answers = []string{"seven"}
	}
	asked := 0
	judge := judges(func(Topic, string) (schema.Judgement, error) {
		asked++
		return schema.Judgement{}, errors.New("the budget is used up")
	})
	o := Options{Plans: []string{"p"}, Parallel: 1, Judge: judge, Answerer: answers(func(string, Topic) (Answered, error) { return newAnswer("Seven.", true), nil })}
	if _, err := Run(t.Context(), d, nothingFound(), o); err == nil || asked != maxFailures || !strings.Contains(err.Error(), "the budget is used up") || !strings.Contains(err.Error(), "judgements") {
		t.Errorf("asked %d, %v", asked, err)
	}
	// Failures with a verdict in between do not end the run. They are counted.
	n := 0
	o.Judge = judges(func(Topic, string) (schema.Judgement, error) {
		if n++; n%maxFailures == 0 {
			return verdictOf(true), nil
		}
		return schema.Judgement{}, errors.New("the server is busy")
	})
	r, err := Run(t.Context(), d, nothingFound(), o)
	if err != nil {
		t.Fatal(err)
	}
	if j := r.Summary().Plans[0].Judging; j.Judged != 2 || j.Failed != 2*maxFailures-2 {
		t.Errorf("the judge is %+v", j)
	}
	var wrong *schema.FieldError
	o.Answerer = nil
	if _, err := Run(t.Context(), d, nothingFound(), o); !errors.As(err, &wrong) || wrong.Field != "judge" {
		t.Errorf("without answers: %v", err)
	}
}

// labelled parses lines of labels.
func labelled(t *testing.T, lines ...string) HumanLabels {
	t.Helper()
	l, err := ReadHumanLabels(labelFile(t, lines...))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func labelFile(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "labels.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheClosestLabelCounts(t *testing.T) {
	l := labelled(t, "\xef\xbb\xbf"+`{"query": "1", "correct": true}`, "", `{"query": "1", "plan": "b", "correct": false}`, `{"query": "1", "plan": "b", "answer": "It  is seven.", "correct": true}`,
		`{"query": "2", "dataset": "other", "correct": true}`, `{"query": "5", "correct": true}`, `{"query": "5", "dataset": "set", "correct": false}`, `{"query": "3", "answer": "Eight.", "correct": false}`, `{"query": "3", "answer": "Eight.", "correct": false}`)
	for _, c := range []struct {
		plan, query, answer string
		correct, known      bool
	}{
		{"a", "1", "Eight.", true, true}, {"b", "1", "Eight.", false, true}, {"b", "1", "It is\nseven.", true, true}, {"a", "2", "x", false, false},
		{"a", "3", "Nine.", false, false}, {"a", "3", "Eight.", false, true}, {"a", "4", "x", false, false}, {"a", "5", "x", false, true},
	} {
		if correct, known := l.For("set").of(c.plan, c.query, c.answer); correct != c.correct || known != c.known {
			t.Errorf("%+v: %v, %v", c, correct, known)
		}
	}
	if _, known := (HumanLabels{}).For("set").of("a", "1", ""); known {
		t.Error("none has a label")
	}
	d := &Dataset{Name: "set", Queries: []Topic{{ID: "2"}}}
	if l.Label(d) {
		t.Error("it labels another dataset's question")
	}
	if d.Name = "other"; !l.Label(d) {
		t.Error("it does not label its dataset's question")
	}
}

func TestWrongLabelsAreNamed(t *testing.T) {
	const good = `{"query": "1", "correct": true}`
	for name, x := range map[string]struct {
		lines   []string
		message []string
	}{
		"nothing":         {[]string{"", " "}, []string{"no label"}},
		"no JSON":         {[]string{good, "1,true"}, []string{"line 2", `{"query"`}},
		"no id":           {[]string{`{"correct": true}`}, []string{"line 1", "query"}},
		"no verdict":      {[]string{good, "", `{"query": "2"}`}, []string{"line 3", "correct"}},
		"a word":          {[]string{`{"query": "1", "correct": "yes"}`}, []string{"line 1"}},
		"another field":   {[]string{`{"id": "1", "correct": true}`}, []string{"line 1", `"id"`}},
		"two objects":     {[]string{good + good}, []string{"line 1", "more than one"}},
		"a contradiction": {[]string{good, `{"query": "1", "correct": false}`}, []string{"line 2", `"1"`, "plan"}},
		"Latin-1":         {[]string{"{\"query\": \"caf\xe9\", \"correct\": true}"}, []string{"line 1", "UTF-8"}},
	} {
		path := labelFile(t, x.lines...)
		_, err := ReadHumanLabels(path)
		for _, want := range append(x.message, path) {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", name, err, want)
			}
		}
	}
	if _, err := ReadHumanLabels(filepath.Join(t.TempDir(), "none.jsonl")); err == nil || !strings.Contains(err.Error(), "none.jsonl") {
		t.Errorf("a file that is not there: %v", err)
	}
}
