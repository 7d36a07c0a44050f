package run_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/internal/retrieval/run"
	"github.com/sluice-rag/sluice/schema"
)

const judgedStages = "- dense\n- gradient: {min_k: 3}\n- order: {method: ends}\nfeedback: {least: 8, rounds: 2}"

// pooled runs the judged plan. It also returns the engine, and how many calls of sources the run
// made.
func pooled(t *testing.T, c *scriptedCorpus) (*run.Engine, run.Result, int) {
	t.Helper()
	engine := c.engine(t, judgedStages)
	first, err := engine.Run(t.Context(), query())
	if err != nil {
		t.Fatal(err)
	}
	return engine, first, len(c.nearest)
}

func TestSelectionIsMadeAnewOfWhatWasFound(t *testing.T) {
	c := ranked([]float64{9, 8, 7, 2, 1, 0.9})
	engine, first, searches := pooled(t, c)
	want(t, "the first round", contextPlaces(first), []string{"a/0/0", "a/0/2", "a/0/1"})
	for minK, kept := range map[int][]string{
		2:  {"a/0/0", "a/0/2", "a/0/1"}, // the third is not a steep fall
		4:  {"a/0/0", "a/0/2", "a/0/4", "a/0/5", "a/0/3", "a/0/1"},
		0:  {"a/0/0", "a/0/2", "a/0/1"}, // never below one
		99: {"a/0/0", "a/0/2", "a/0/4", "a/0/5", "a/0/3", "a/0/1"},
	} {
		got, err := engine.Select(t.Context(), query(), first.Pool, minK)
		if err != nil {
			t.Fatal(err)
		}
		want(t, "selected with another min_k", contextPlaces(got), kept)
		if len(got.Trace) != 2 || got.Trace[0].Stage != "gradient" || got.Trace[1].Stage != "order" {
			t.Errorf("min_k %d: the trace is %+v", minK, got.Trace)
		}
		if got.Candidates[0].Scores["dense.passage"] != 9 || got.Candidates[0].Origin != "dense" || got.Candidates[0].Text != first.Candidates[0].Text {
			t.Errorf("min_k %d: the best is %+v", minK, got.Candidates[0])
		}
	}
	want(t, "searches after the first round", len(c.nearest), searches)
	if strings.Contains(string(first.Pool), "Text a") {
		t.Error("what is selected from has text")
	}
}

func contextPlaces(r run.Result) []string {
	var out []string
	for _, i := range r.Context {
		out = append(out, place(r.Candidates[i]))
	}
	return out
}

func TestSelectionKeepsToWhatIsThereNow(t *testing.T) {
	c := corpus([]int{2}, []int{2})
	for i, r := range []lexical.Ref{passage(0, 0, 0), passage(1, 0, 0), passage(0, 0, 1), passage(1, 0, 1)} {
		c.dense[r] = float64(9 - i)
	}
	engine, first, _ := pooled(t, c)
	c.documents[1].deleted = true
	got, err := engine.Select(t.Context(), query(), first.Pool, 4)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "without what was deleted", contextPlaces(got), []string{"a/0/0", "a/0/1"})
	c.flips++
	var rebuilt *retrieval.GenerationError
	if _, err := engine.Select(t.Context(), query(), first.Pool, 4); !errors.As(err, &rebuilt) {
		t.Errorf("of a collection that was rebuilt: %v", err)
	}
	if _, err := ranked(figure9).engine(t, "- dense\n- gradient").Select(t.Context(), query(), first.Pool, 4); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("of a plan without feedback: %v", err)
	}
	if _, err := engine.Select(t.Context(), query(), []byte("x"), 4); err == nil {
		t.Error("what is no pool was taken")
	}
}

// TestSelectionOfJoinedPassages: the pool keeps what stages changed in candidates.
func TestSelectionOfJoinedPassages(t *testing.T) {
	c := ranked([]float64{9, 8, 7})
	c.links = scriptedLinks{passage(0, 0, 0): {{To: passage(0, 0, 2), Weight: 0.5}}}
	c.judges = &scriptedJudges{rewrite: func(q string) string { return "winged " + q }}
	engine := c.engine(t, "- rewrite\n- dense\n- relate\n- gradient: {min_k: 1, g: 1}\nfeedback: {}")
	first, err := engine.Run(t.Context(), query())
	if err != nil {
		t.Fatal(err)
	}
	got, err := engine.Select(t.Context(), query(), first.Pool, 2)
	if err != nil || len(got.Context) != 2 || len(got.Candidates[0].Spans) != 2 || got.Candidates[0].Text != first.Candidates[0].Text || got.Candidates[0].Scores["link"] != 0.5 {
		t.Errorf("got %+v, %v", got, err)
	}
	if !strings.Contains(string(first.Pool), "winged words") {
		t.Error("the question as it was worded is not kept")
	}
}

func TestPlansAreDescribedWithTheirFeedback(t *testing.T) {
	p, err := plan.Parse([]byte("name: p\nstages:\n" + judgedStages))
	if err != nil {
		t.Fatal(err)
	}
	want(t, "described", *p.Describe().Feedback, schema.PlanFeedback{Least: 8, Rounds: 2, Of: "gradient"})
	if f := p.Feedback(); f.Least != 8 || f.Rounds != 2 || f.MinK != 3 {
		t.Errorf("got %+v", f)
	}
	if got := ranked(figure9).run(t, "- dense\n- gradient"); got.Pool != nil {
		t.Error("a plan that judges nothing keeps what is selected from")
	}
}
