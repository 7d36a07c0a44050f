package e2e

// This file has answers judged by a scripted language model, which gives a fixed answer to each
// question and a fixed verdict on each answer.

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/schema"
)

// graded is a question, with the scripted model's answer and its reply when it judges this answer.
// Without a verdict, the server returns an error.
type graded struct{ question, text, right, answer, verdict string }

// gradedQuestions are about documents without common words.
var gradedQuestions = []graded{
	{"Where do bees store honey?", "Bees store honey in wax combs.", "wax combs", "Wax combs.", `{"correct": true}`},
	{"How wide is the gauge of rails?", "The gauge of steel rails is 1,435 millimetres.", "1435 mm", "It is 1,435 millimetres.", `{"correct": "1"}`},
	{"What holds ships?", "Anchors hold ships in a storm.", "anchors", "Storms hold ships.", "Here it is: {\"correct\": false}"},
	{"When are tea leaves dried?", "Tea leaves are dried after rolling.", "after rolling", "After rolling.", "I cannot tell."},
	{"Who minted the copper coin?", "The copper coin was minted by Anna Torvald.", "Anna Torvald", "Anna Torvald.", ""},
}

// scriptedGrader is the scripted model.
type scriptedGrader struct {
	*httptest.Server
	mu       sync.Mutex
	verdicts map[string]string // by question
	judged   []string          // the judged questions, in order
	answered int
	tokens   int64 // number of input tokens that it has reported
}

func newScriptedGrader(t *testing.T) *scriptedGrader {
	s := &scriptedGrader{verdicts: map[string]string{}}
	for _, q := range gradedQuestions {
		s.verdicts[q.question] = q.verdict
	}
	s.Server = httptest.NewServer(http.HandlerFunc(s.complete))
	t.Cleanup(s.Close)
	return s
}

