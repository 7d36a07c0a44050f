package run_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/internal/retrieval/run"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// reranked is a document of passages, found in their order, with a pair model and a reranker, which
// scores by the second list.
func reranked(pair, reranker []float32) *scriptedCorpus {
	c := read(pair...)
	f := numbered(reranker...)
	c.readers.rerank = func(text string) wire.PairScore {
		return wire.PairScore{Relevance: f(text), HasAnswer: f(text) / 2, LLMPrefer: -f(text)}
	}
	return c
}

// TestTheRerankerReadsTheBestOfThePairModel: in a plan with both, each has scores of its own.
func TestTheRerankerReadsTheBestOfThePairModel(t *testing.T) {
	c := reranked([]float32{1, 4, 3, 2}, []float32{9, -2, 6, 9})
	got := c.run(t, "- lexical\n- score: {depth: 4}\n- score: {model: reranker, depth: 2}")
	want(t, "read by the pair model", c.readers.scored, [][]string{{"Text a 0 0.", "Text a 0 1.", "Text a 0 2.", "Text a 0 3."}})
	want(t, "read by the reranker", c.readers.reranked, [][]string{{"Text a 0 1.", "Text a 0 2."}})
	want(t, "ranking", places(got), []string{"a/0/2", "a/0/1", "a/0/3", "a/0/0"})
	names := []string{"relevance", "has_answer", "llm_prefer", "score", "reranker.relevance", "reranker.has_answer", "reranker.llm_prefer", "reranker"}
	want(t, "scores of the best", scoresOf(got.Candidates[0], names...), []float64{3, 3, 3, 3, 6, 3, -6, 6})
	want(t, "its own score", got.Candidates[0].Score, 6)
	for i, message := range []string{"4 candidates in 4 texts by scripted/1, graph pair; score 4.000 to 1.000", "2 candidates in 2 texts by scripted/1, graph reranker; reranker 6.000 to -2.000"} {
		if r := got.Trace[i+1]; r.Stage != "score" || !strings.Contains(r.Why, message) {
			t.Errorf("stage %d says %+v", i+1, r)
		}
	}
	kept := got.Trace[2].Kept[0].Scores
	want(t, "in the trace", []float64{kept["score"], kept["relevance"], kept["reranker"], kept["reranker.has_answer"]}, []float64{3, 3, 6, 3})
	if _, ok := got.Candidates[2].Scores["reranker.relevance"]; ok {
		t.Errorf("what the reranker did not read has %v", got.Candidates[2].Scores)
	}
	want(t, "asked about the pack", c.readers.infos, 1)

	got = c.run(t, "- lexical\n- score: {model: reranker, by: has_answer}\n- gradient: {min_k: 1, g: 1, score: reranker.relevance}")
	want(t, "by a logit of the reranker", []any{got.Candidates[0].Score, got.Context}, []any{4.5, []int{0, 1}})
}

// TestOnlyQuestionsAreRerankedWithSpans: a search needs scores alone, which take less time.
func TestOnlyQuestionsAreRerankedWithSpans(t *testing.T) {
	c := reranked([]float32{1, 4}, []float32{9, -2})
	const stages = "- lexical\n- score: {model: reranker}"
	c.run(t, stages)
	c.run(t, stages, func(q *wire.SearchQuery) { q.Question = uuid.New() })
	want(t, "a search, then a question, with spans", c.readers.spans, []bool{false, true})
}

// TestTheContextAloneIsReranked: after a selecting stage, as in the last line of ChunkRAG's
// algorithm.
func TestTheContextAloneIsReranked(t *testing.T) {
	c := reranked(make([]float32, 5), []float32{2, 9, 7, 8, 9})
	c.judges = judgedAs(0.9, 0.8, 0.7, 0.6, 0.1)
	const stages = "- lexical\n- judge\n- threshold: {score: judge}\n- score: {model: reranker, depth: 20}"
	got := c.run(t, stages+"\n- order: {method: ends}")
	want(t, "read", c.readers.reranked, [][]string{{"Text a 0 0.", "Text a 0 1.", "Text a 0 2."}}) // the mean is 0.62
	want(t, "the ranking", places(got), []string{"a/0/0", "a/0/1", "a/0/2", "a/0/3", "a/0/4"})
	want(t, "the context", got.Context, []int{1, 0, 2})
	want(t, "its scores", scoresOf(got.Candidates[1], "judge", "reranker"), []float64{0.8, 9})
	if _, read := got.Candidates[3].Scores["reranker"]; read {
		t.Error("what the threshold dropped was read")
	}
	got = c.run(t, stages+"\n- score: {model: reranker, keep: 1}")
	want(t, "keep thins the context", []any{len(got.Candidates), got.Context}, []any{5, []int{1}})
}

// TestAModelThatKnowsTheScript: the weight of a model is multiplied by the share of the question's
// letters that it knows; if that is zero, the model is not asked.
func TestAModelThatKnowsTheScript(t *testing.T) {
	const stages = `
- lexical
- hybrid: {of: [lexical: {unit: passage}, dense: {unit: passage, known: true}]}
- score: {weight: 0.5, known: true}`
	ask := func(text string, scripts ...string) (*scriptedCorpus, run.Result) {
		c := reranked([]float32{1, 9, 3}, nil)
		c.readers.info.Scripts = map[wire.ModelOp][]string{wire.OpEncode: scripts, wire.OpScore: scripts}
		return c, c.run(t, stages, func(q *wire.SearchQuery) { q.Text = text })
	}
	half := func(r run.Result) float64 { return r.Candidates[0].Score }
	c, whole := ask("ab", "Latin")
	want(t, "asked", len(c.readers.scored), 1)
	c, part := ask("aב", "Latin")
	want(t, "asked of a part", len(c.readers.scored), 1)
	if half(part) >= half(whole) {
		t.Errorf("it weighs %v of a half of the letters, %v of all", half(part), half(whole))
	}
	c, none := ask("אב", "Latin")
	want(t, "asked of nothing that it knows", len(c.readers.scored), 0)
	if why := none.Trace[2].Why; why != "the model knows no word of the question" {
		t.Errorf("the stage says %q", why)
	}
	if _, ok := none.Candidates[0].Scores["relevance"]; ok {
		t.Errorf("it has %v", none.Candidates[0].Scores)
	}
	c, _ = ask("אב") // the pack does not say
	want(t, "asked where it is not known", len(c.readers.scored), 1)
}

