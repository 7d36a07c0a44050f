package e2e

// This file asks sixty plain questions about the examples and about company filings in PDF, as a
// new user would: about facts, tables, dates, people and comparisons, in another language,
// follow-up questions without their context, and questions that the documents do not answer. The
// questions are older than the models and thresholds, which must not be tuned to them.

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

// plainQuestion is a line of testdata/plain/questions.jsonl. The documents do not answer a question
// without answers, so refusing it is right.
type plainQuestion struct {
	On, Kind, Question string
	Answers            []string // each of them is right
}

const (
	// sure is the confidence from which an answer is shown as certain.
	sure = 0.5
	// minRight is the minimum number of right answers and right refusals, and maxWrongAndSure the
	// maximum number of wrong answers that are shown as certain. They are the results of the
	// shipped pack, each worse by one. The aims are 45 and 3.
	minRight, maxWrongAndSure = 42, 6
)

func testPlainQuestions(t *testing.T, s *server) {
	filings := datasetFolder(t, "filings", "pdf")
	if filings == "" {
		return
	}
	in := into[ingested](t, s.sluice(t, "ingest", filings, "--collection", "filings", "--wait", "--json").ok(t))
	if in.Ready != in.Found || in.Found == 0 {
		t.Fatalf("of the filings: %+v", in)
	}
	testRisk(t, s)
	var right, wrongAndSure int
	kinds := map[string][2]int{}
	for _, q := range lines[plainQuestion](t, filepath.Join(s.repository, "e2e", "testdata", "plain", "questions.jsonl")) {
		a := into[schema.Answer](t, s.sluice(t, "ask", q.Question, "--collection", q.On, "--json").ok(t))
		ok := q.rightly(a)
		count := kinds[q.Kind]
		count[1]++
		if ok {
			right++
			count[0]++
		}
		kinds[q.Kind] = count
		confidence := surest(a)
		if !ok && a.Supported && confidence >= sure {
			wrongAndSure++
		}
		if !ok {
			t.Logf("%s: %q: want %q, got %q (%.2f)", q.On, q.Question, q.Answers, a.Answer, confidence)
		}
	}
	var by []string
	for kind, n := range kinds {
		by = append(by, fmt.Sprintf("%s %d of %d", kind, n[0], n[1]))
	}
	slices.Sort(by)
	t.Logf("of 60 plain questions %d are answered rightly or rightly refused (at least %d), %d wrong and sure (at most %d): %s",
		right, minRight, wrongAndSure, maxWrongAndSure, strings.Join(by, ", "))
	if right < minRight || wrongAndSure > maxWrongAndSure {
		t.Errorf("%d right, want %d; %d wrong and sure, want at most %d", right, minRight, wrongAndSure, maxWrongAndSure)
	}
}

// testRisk asks with risks of 0 and 1, which hold back every answer and none.
func testRisk(t *testing.T, s *server) {
	ask := func(more ...string) schema.Answer {
		t.Helper()
		return into[schema.Answer](t, s.sluice(t, append([]string{"ask", "How much oil does the gearbox of the KD-40 hold?", "-c", "examples", "--json"}, more...)...).ok(t))
	}
	if a := ask("--risk", "1"); !a.Supported || len(a.Citations) == 0 || surest(a) == 0 {
		t.Errorf("at any risk: %+v", a)
	}
	if a := ask("--risk", "0"); a.Supported || a.Answer != schema.NoAnswer || len(a.Citations) == 0 {
		t.Errorf("at no risk the nearest passages alone are shown: %+v", a)
	}
	job := into[schema.Job](t, s.sluice(t, "ask", "How much oil does the gearbox of the KD-40 hold?", "-c", "examples", "--risk", "0", "--async", "--wait", "--json").ok(t))
	if job.Result == nil || job.Result.Supported || len(job.Result.Citations) == 0 {
		t.Errorf("a job at no risk: %+v", job.Result)
	}
	s.sluice(t, "ask", "How much?", "-c", "examples", "--risk", "1.5").fails(t, "risk", "from 0 to 1")
}

// rightly reports whether the answer contains one of the question's answers, or is a refusal if the
// question has none.
func (q plainQuestion) rightly(a schema.Answer) bool {
	if !a.Supported {
		return len(q.Answers) == 0
	}
	return slices.ContainsFunc(q.Answers, func(want string) bool { return containsAll(a.Answer, []string{want}) })
}

// surest returns the highest confidence of an answer's citations.
func surest(a schema.Answer) (confidence float64) {
	for _, c := range a.Citations {
		confidence = max(confidence, c.Answer.Confidence)
	}
	return confidence
}

// datasetFolder returns the folder of a dataset that is not part of the repository. Without it, it
// returns ""; in continuous integration the test fails.
func datasetFolder(t *testing.T, parts ...string) string {
	t.Helper()
	root := os.Getenv("SLUICE_DATASETS")
	if root == "" {
		root = filepath.Join("..", "..", "shared", "datasets")
	}
	dir, err := filepath.Abs(filepath.Join(append([]string{root}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("the dataset %s is missing: set SLUICE_DATASETS to the folder that holds it", dir)
		}
		t.Logf("NOT CHECKED: the dataset %s is missing; set SLUICE_DATASETS to the folder that holds it", dir)
		return ""
	}
	return dir
}