func (s *scriptedGrader) complete(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages []struct{ Content string } `json:"messages"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	system, user := request.Messages[0].Content, request.Messages[1].Content
	var of graded
	for _, q := range gradedQuestions {
		if strings.Contains(user, "Question: "+q.question) || strings.Contains(user, q.question) {
			of = q
		}
	}
	content := ""
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case strings.Contains(system, `{"correct"`):
		if len(request.Messages) == 2 { // not when the reply is asked for again
			s.judged = append(s.judged, of.question)
		}
		if content = s.verdicts[of.question]; content == "" {
			http.Error(w, `{"error":{"message":"scripted failure"}}`, http.StatusBadRequest)
			return
		}
		if !strings.Contains(user, "\n"+of.answer+"\n") || !strings.Contains(user, "\n"+of.right+"\n") {
			content = "that is not what was answered"
		}
	case strings.Contains(system, `"scores"`): // the check of citations
		content = `{"scores": [1]}`
	default:
		s.answered++
		said, _ := json.Marshal(map[string]any{"answer": of.answer, "citations": []any{map[string]any{"sentence": 1, "passage": 1, "quote": of.text}}})
		content = string(said)
	}
	s.tokens += 100
	_ = complete(w, "grader", content, 100, 10)
}

// take returns the questions whose answers were judged since the previous call, and the number of
// answers.
func (s *scriptedGrader) take() (judged []string, answered int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	judged, answered = s.judged, s.answered
	s.judged, s.answered = nil, 0
	return judged, answered
}

// counted returns the number of input tokens that the model has reported so far.
func (s *scriptedGrader) counted() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens
}

// wordOf sets the model's verdict on a question's answer.
func (s *scriptedGrader) wordOf(question, verdict string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verdicts[question] = verdict
}

// judgedReport has the fields of `sluice eval --judge --json` that are tested here.
type judgedReport struct {
	Plans []struct {
		Metrics   map[string]float64
		Intervals map[string]schema.Interval
		Judging   *schema.Judging
	}
}

// testJudge has answers judged. The report says how far labels agree with the judge, and how many
// verdicts are missing. A matrix that is continued asks for no verdict twice.
func testJudge(t *testing.T, p programs) {
	model := newScriptedGrader(t)
	s := p.up(t, localtest.Dir(t), "SLUICE_LLM_PROVIDER=openai", "SLUICE_LLM_BASE_URL="+model.URL+"/v1/", "SLUICE_LLM_MODEL=grader", "SLUICE_LLM_FORMAT=json_object",
		"SLUICE_LLM_PRICE=1/2", "SLUICE_LLM_CACHE_AGE=0")
	files := map[string]string{}
	line := func(file string, v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		files[file] += string(text) + "\n"
	}
	for i, q := range gradedQuestions {
		id := fmt.Sprint(i)
		line("set/corpus.jsonl", map[string]any{"_id": id, "text": q.text})
		line("set/queries.jsonl", map[string]any{"_id": id, "text": q.question, "metadata": map[string]any{"answers": []string{q.right}}})
		files["set/qrels/test.tsv"] += id + "\t" + id + "\t1\n"
		line("labels.jsonl", map[string]any{"query": id, "correct": i != 1})
	}
	line("others.jsonl", map[string]any{"query": "nobody", "correct": true})
	files["wrong.jsonl"] = `{"query": "1", "right": true}`
	base := write(t, files)
	set, labels, page := filepath.Join(base, "set"), filepath.Join(base, "labels.jsonl"), filepath.Join(base, "report.html")

	// Errors are reported before the model is asked.
	s.sluice(t, "eval", set, "--plan", "naive", "--judge").fails(t, "judge", "--answers")
	s.sluice(t, "eval", set, "--plan", "naive", "--answers", "--judge-labels", labels).fails(t, "judge-labels", "--judge")
	s.sluice(t, "eval", set, "--plan", "naive", "--answers", "--judge", "--judge-labels", filepath.Join(base, "wrong.jsonl")).fails(t, "wrong.jsonl, line 1", "right")
	s.sluice(t, "eval", set, "--plan", "naive", "--answers", "--judge", "--judge-labels", filepath.Join(base, "others.jsonl")).fails(t, "others.jsonl", "none of the questions")
	if judged, answered := model.take(); len(judged)+answered > 0 {
		t.Errorf("it was asked %q, and answered %d", judged, answered)
	}

	r := s.sluice(t, "eval", set, "--plan", "naive", "--answers", "--judge", "--judge-labels", labels, "--json", "-", "--html", page, "--parallel", "1").ok(t)
	got := into[judgedReport](t, r).Plans[0]
	judged, answered := model.take() // a failed call is repeated
	if len(slices.Compact(judged)) != len(gradedQuestions) || answered != len(gradedQuestions) {
		t.Errorf("judged %q, answered %d", judged, answered)
	}
	j := got.Judging
	if j == nil || j.Model != "openai/grader" || j.Judged != 3 || j.Unreadable != 1 || j.Failed != 1 || len(j.Agreement) != 3 {
		t.Fatalf("the judge is %+v: %v", j, r)
	}
	// The unreadable reply was asked for twice. The failed call does not count.
	if j.InputTokens != 500 || j.OutputTokens != 50 || j.Cost < 0.000599 || j.Cost > 0.000601 {
		t.Errorf("it took %d and %d tokens, for $%g", j.InputTokens, j.OutputTokens, j.Cost)
	}
	if v := got.Metrics["correctness"]; v != 2./3 || got.Intervals["correctness"].High < v {
		t.Errorf("correctness is %g, %+v", v, got.Intervals["correctness"])
	}
	for i, want := range []float64{2. / 3, 2. / 3, 1. / 3} { // by EM and contains only the second answer is wrong; by people only the second of the three is right
		if a := j.Agreement[i]; a.Answers != 3 || math.Abs(a.Agreement-want) > 1e-9 || a.Kappa == nil {
			t.Errorf("agreement is %+v, not %g", a, want)
		}
	}
	for _, want := range []string{"openai/grader", "kappa", "people"} {
		if !strings.Contains(r.err, want) {
			t.Errorf("the table has no %q: %s", want, r.err)
		}
		if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("the report has no %q: %v", want, err)
		}
	}

	// In a matrix, the second run asks for the missing verdict, and the third for none.
	put(t, base, "matrix.yaml", "datasets: [set]\nplans: [naive, bm25]\nanswers: true\njudge: true\njudge_labels: labels.jsonl\nmetrics: [correctness, em]\nparallel: 1\n")
	out := filepath.Join(base, "figures")
	args := []string{"eval", "--matrix", filepath.Join(base, "matrix.yaml"), "--out", out}
	s.sluice(t, args...).ok(t).has(t, "correct", "openai/grader", "kappa")
	if judged, answered := model.take(); len(slices.Compact(judged)) != len(gradedQuestions) || answered != 2*len(gradedQuestions) {
		t.Errorf("judged %q, answered %d", judged, answered)
	}
	model.wordOf(gradedQuestions[4].question, `{"correct": true}`)
	s.sluice(t, args...).ok(t)
	if judged, answered := model.take(); len(judged) != 2 || judged[0] != gradedQuestions[4].question || answered != 2 {
		t.Errorf("the second run had judged %q, answered %d", judged, answered)
	}
	s.sluice(t, args...).ok(t)
	if judged, answered := model.take(); len(judged)+answered != 0 {
		t.Errorf("the third run had judged %q, answered %d", judged, answered)
	}
	var matrix struct {
		Combination struct {
			Judged []struct {
				Dataset string
				Rows    []struct {
					Row string
					schema.Judging
				}
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(out, "matrix.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &matrix); err != nil || len(matrix.Combination.Judged) != 1 || len(matrix.Combination.Judged[0].Rows) != 2 {
		t.Fatalf("the matrix has %+v, %v", matrix, err)
	}
	for _, row := range matrix.Combination.Judged[0].Rows {
		if row.Judged != 4 || row.Failed != 0 || row.Unreadable != 1 || len(row.Agreement) != 3 {
			t.Errorf("row %s has %+v", row.Row, row.Judging)
		}
	}
	if tables, err := os.ReadFile(filepath.Join(out, "matrix.md")); err != nil || !strings.Contains(string(tables), "## The judge, set") || !strings.Contains(string(tables), "openai/grader") {
		t.Errorf("the tables are %s, %v", tables, err)
	}
	put(t, base, "two.yaml", "datasets: [set]\nplans: [naive]\nsettings: [{}, {name: other, language_model: {model: other}}]\nanswers: true\njudge: true\n")
	p.run(t, nil, "sluice", "eval", "--matrix", filepath.Join(base, "two.yaml"), "--out", out+"2", "--data", localtest.Dir(t)).fails(t, "judge", "naive, other", "matrix of its own")
	if booked := as[schema.LLMUsage](t, s.call(t, http.MethodGet, "/v1/usage", nil).want(t, http.StatusOK)).Day; booked.InputTokens != model.counted() {
		t.Errorf("the books have %d tokens, and the model counted %d", booked.InputTokens, model.counted())
	}
	s.checkStored(t)
	s.stop(t)
}
