package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
)

func questionsFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLabelledQuestionsAreRead(t *testing.T) {
	want := []schema.LabelledQuestion{{Question: "Who?", Answers: []string{"Ann", "Anna"}}, {Question: "When, and where?", Answers: []string{"1931"}}}
	for name, content := range map[string]string{
		"nq.jsonl":   "\xef\xbb\xbf{\"question\": \"Who?\", \"answer\": [\"Ann\", \"Anna\"]}\n\n{\"question\": \"When, and where?\", \"answer\": \"1931\"}\n",
		"beir.jsonl": `{"_id": "1", "text": "Who?", "metadata": {"answers": ["Ann", "Anna"]}}` + "\n" + `{"_id": "2", "text": "When, and where?", "metadata": {"answers": ["1931"]}}`,
		"again.json": `{"question": "Who?", "answers": "Ann"}` + "\n" + `{"question": "When, and where?", "answers": ["1931"]}` + "\n" + `{"question": " Who? ", "answers": ["Anna", "Ann"]}`,
		"list.CSV":   "Answers,id,Question\n\"[\"\"Ann\"\", \"\"Anna\"\"]\",1,Who?\n1931,2,\"When, and where?\"\n",
	} {
		got, err := readLabelledQuestions(questionsFile(t, name, content))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestBadQuestionFilesAreNamed(t *testing.T) {
	for name, c := range map[string]struct{ file, content, message string }{
		"nothing":       {"a.jsonl", "\n", "a.jsonl: has no question"},
		"no JSON":       {"a.jsonl", "{\"question\": \"Who?\", \"answer\": \"A\"}\nWho?\n", "a.jsonl:2: is not a JSON object of a question"},
		"no answer":     {"a.jsonl", `{"question": "Who?"}`, "a.jsonl:1: answers: there are 0"},
		"no question":   {"a.jsonl", `{"answer": ["A"]}`, "a.jsonl:1: question: is empty"},
		"a number":      {"a.jsonl", `{"question": "Who?", "answer": 7}`, "neither a string nor a list"},
		"empty answer":  {"a.csv", "question,answer\nWho?,\n", "a.csv:2: answers: one is empty"},
		"other columns": {"a.csv", "q,a\nWho?,A\n", "a.csv:1: the header \"q,a\" has no columns question and answer"},
		"ragged":        {"a.csv", "question,answer\nWho?,A,B\n", "line 2"},
		"Latin-1":       {"a.jsonl", "{\"question\": \"Wer f\xfchrt?\", \"answer\": \"A\"}", "a.jsonl:1: is not UTF-8"},
		"Latin-1 too":   {"a.csv", "question,answer\nWer f\xfchrt?,A\n", "a.csv:2: is not UTF-8"},
		"a long line":   {"a.jsonl", `{"question": "` + strings.Repeat("x", maxQuestionsLine) + `"}`, "a line of more than"},
		"a long one":    {"a.jsonl", `{"question": "` + strings.Repeat("x", schema.MaxQuestion+1) + `", "answer": "A"}`, "over 20000 characters"},
	} {
		_, err := readLabelledQuestions(questionsFile(t, c.file, c.content))
		if err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: got %v, want %q", name, err, c.message)
		}
	}
	if _, err := readLabelledQuestions(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("a folder: %v", err)
	}
}

func TestADrawKeepsItsQuestions(t *testing.T) {
	var all []schema.LabelledQuestion
	for _, w := range strings.Fields("one two three four five six seven") {
		all = append(all, schema.LabelledQuestion{Question: w})
	}
	few, more := sampleQuestions(all, 3), sampleQuestions(all, 5)
	if len(few) != 3 || !reflect.DeepEqual(few, more[:3]) || len(sampleQuestions(all, 0)) != 7 || len(sampleQuestions(all, 9)) != 7 {
		t.Errorf("%v is not the beginning of %v", few, more)
	}
}

func TestABudgetIsSharedAndKept(t *testing.T) {
	b := (&labelFlags{Calls: 6, Cost: 1, Parallel: 2}).budget()
	if calls, dollars := b.reserve(4); calls != 4 || dollars != .5 {
		t.Errorf("got %d calls and $%g", calls, dollars)
	}
	if calls, _ := b.reserve(4); calls != 2 {
		t.Errorf("got %d calls of 2 left", calls)
	}
	b.settle(3, .25) // three were not made
	if calls, dollars := b.reserve(4); calls != 3 || dollars != .375 {
		t.Errorf("got %d calls and $%g", calls, dollars)
	}
	b.settle(3, .8)
	if calls, _ := b.reserve(4); calls != 0 || b.calls != 3 {
		t.Errorf("got %d calls of a budget that is spent, and %d are left", calls, b.calls)
	}
}
