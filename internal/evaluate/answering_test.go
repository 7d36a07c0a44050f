package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// answers is an Answerer that calls a function of the test.
type answers func(plan string, q Topic) (Answered, error)

func (a answers) Ask(_ context.Context, plan string, q Topic) (Answered, error) { return a(plan, q) }

func nothingFound() *scripted {
	return &scripted{found: func(string, string) Found { return Found{Documents: []string{"gold"}} }}
}

func newAnswer(text string, supported bool, citations ...schema.Citation) Answered {
	return Answered{Answer: schema.Answer{Answer: text, Supported: supported, Citations: citations, Usage: schema.Usage{InputTokens: 100, OutputTokens: 10}}, Millis: 7}
}

func citation(confidence float64, text string) schema.Citation {
	return schema.Citation{Document: "gold", Quote: "It began in October 1973.", Answer: schema.ShortAnswer{Text: text, Confidence: confidence}}
}

// observed returns the measures of one answer to a question.
func observed(q Topic, a Answered) map[string]float64 {
	j := &judge([]Topic{q})[0]
	o := observation{answer: observeAnswer(j, &a, Prices{Input: 10, Output: 30})}
	out := map[string]float64{}
	for _, m := range answerMeasures {
		if v := m.of(&o); !math.IsNaN(v) {
			out[m.name] = v
		}
	}
	return out
}

func TestAnswersByHand(t *testing.T) {
	when := Topic{ID: "1", Text: "When did it begin?", Relevant: map[string]int{"gold": 1, "other": 1}, Answers: []string{"October 1973"}, Evidence: []string{"It began in October 1973. Oil was dear.", "Elsewhere later."}}
	impossible := when
	impossible.Unanswerable, impossible.Answers = true, []string{"Unable to answer"}
	choice := Topic{ID: "2", Text: "Which?", Answers: []string{"the second"}, Choices: []string{"First", "Second!", "Third"}}
	chosen := newAnswer("The second one.", true)
	chosen.Choice = 2
	paid := newAnswer("October 1973", true)
	paid.Usage.Cost, paid.Rounds = 0.5, 3
	known := newAnswer("October 1973", false)
	known.Uncited = true
	for _, c := range []struct {
		name   string
		q      Topic
		a      Answered
		want   map[string]float64
		absent []string
	}{
		// Exact match and F1 compare the short answer, the other measures the whole one.
		{"a short answer", when, newAnswer("It began in October 1973. [1]", true, citation(0.4, "It"), citation(0.9, "October 1973")), map[string]float64{
			"em": 1, "f1": 1, "em_whole": 0, "f1_whole": 2. * 0.4 / 1.4, "rouge_l": 2. * 0.4 / 1.4, "rouge_l_short": 1, "bleu_1": 0.4, "meteor_short": 1 - 0.5/8, "contains": 1,
			"citation_precision": 1, "citation_recall": 0.5, "quote_precision": 1, "quote_recall": 0.5, "answered": 1,
			"input_tokens": 100, "output_tokens": 10, "cost": (100*10 + 10*30) / 1e6, "rounds": 1}, []string{"unanswerable_accuracy", "choice_accuracy"}},
		{"no short answer: the text", when, newAnswer("In October 1973.", true, schema.Citation{Document: "wrong", Quote: "Nothing of it."}, schema.Citation{Document: "gold", Quote: "began in October 1973. Oil was dear."}),
			map[string]float64{"em": 0, "f1": 0.8, "f1_whole": 0.8, "citation_precision": 0.5, "citation_recall": 0.5, "quote_precision": 0.5, "quote_recall": 0.5}, nil},
		{"the documents do not say", when, newAnswer(schema.NoAnswer, false), map[string]float64{
			"em": 0, "f1": 0, "rouge_l": 0, "bleu_4": 0, "meteor": 0, "contains": 0, "answered": 0, "citation_recall": 0, "quote_recall": 0, "input_tokens": 100},
			[]string{"citation_precision", "quote_precision", "unanswerable_accuracy"}},
		{"rightly refused", impossible, newAnswer(schema.NoAnswer, false), map[string]float64{"unanswerable_accuracy": 1, "input_tokens": 100},
			[]string{"em", "f1", "contains", "answered", "citation_precision", "citation_recall"}},
		{"answered, where there is none", impossible, newAnswer("October 1973", true, citation(1, "1973")), map[string]float64{"unanswerable_accuracy": 0}, []string{"em", "citation_precision"}},
		{"from the model's own knowledge", when, known, map[string]float64{"em": 1, "answered": 1, "citation_recall": 0}, []string{"citation_precision"}},
		{"a cost that is stated, and rounds", when, paid, map[string]float64{"cost": 0.5, "rounds": 3, "em": 1}, nil},
		{"the right choice", choice, chosen, map[string]float64{"choice_accuracy": 1}, []string{"citation_recall", "quote_recall"}},
		{"no choice", choice, newAnswer("The second one.", true), map[string]float64{"choice_accuracy": 0}, nil},
		{"nothing known", Topic{ID: "3", Text: "Why?", Relevant: map[string]int{"gold": 1}}, newAnswer("So.", true), map[string]float64{"answered": 1, "citation_recall": 0},
			[]string{"em", "f1", "contains", "choice_accuracy", "unanswerable_accuracy", "quote_recall"}},
	} {
		got := observed(c.q, c.a)
		for name, want := range c.want {
			v, ok := got[name]
			if !ok {
				v = math.NaN()
			}
			near(t, c.name+": "+name, v, want)
		}
		for _, name := range c.absent {
			if v, ok := got[name]; ok {
				t.Errorf("%s: %s is %v, of nothing", c.name, name, v)
			}
		}
	}
}

