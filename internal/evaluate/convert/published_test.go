package convert

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/evaluate"
)

// published returns the path of a published file next to the repository. If it is missing the
// result is empty; in continuous integration the test fails.
func published(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join("..", "..", "..", "..", "shared", "datasets", filepath.FromSlash(name))
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not there: published files cannot be converted", path)
		}
		t.Logf("NOT CHECKED: %s is not there", path)
		return ""
	}
	return path
}

// TestPublishedSQuAD: every answer occurs in the relevant paragraph.
func TestPublishedSQuAD(t *testing.T) {
	path := published(t, "squad-train.json")
	if path == "" {
		return
	}
	s, d := converted(t, Options{Sources: []string{path}, Others: -1})
	if s.Questions != 87599 || s.WithAnswers != 87599 || s.WithEvidence != 87599 || s.WithDocuments != 87599 || len(s.LeftOut) > 0 {
		t.Errorf("the summary is %+v", s)
	}
	documents := texts(t, d)
	for _, q := range d.Queries {
		for id := range q.Relevant {
			if !containsAll(documents[id], q) {
				t.Errorf("%s: %v and %q are not all in %q", q.ID, q.Answers, q.Evidence, documents[id])
			}
		}
	}
}

func containsAll(document string, q evaluate.Topic) bool {
	for _, piece := range append(q.Evidence, q.Answers...) {
		if !strings.Contains(document, piece) {
			return false
		}
	}
	return len(q.Relevant) == 1
}

func TestPublishedNQOpen(t *testing.T) {
	path := published(t, "nq-open/nq_open/NQ-open.dev.jsonl")
	if path == "" {
		return
	}
	s, d := converted(t, Options{Sources: []string{path}, Others: -1})
	if s.Questions != 3610 || s.WithAnswers != 3610 || !d.AnswersAlone {
		t.Errorf("the summary is %+v", s)
	}
	equal(t, "answers", topic(t, d, "when was the last time anyone was on the moon").Answers, []string{"14 December 1972 UTC", "December 1972"})
}
