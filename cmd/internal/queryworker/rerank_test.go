//go:build cgo

package queryworker

// A pack's reranker with real parts: in plans, after the pair model, and as the reader of answers.

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/inference/inferencetest"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestBothGraphsOfAPlanKeepTheirScores: each candidate has the scores of the pair model and of the
// reranker.
func TestBothGraphsOfAPlanKeepTheirScores(t *testing.T) {
	w := newRerankHarness(t)
	found, err := w.plan("- lexical: {unit: passage}\n- score\n- score: {model: reranker}")
	w.ok(err)
	if len(found.Candidates) == 0 {
		t.Fatal("nothing found")
	}
	texts := make([]string, len(found.Candidates))
	for i, c := range found.Candidates {
		texts[i], _ = text.InContext(c.Title, c.HeadingPath, c.Text)
	}
	reranked, model, err := w.model.Rerank(w.context(), wire.LaneBulk, carryOver, texts, false)
	w.ok(err)
	best := math.Inf(1)
	for i, pair := range w.scores(found.Candidates) {
		c, x := found.Candidates[i], reranked[i]
		for name, want := range map[string]float32{"relevance": pair.Relevance, "has_answer": pair.HasAnswer, "llm_prefer": pair.LLMPrefer, "score": pair.Relevance,
			"reranker.relevance": x.Relevance, "reranker.has_answer": x.HasAnswer, "reranker.llm_prefer": x.LLMPrefer, "reranker": x.Relevance} {
			if math.Abs(c.Scores[name]-float64(want)) > 1e-4 {
				t.Errorf("candidate %d has %s %g, the model says %g", i, name, c.Scores[name], want)
			}
		}
		if math.Abs(float64(pair.Relevance-x.Relevance)) < 1e-3 {
			t.Errorf("candidate %d: both models say %g", i, x.Relevance)
		}
		if c.Score != c.Scores["reranker"] || c.Score > best {
			t.Errorf("candidate %d is ranked by %g", i, c.Score)
		}
		best = c.Score
	}
	for i, graph := range []string{"pair", "reranker"} {
		if why := found.Trace[i+1].Why; !strings.Contains(why, "by "+model+", graph "+graph) {
			t.Errorf("stage %d says %q", i+1, why)
		}
	}
}

func TestAPackWithoutItsRerankerRunsThePlanThatMayGoWithout(t *testing.T) {
	w := newRerankHarness(t, inferencetest.Without("reranker"))
	var field *schema.FieldError
	if _, err := w.plan("- lexical\n- score\n- score: {model: reranker}"); !errors.As(err, &field) || !strings.Contains(field.Problem, "has no graph for rerank") {
		t.Errorf("got %v", err)
	}
	found, err := w.plan("- lexical\n- score\n- score: {model: reranker, optional: true}")
	w.ok(err)
	if len(found.Candidates) == 0 || found.Candidates[0].Score != found.Candidates[0].Scores["score"] || !strings.HasPrefix(found.Trace[2].Why, "skipped") {
		t.Errorf("got %+v", found.Trace)
	}
}

// TestAnswersAreReadByTheReranker: it has its own threshold. With the pair model's threshold it
// would refuse.
func TestAnswersAreReadByTheReranker(t *testing.T) {
	w := newRerankHarness(t, func(manifest string) string {
		return manifest + "calibrated: {answerable: 1000, answerable_reranker: -1000}\n"
	})
	w.startAll()
	// Any short text may answer this question: the test's graph was not trained to find answers of
	// a certain kind.
	a, failure := w.askSync(w.context(), "What happens to annual leave that was not taken?")
	if failure != nil || !a.Supported || len(a.Citations) == 0 || !strings.HasPrefix(a.Usage.Model, "reranker/sluice-default/") {
		t.Fatalf("got %+v, %v", a, failure)
	}
	for _, c := range a.Citations {
		if short := c.Answer; short.Text == "" || c.Quote[short.Start:short.End] != short.Text || short.Confidence <= 0 || short.Confidence >= 1 {
			t.Errorf("the citation is %+v", c)
		}
	}
}