func TestPlansAreComparedByTheirAnswers(t *testing.T) {
	d := questions(40)
	for i := range d.Queries {
		d.Queries[i].Answers = []string{"seven"}
	}
	d.Unanswerable = []Topic{{ID: "none", Text: "What of nothing?", Unanswerable: true}}
	r, err := Run(t.Context(), d, nothingFound(), Options{Plans: []string{"good", "half"}, Parallel: 3, Prices: Prices{Input: 10, Output: 30},
		Answerer: answers(func(plan string, q Topic) (Answered, error) {
			a := newAnswer("seven", !q.Unanswerable, schema.Citation{Document: "gold"})
			if plan == "half" {
				a.Usage = schema.Usage{InputTokens: 300, OutputTokens: 10}
				if strings.HasSuffix(q.Text, "1") || strings.HasSuffix(q.Text, "3") {
					a = newAnswer(schema.NoAnswer, false)
				}
			}
			return a, nil
		})})
	if err != nil {
		t.Fatal(err)
	}
	s := r.Summary()
	good, half := s.Plans[0], s.Plans[1]
	if s.Queries != 41 || s.Prices == nil || *s.Prices != (Prices{Input: 10, Output: 30}) || s.Nominal != 82 || good.Answering.P50 != 7 {
		t.Errorf("summary is %+v", s)
	}
	for name, want := range map[string]float64{"em": 1, "answered": 1, "citation_precision": 1, "unanswerable_accuracy": 1, "input_tokens": 100, "cost": 0.0013, "cost_efficiency": 1 / 0.0013, "ndcg@10": 1, "rounds": 1} {
		near(t, "good "+name, good.Metrics[name], want)
	}
	// The plan half does not answer the eight of forty questions that end in 1 or 3.
	for name, want := range map[string]float64{"em": 0.8, "answered": 0.8, "citation_precision": 1, "citation_recall": 0.8, "cost_efficiency": 0.8 / (0.8*0.0033 + 0.2*0.0013)} {
		near(t, "half "+name, half.Metrics[name], want)
	}
	compared := map[string]Difference{}
	for _, c := range s.Differences {
		compared[c.Metric] = c
	}
	for name, want := range map[string]float64{"em": -0.2, "f1": -0.2, "contains": -0.2, "citation_recall": -0.2, "cost_efficiency": half.Metrics["cost_efficiency"] - good.Metrics["cost_efficiency"]} {
		c, ok := compared[name]
		near(t, "difference in "+name, c.Difference, want)
		if !ok || c.P >= Significant || !(c.Interval.Low < want && want < c.Interval.High) {
			t.Errorf("%s: half against good is %+v", name, c)
		}
	}
	// On the questions for which both plans cite, their citations are equal.
	if c := compared["citation_precision"]; c.Difference != 0 || c.P != 1 {
		t.Errorf("citation_precision: half against good is %+v", c)
	}
	if tokens := compared["input_tokens"]; tokens.Difference <= 0 || tokens.P >= Significant {
		t.Errorf("input_tokens: half against good is %+v", tokens)
	}
	if table := s.Answers(); len(table.Columns) == 0 || !table.Rows[0].Cells[0].Best || table.Rows[1].Cells[0].Text != "0.8000" {
		t.Errorf("the table of answers is %+v", table)
	}
	if _, err := json.Marshal(s); err != nil { // NaN would be an error
		t.Error(err)
	}
	var page strings.Builder
	if err := WriteHTML(&page, []*Results{r}, []Summary{s}, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h3>Answers</h3>", "F1 against input tokens", "82 answers", "on whose answers the plans differ most"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	var lines strings.Builder
	if err := r.WriteQuestions(&lines); err != nil {
		t.Fatal(err)
	}
	var last QuestionFigures
	all := strings.Split(strings.TrimSpace(lines.String()), "\n")
	if err := json.Unmarshal([]byte(all[len(all)-1]), &last); err != nil || len(all) != 82 || last.Query != "none" || last.Plan != "half" ||
		last.Metrics["unanswerable_accuracy"] != 1 || last.Answer == nil || last.Answer.Millis != 7 {
		t.Errorf("%d lines, the last is %+v, %v", len(all), last, err)
	}
}

// TestAnswersAreMeasuredWithoutJudgements: a set may have questions with answers, and no judgements
// of documents.
func TestAnswersAreMeasuredWithoutJudgements(t *testing.T) {
	files := some()
	delete(files, "qrels/test.tsv")
	dir := folder(t, files)
	d, err := ReadDataset(dir, "test")
	if err != nil {
		t.Fatal(err)
	}
	if !d.AnswersAlone || len(d.Queries) == 0 || slices.ContainsFunc(d.Queries, func(q Topic) bool { return len(q.Answers) == 0 }) {
		t.Fatalf("read %+v", d)
	}
	results, err := Run(t.Context(), d, nothingFound(), Options{Plans: []string{"a"}, Parallel: 1, Answerer: answers(func(_ string, q Topic) (Answered, error) {
		return newAnswer(q.Answers[0], true), nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	of := results.Summary().Plans[0].Metrics
	if _, ranked := of["ndcg@10"]; ranked || of["em"] != 1 {
		t.Errorf("measured %v", of)
	}
	// Without answers and judgements nothing can be measured.
	files["queries.jsonl"] = `{"_id": "1", "text": "What is first?"}`
	if _, err := ReadDataset(folder(t, files), "test"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestAnswersThatFailAreCountedAndMany(t *testing.T) {
	d := questions(30)
	for i := range d.Queries {
		d.Queries[i].Answers = []string{"seven"}
	}
	broken := errors.New("the provider is gone")
	run := func(fails func(question string) bool) (*Results, error) {
		return Run(t.Context(), d, nothingFound(), Options{Plans: []string{"a"}, Parallel: 1, Answerer: answers(func(_ string, q Topic) (Answered, error) {
			if fails(q.Text) {
				return Answered{}, broken
			}
			return newAnswer("seven", true), nil
		})})
	}
	r, err := run(func(q string) bool { return strings.HasSuffix(q, "0") })
	if err != nil {
		t.Fatal(err)
	}
	got := r.Summary().Plans[0]
	near(t, "em", got.Metrics["em"], 0.9)
	near(t, "input_tokens", got.Metrics["input_tokens"], 100) // of the answers that did not fail
	if got.Errors != 3 {
		t.Errorf("%d answers failed, not 3", got.Errors)
	}
	if _, err := run(func(string) bool { return true }); !errors.Is(err, broken) || !strings.Contains(err.Error(), fmt.Sprint("question ", maxFailures-1)) {
		t.Errorf("with every answer failing the error is %v", err)
	}
}

func TestUnanswerableQuestionsAreTold(t *testing.T) {
	for text, want := range map[string]bool{
		`{"answers":["x"]}`:        false,
		`{}`:                       false, // nothing is known
		`{"answers":[]}`:           true,
		`{"unanswerable":true}`:    true,
		`{"is_impossible":true}`:   true,
		`{"type":7,"answers":"x"}`: false,
		`{"type":"Irrelevant Unsolvable Question","answers":["Unable to answer"]}`: true,
	} {
		var m queryMetadata
		if err := json.Unmarshal([]byte(text), &m); err != nil || m.unanswerable() != want {
			t.Errorf("%s: unanswerable %v, %v", text, m.unanswerable(), err)
		}
	}
}