func TestAStageNamesWhoReads(t *testing.T) {
	check := func(stages string) error {
		_, err := plan.Parse([]byte("name: p\nstages:\n" + stages))
		return err
	}
	var field *schema.FieldError
	if err := check("- lexical\n- score: {model: bert}"); !errors.As(err, &field) || field.Field != "stages[1].score.model" || !strings.Contains(field.Problem, "pair, reranker") {
		t.Errorf("got %v", err)
	}
	// A stage that reads the pair model's scores does not use the reranker's instead.
	if err := check("- lexical\n- score: {model: reranker}\n- skip-retrieval"); !errors.As(err, &field) || !strings.Contains(field.Problem, "reranker.has_answer") {
		t.Errorf("got %v", err)
	}
	p, err := plan.Parse([]byte("name: p\nstages:\n- lexical\n- score\n- score: {model: reranker}"))
	if err != nil || p.Stages()[1].Parameters["model"] != "pair" || p.Stages()[2].Parameters["model"] != "reranker" ||
		p.Stages()[1].Parameters["depth"] != 50 || p.Stages()[2].Parameters["depth"] != 10 {
		t.Errorf("described as %+v, %v", p.Stages(), err)
	}
}

func TestAPackWithoutAReranker(t *testing.T) {
	c := reranked([]float32{1, 2, 3}, nil)
	c.readers.info.Operations = []wire.ModelOp{wire.OpEncode, wire.OpScore}
	var field *schema.FieldError
	if _, err := c.tryRun(t, "- lexical\n- score\n- score: {model: reranker}"); !errors.As(err, &field) || field.Field != "plan" ||
		!strings.Contains(field.Problem, "the model pack scripted 1 has no graph for rerank") || !strings.Contains(field.Problem, "optional: true") {
		t.Errorf("got %v", err)
	}
	got := c.run(t, "- lexical\n- score\n- score: {model: reranker, optional: true}\n- threshold: {score: reranker, at: 2}")
	want(t, "skipped", places(got), []string{"a/0/2", "a/0/1", "a/0/0"})
	want(t, "then nothing is cut", got.Context, []int{0, 1, 2})
	if why := got.Trace[2].Why; !strings.HasPrefix(why, "skipped: the model pack scripted 1 has no graph for rerank") {
		t.Errorf("it says %q", why)
	}
	want(t, "asked of nobody", len(c.readers.reranked), 0)

	c.readers.info.Operations = []wire.ModelOp{wire.OpEncode, wire.OpRerank} // nor a pair model
	if _, err := c.tryRun(t, "- lexical\n- score"); !errors.As(err, &field) || !strings.Contains(field.Problem, "no graph for score") {
		t.Errorf("got %v", err)
	}
	want(t, "the reranker alone", places(c.run(t, "- lexical\n- score: {optional: true}\n- score: {model: reranker}")), []string{"a/0/0", "a/0/1", "a/0/2"})
}

func TestTheRerankersThresholdsAreItsOwn(t *testing.T) {
	c := reranked([]float32{1, 1, 1}, []float32{-2, 4, 1})
	c.readers.info.Calibrated = map[string]float64{"has_answer": 100, "has_answer_reranker": 0.5}
	want(t, "calibrated", places(c.run(t, "- lexical\n- score: {model: reranker, by: has_answer, least: calibrated}")), []string{"a/0/1", "a/0/2"})
	var field *schema.FieldError
	if _, err := c.tryRun(t, "- lexical\n- score: {model: reranker, least: calibrated}"); !errors.As(err, &field) || !strings.Contains(field.Problem, `"relevance_reranker"`) {
		t.Errorf("got %v", err)
	}
}

// TestPiecesFitTheModelThatReads: a model with a smaller input gets shorter pieces.
func TestPiecesFitTheModelThatReads(t *testing.T) {
	for limit, most := range map[int]int{0: 280, 384: 280, 512: 280, 192: 140, 96: 70} {
		c := read(1)
		c.documents[0].sections = [][]string{{"Text a 0 0. " + strings.Repeat("Words that say nothing at all. ", 60)}} // 420 tokens
		c.readers.info.Limits = map[wire.ModelOp]int{wire.OpScore: 384, wire.OpRerank: limit}
		c.run(t, "- lexical\n- score: {model: reranker, pieces: 64}")
		longest := 0
		for _, text := range c.readers.reranked[0] {
			longest = max(longest, len(strings.Fields(strings.ReplaceAll(text, ".", " ."))))
		}
		if longest > most || longest < most-10 {
			t.Errorf("a reranker of %d tokens gets pieces of up to %d, want %d", limit, longest, most)
		}
		if all := slices.Concat(c.readers.reranked...); strings.Count(strings.Join(all, " "), "nothing") != 60 {
			t.Errorf("a reranker of %d tokens gets a part of the text: %q", limit, all)
		}
	}
}
