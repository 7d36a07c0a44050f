package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/schema"
)

// An export of ratings is a dataset in which the documents of well-rated answers are relevant.
func TestRatingsMakeADataset(t *testing.T) {
	cites := func(document, quote, short string, confidence float64) schema.Citation {
		return schema.Citation{Document: document, Quote: quote, Answer: schema.ShortAnswer{Text: short, Confidence: confidence}}
	}
	rating := func(question uuid.UUID, r schema.Opinion, text string, supported bool, citations ...schema.Citation) schema.RatedAnswer {
		return schema.RatedAnswer{Rating: schema.Rating{Question: question, Rating: r}, Text: text, Supported: supported, Citations: citations}
	}
	good, bad, even, gone, none, chosen := schema.NewID(), schema.NewID(), schema.NewID(), schema.NewID(), schema.NewID(), schema.NewID()
	quotes := []schema.Citation{cites("a", "It runs for two years.", "two years", 0.9), cites("b", "Two years it is.", "Two years", 0.4), cites("a", "Really.", "", 0), cites("deleted", "x", "x", 1)}
	choice := rating(chosen, schema.ThumbsUp, "Which?", true, cites("b", "The second.", "", 0))
	choice.Choices, choice.Choice = []string{"first", "second"}, 2
	rated := []schema.RatedAnswer{
		rating(good, schema.ThumbsUp, "How long?", true, quotes...), rating(good, schema.ThumbsUp, "How long?", true, quotes...), rating(good, schema.ThumbsDown, "How long?", true, quotes...),
		rating(bad, schema.ThumbsDown, "Why?", true, quotes...),
		rating(even, schema.ThumbsUp, "When?", true, quotes...), rating(even, schema.ThumbsDown, "When?", true, quotes...),
		rating(gone, schema.ThumbsUp, "Where?", true, cites("deleted", "x", "x", 1)),
		rating(none, schema.ThumbsUp, "Who?", false),
		choice,
	}
	var done exportCounts
	questions := judgedQuestions(rated, map[string]bool{"a": true, "b": true}, &done)
	if want := (exportCounts{Questions: 2, Unanswerable: 1, Undecided: 2, Gone: 1}); done != want {
		t.Errorf("counted %+v, not %+v", done, want)
	}
	e := &ratingsExport{Folder: t.TempDir()}
	if err := os.Mkdir(filepath.Join(e.Folder, "qrels"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		e.lines("corpus.jsonl", func(line func(any) error) error {
			return line(corpusLine{ID: "a", Text: "It runs for two years.\n\nReally."})
		}),
		e.lines("queries.jsonl", func(line func(any) error) error {
			for _, q := range questions {
				if err := line(q); err != nil {
					return err
				}
			}
			return nil
		}),
		write(filepath.Join(e.Folder, "qrels", "test.tsv"), func(w io.Writer) error { return writeJudgements(w, questions[:1]) }),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := evaluate.ReadDataset(e.Folder, "test"); err == nil {
		t.Error("a judgement of a document that the corpus has not was taken")
	}
	if err := e.lines("corpus.jsonl", func(line func(any) error) error {
		if err := line(corpusLine{ID: "a", Text: "It runs for two years.\n\nReally."}); err != nil {
			return err
		}
		return line(corpusLine{ID: "b", Text: "Two years it is. The second."})
	}); err != nil {
		t.Fatal(err)
	}
	if err := write(filepath.Join(e.Folder, "qrels", "test.tsv"), func(w io.Writer) error { return writeJudgements(w, questions) }); err != nil {
		t.Fatal(err)
	}
	d, err := evaluate.ReadDataset(e.Folder, "test")
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Queries) != 2 || len(d.Unanswerable) != 1 || d.Unanswerable[0].Text != "Who?" || d.Documents != 2 {
		t.Fatalf("read %+v", d)
	}
	q := d.Queries[0]
	if q.ID != good.String() || q.Text != "How long?" || len(q.Relevant) != 2 || q.Relevant["a"] != 1 || !slices.Equal(q.Answers, []string{"two years"}) ||
		!slices.Equal(q.Evidence, []string{"It runs for two years.", "Two years it is.", "Really."}) {
		t.Errorf("the question is %+v", q)
	}
	if q := d.Queries[1]; !slices.Equal(q.Answers, []string{"second"}) || len(q.Choices) != 2 || q.Relevant["b"] != 1 {
		t.Errorf("the question with choices is %+v", q)
	}
}
