package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// sources writes one story with two sections and two questions, and three lines of QED: two about
// one paragraph, and one whose paragraph does not answer.
func sources(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	base := filepath.Join(dir, "fairytaleqa", "data-by-train-split")
	write(t, filepath.Join(base, "section-stories", "test", "golden-goose-story.csv"), "section,text\n1,\"A man\nhad \"\"three\"\" sons.\"\n2,He shared.\n")
	write(t, filepath.Join(base, "questions", "test", "golden-goose-questions.csv"), "question_id,cor_section,question,answer1,answer2,answer3,answer4,answer5,answer6\n"+
		"1,1,How many sons?,Three,,,three,Three,\n2,\"1, 2\",Who shared?,He,,,,,\n")
	qed := `"title_text":"Nobel","paragraph_text":"Röntgen <won> . He was first .","question_text":`
	write(t, filepath.Join(dir, "qed", "qed-dev.jsonlines"), `{`+qed+`"who won","original_nq_answers":[[{"string":"Röntgen"}],[{"string":"a"},{"string":"b"}]],"annotation":{"explanation_type":"single_sentence","selected_sentence":{"string":"Röntgen <won> . "}}}
{`+qed+`"who was first","original_nq_answers":[[{"string":"He"}]],"annotation":{"explanation_type":"multi_sentence"}}
{`+qed+`"who lost","annotation":{"explanation_type":"none"}}
`)
	return dir
}

func TestFoldersAreBEIR(t *testing.T) {
	to := t.TempDir()
	var out strings.Builder
	if err := run(sources(t), to, &out); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"fairytaleqa-test/corpus.jsonl": `{"_id":"golden-goose-1","title":"Golden goose","text":"A man\nhad \"three\" sons.","metadata":{"links":["golden-goose-2"],"story":"golden-goose"}}
{"_id":"golden-goose-2","title":"Golden goose","text":"He shared.","metadata":{"links":["golden-goose-1"],"story":"golden-goose"}}
`,
		"fairytaleqa-test/queries.jsonl": `{"_id":"golden-goose-q1","text":"How many sons?","metadata":{"answers":["Three","three"]}}
{"_id":"golden-goose-q2","text":"Who shared?","metadata":{"answers":["He"]}}
`,
		"fairytaleqa-test/qrels/test.tsv": "query-id\tcorpus-id\tscore\ngolden-goose-q1\tgolden-goose-1\t1\ngolden-goose-q2\tgolden-goose-1\t1\ngolden-goose-q2\tgolden-goose-2\t1\n",
		"qed-dev/corpus.jsonl":            `{"_id":"d1","title":"Nobel","text":"Röntgen <won> . He was first ."}` + "\n",
		"qed-dev/queries.jsonl": `{"_id":"q1","text":"who won","metadata":{"answers":["Röntgen"],"evidence":[{"doc":"d1","text":"Röntgen <won> . "}]}}
{"_id":"q2","text":"who was first","metadata":{"answers":["He"]}}
`,
		"qed-dev/qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td1\t1\n",
	} {
		got, err := os.ReadFile(filepath.Join(to, filepath.FromSlash(name)))
		if err != nil || string(got) != want {
			t.Errorf("%s is\n%s\nwant\n%s\n%v", name, got, want, err)
		}
	}
	if !strings.Contains(out.String(), "2 documents, 2 questions") || !strings.Contains(out.String(), "1 documents, 2 questions") {
		t.Errorf("it says %q", out.String())
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	for file, content := range map[string]string{
		"fairytaleqa/data-by-train-split/questions/test/golden-goose-questions.csv":   "question_id,cor_section,question,answer1\n1,7,Who?,He\n",
		"fairytaleqa/data-by-train-split/section-stories/test/golden-goose-story.csv": "part,text\n1,x\n",
		"qed/qed-dev.jsonlines": "{}\n",
	} {
		from := sources(t)
		write(t, filepath.Join(from, filepath.FromSlash(file)), content)
		if err := run(from, t.TempDir(), &strings.Builder{}); err == nil || !strings.Contains(err.Error(), filepath.Base(file)) {
			t.Errorf("with a bad %s it says %v", file, err)
		}
	}
	if err := run(t.TempDir(), t.TempDir(), &strings.Builder{}); err == nil {
		t.Error("an empty folder has no datasets, but there was no error")
	}
}
