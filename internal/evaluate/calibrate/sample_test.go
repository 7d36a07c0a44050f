package calibrate

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/evaluate"
)

// folder writes a BEIR folder of towns, one document and one question each.
func folder(t *testing.T, towns int, qrels bool) *evaluate.Dataset {
	t.Helper()
	dir := t.TempDir()
	var corpus, queries, judgements strings.Builder
	judgements.WriteString("query-id\tcorpus-id\tscore\n")
	for i := range towns {
		fmt.Fprintf(&corpus, `{"_id": "t%d", "title": "Town %d", "text": "The mayor is called person%dson. The bridge is old."}`+"\n", i, i, i)
		fmt.Fprintf(&queries, `{"_id": "q%d", "text": "Who is the mayor of town %d?", "metadata": {"answers": ["person%dson"]}}`+"\n", i, i, i)
		fmt.Fprintf(&judgements, "q%d\tt%d\t1\n", i, i)
	}
	queries.WriteString(`{"_id": "lost", "text": "Who is the mayor of town 1?", "metadata": {"answers": ["nobody of the corpus"]}}` + "\n")
	judgements.WriteString("lost\tt1\t1\n")
	files := map[string]string{"corpus.jsonl": corpus.String(), "queries.jsonl": queries.String()}
	if qrels {
		files["qrels/test.tsv"] = judgements.String()
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := evaluate.ReadDataset(dir, "test")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestASampleHasBM25sBestPassages(t *testing.T) {
	quiet := func(string, int, int) {}
	for _, qrels := range []bool{true, false} {
		d := folder(t, 80, qrels)
		s, err := draw(t.Context(), d, Options{Questions: 60, Language: "en", Seed: 1, Progress: quiet})
		if err != nil {
			t.Fatal(err)
		}
		if len(s.questions) != 60 || len(s.passages) != 80 {
			t.Fatalf("%d questions, %d passages", len(s.questions), len(s.passages))
		}
		for _, q := range s.questions {
			if q.id == "lost" {
				t.Error("a question whose answer stands nowhere is asked")
			}
			first := s.passages[q.best[0]]
			if want := "t" + q.id[1:]; len(q.best) != candidates || first.document != want || !q.holds[0] {
				t.Errorf("question %s finds %d passages, first %s, which holds the answer: %v", q.id, len(q.best), first.document, q.holds[0])
			}
			for i := range q.best[1:] {
				if q.holds[i+1] {
					t.Errorf("question %s: passage %s holds the answer", q.id, s.passages[q.best[i+1]].document)
				}
			}
		}
		again, err := draw(t.Context(), d, Options{Questions: 60, Language: "en", Seed: 1, Progress: quiet})
		if err != nil || again.questions[7].id != s.questions[7].id {
			t.Errorf("the same seed draws other questions: %v", err)
		}
	}
	if _, err := draw(t.Context(), folder(t, 20, true), Options{Questions: 60, Language: "en", Progress: quiet}); err == nil || !strings.Contains(err.Error(), "20 questions with an answer") {
		t.Errorf("too few questions: %v", err)
	}
}

func TestDocumentsAreCutAtSentences(t *testing.T) {
	body := strings.Repeat("This is one of the sentences of the text. ", 20)
	got, err := cutDocument("a", "Title", body)
	if err != nil || len(got) != 3 || got[0].title != "Title" || !strings.HasSuffix(got[0].body, "text.") {
		t.Errorf("%d passages, %v: %+v", len(got), err, got)
	}
	if got, err := cutDocument("a", "", "  \n "); err != nil || len(got) != 0 {
		t.Errorf("an empty document: %v, %v", got, err)
	}
}
