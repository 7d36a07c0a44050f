package run_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// numbered returns a function that scores "Text a 0 3." by the score with the number of the
// passage, 3.
func numbered(scores ...float32) func(string) float32 {
	return func(text string) float32 {
		var name string
		var s, p int
		if _, err := fmt.Sscanf(text, "Text %1s %d %d.", &name, &s, &p); err != nil || p >= len(scores) {
			return -100
		}
		return scores[p]
	}
}

// read is a document of passages, found in their order, and a pair model.
func read(scores ...float32) *scriptedCorpus {
	found := make([]float64, len(scores))
	for i := range found {
		found[i] = float64(len(found) - i)
	}
	c := ranked(found)
	c.readers = everyOp(numbered(scores...))
	return c
}

func scoresOf(c schema.Candidate, names ...string) []float64 {
	out := []float64{}
	for _, n := range names {
		out = append(out, math.Round(c.Scores[n]*1e6)/1e6)
	}
	return out
}

func TestScoreRanksTheBestByTheModel(t *testing.T) {
	c := read(1, -2, 3, 9, 9)
	got := c.run(t, "- lexical\n- score: {depth: 3}")
	want(t, "the rest follows in its order", places(got), []string{"a/0/2", "a/0/0", "a/0/1", "a/0/3", "a/0/4"})
	want(t, "texts", c.readers.scored, [][]string{{"Text a 0 0.", "Text a 0 1.", "Text a 0 2."}})
	want(t, "question", c.readers.questions, []string{"words of the question"})
	want(t, "scores", scoresOf(got.Candidates[0], "relevance", "has_answer", "llm_prefer", "score", "lexical.passage"), []float64{3, 3, 3, 3, 3})
	for i := 1; i < len(got.Candidates); i++ {
		if a, b := got.Candidates[i-1], got.Candidates[i]; !(a.Score > b.Score) {
			t.Errorf("rank %d scores %g and the next one %g", i, a.Score, b.Score)
		}
	}
	if r := got.Trace[1]; r.In != 5 || r.Out != 5 || !strings.Contains(r.Why, "relevance of 3 candidates in 3 texts by scripted/1, graph pair; score 3.000 to -2.000") {
		t.Errorf("it says %+v", r)
	}
	c = read(1, -2, 3, 9, 9)
	want(t, "all are read", places(c.run(t, "- lexical\n- score: {depth: 0}")), []string{"a/0/3", "a/0/4", "a/0/2", "a/0/0", "a/0/1"})
	want(t, "all texts", len(c.readers.scored[0]), 5)
	want(t, "in the order of places when equal", places(read(1, 1, 1).run(t, "- lexical\n- score")), []string{"a/0/0", "a/0/1", "a/0/2"})
	c = read()
	c.documents[0].sections = nil
	want(t, "nothing found", len(c.run(t, "- lexical\n- score").Candidates)+len(c.readers.scored)+c.readers.infos, 0)
}

func TestScoreByEachLabel(t *testing.T) {
	c := read(0, 0, 0)
	labels := []wire.PairScore{{Relevance: 3, HasAnswer: 1, LLMPrefer: -1}, {Relevance: 1, HasAnswer: 2, LLMPrefer: -4}, {Relevance: 2, HasAnswer: -1, LLMPrefer: 2}}
	c.readers.score = func(text string) wire.PairScore { return labels[int(numbered(0, 1, 2)(text))] }
	for by, expected := range map[string][]string{
		"relevance":  {"a/0/0", "a/0/2", "a/0/1"},
		"has_answer": {"a/0/1", "a/0/0", "a/0/2"},
		"llm_prefer": {"a/0/2", "a/0/0", "a/0/1"},
		"prefer_sum": {"a/0/2", "a/0/0", "a/0/1"},
	} {
		got := c.run(t, "- lexical\n- score: {by: "+by+"}")
		want(t, by, places(got), expected)
		want(t, by+" scores", scoresOf(got.Candidates[0], "score")[0] == got.Candidates[0].Score, true)
	}
	want(t, "the sum", scoresOf(c.run(t, "- lexical\n- score: {by: prefer_sum}").Candidates[2], "score"), []float64{-2})
}

func TestScoreIsMixedWithWhatWasBefore(t *testing.T) {
	scores := func(parameters string) map[string]float64 {
		out := map[string]float64{}
		for _, x := range read(-1, 3, 1).run(t, "- lexical\n- score: {"+parameters+"}").Candidates {
			out[place(x)] = math.Round(x.Score*1e4) / 1e4
		}
		return out
	}
	const x = 1.224745 // standardised 3 of 1, 2, 3, and of -1, 1, 3
	round := func(x float64) float64 { return math.Round(x*1e4) / 1e4 }
	want(t, "max", scores("weight: 0.25"), map[string]float64{"a/0/0": 0.5, "a/0/1": 1.25, "a/0/2": 0.5})
	want(t, "minmax", scores("weight: 0.6, normalise: minmax"), map[string]float64{"a/0/0": 0.4, "a/0/1": 0.8, "a/0/2": 0.3})
	want(t, "standard", scores("weight: 0.75, normalise: standard"), map[string]float64{"a/0/0": round(-x / 2), "a/0/1": round(0.75 * x), "a/0/2": round(-x / 4)})
	want(t, "none", scores("weight: 0.5, normalise: none"), map[string]float64{"a/0/0": 1, "a/0/1": 2.5, "a/0/2": 1})
	want(t, "nothing of the model", scores("weight: 0, normalise: none"), map[string]float64{"a/0/0": 3, "a/0/1": 2, "a/0/2": 1})
	equal := func(normalise string) []float64 {
		got := read(2, 2).run(t, "- lexical\n- score: {weight: 0.75, normalise: "+normalise+"}")
		return []float64{got.Candidates[0].Score, got.Candidates[1].Score}
	}
	want(t, "all are equal, and count as 0", [][]float64{equal("minmax"), equal("standard")}, [][]float64{{0.25, 0}, {0.25, -0.25}})
	want(t, "all are equal", places(read(2, 2).run(t, "- lexical\n- score: {weight: 0.5, normalise: standard}")), []string{"a/0/0", "a/0/1"})
}

func TestScoreKeepsAndDrops(t *testing.T) {
	got := read(1, 2, 3, 4).run(t, "- lexical\n- score: {depth: 3, keep: 2}")
	want(t, "keep", places(got), []string{"a/0/2", "a/0/1"})
	want(t, "what it dropped", []any{len(got.Trace[1].Dropped), got.Trace[1].Dropped[0].Why}, []any{2, "below rank 2"})
	got = read(-1, 2, 0.5, 4).run(t, "- lexical\n- score: {depth: 3, least: 0.5}")
	want(t, "least", places(got), []string{"a/0/1", "a/0/2"})
	want(t, "why", []string{got.Trace[1].Dropped[0].Why, got.Trace[1].Dropped[1].Why}, []string{"relevance -1.000 is below 0.500", "not read: below rank 3"})
	want(t, "all are below", len(read(-1, -2).run(t, "- lexical\n- score: {least: 0}").Candidates), 0)

	c := read(-1, 2, 0.5)
	c.readers.info.Calibrated = map[string]float64{"has_answer": 1}
	want(t, "calibrated", places(c.run(t, "- lexical\n- score: {by: has_answer, least: calibrated}")), []string{"a/0/1"})
	_, err := c.tryRun(t, "- lexical\n- score: {least: calibrated}")
	var field *schema.FieldError
	if !errors.As(err, &field) || field.Field != "plan" || !strings.Contains(field.Problem, `"relevance", only: has_answer`) {
		t.Errorf("a threshold that the pack lacks gave %v", err)
	}
	c = read(5, 4)
	c.documents[0].deleted = true
	got = c.run(t, "- lexical\n- score")
	want(t, "what is gone", []int{len(got.Candidates), len(c.readers.scored)}, []int{0, 0})
}

// TestALongCandidateCountsAsItsBestPiece: a section is read whole, in pieces that end with
// sentences; a document by its best sections, and then it shows its best piece.
func TestALongCandidateCountsAsItsBestPiece(t *testing.T) {
	c := corpus([]int{1, 2}, []int{1})
	filler := strings.Repeat("Words that say nothing at all. ", 60) // 420 tokens
	c.documents[0].sections = [][]string{{"Text a 0 0. " + filler}, {filler, "Text a 1 1. Needle. "}}
	c.lexical = map[lexical.Ref]float64{section(0, 0): 3, section(0, 1): 2, section(1, 0): 1, doc(0): 2, doc(1): 1, passage(0, 0, 0): 1, passage(1, 0, 0): 1}
	c.readers = everyOp(func(text string) float32 {
		if strings.Contains(text, "Needle") {
			return 5
		}
		return numbered(1)(text)
	})
	got := c.run(t, "- lexical: {unit: section}\n- score")
	want(t, "sections", []any{got.Candidates[0].Text, got.Candidates[0].Score}, []any{c.documents[0].sections[1][0] + c.documents[0].sections[1][1], 5})
	if n := len(c.readers.scored[0]); n != 5 || !strings.Contains(got.Trace[1].Why, "3 candidates in 5 texts, 2 of them in pieces") {
		t.Errorf("read %d texts, and says %q", n, got.Trace[1].Why)
	}
	for _, text := range c.readers.scored[0] {
		if !strings.HasSuffix(text, ".") || len(strings.Fields(text)) > 280 {
			t.Errorf("a piece of %d words ends with %q", len(strings.Fields(text)), text[len(text)-5:])
		}
	}
	want(t, "its first piece alone", c.run(t, "- lexical: {unit: section}\n- score: {pieces: 1}").Candidates[0].Score, 1)

	for _, unit := range []string{"document", "cluster"} {
		if unit == "cluster" {
			c.clusters[section(0, 0)], c.clusters[section(0, 1)] = clusterID(0), clusterID(0)
			c.byCluster[clusterID(0)] = 4
		}
		got = c.run(t, "- lexical: {unit: "+unit+"}\n- score\n- limit: {tokens: 300}")
		best := got.Candidates[0]
		span := best.Spans[0]
		whole := c.documents[0].sections[1][0] + c.documents[0].sections[1][1]
		if best.Score != 5 || len(best.Spans) != 1 || !strings.HasSuffix(best.Text, "Needle. ") || whole[span.Start:span.End] != best.Text || best.Tokens >= 300 || best.Tokens < 100 {
			t.Errorf("%s: the best shows %q, bytes %d to %d, %d tokens", unit, best.Text, span.Start, span.End, best.Tokens)
		}
		if pieces := c.readers.scored[len(c.readers.scored)-1]; !strings.HasPrefix(pieces[0], "Text a 0 0.") {
			t.Errorf("%s: the best section is not read first: %q", unit, pieces[0])
		}
	}
}

func TestModelsThatFailFailTheStage(t *testing.T) {
	for _, stages := range []string{"- lexical\n- score", "- lexical\n- score: {model: reranker}", "- lexical\n- fuse", "- lexical\n- reduce"} {
		for name, spoil := range map[string]func(*scriptedReaders){
			"nothing is a number": func(r *scriptedReaders) {
				nan := float32(math.NaN())
				r.score = func(string) wire.PairScore { return wire.PairScore{LLMPrefer: nan} }
				r.fuse = func(string) float32 { return nan }
			},
			"infinite": func(r *scriptedReaders) {
				high := float32(math.Inf(1))
				r.score = func(string) wire.PairScore { return wire.PairScore{HasAnswer: high} }
				r.fuse = func(string) float32 { return high }
			},
			"one is missing": func(r *scriptedReaders) { r.fewer = true },
		} {
			c := read(1, 2, 3)
			spoil(c.readers)
			_, err := c.tryRun(t, stages)
			stage := strings.TrimSuffix(strings.Fields(stages)[3], ":")
			if err == nil || !strings.Contains(err.Error(), "stage "+stage) || !strings.Contains(err.Error(), "not a number") && !strings.Contains(err.Error(), "2 scores for 3 texts") {
				t.Errorf("%s, %s: got %v", stage, name, err)
			}
		}
		c := read(1, 2)
		c.readers.fail = context.DeadlineExceeded
		if _, err := c.tryRun(t, stages); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: a deadline gave %v", stages, err)
		}
	}
	c := read(1, 2)
	c.readers.enough = func([][2]float32) float32 { return float32(math.NaN()) }
	if _, err := c.tryRun(t, "- lexical\n- reduce"); err == nil || !strings.Contains(err.Error(), "not a number") {
		t.Errorf("a detector without a number gave %v", err)
	}
}

func TestAQuestionWithoutAWordIsNotRead(t *testing.T) {
	for _, stage := range []string{"score", "fuse", "reduce"} {
		c := read(1, 2, 3)
		c.readers.fail = fmt.Errorf("model server: %w", &schema.RemoteError{Code: schema.CodeInvalid, Field: "question", Message: "no word"})
		c.readers.described = true
		got := c.run(t, "- lexical\n- "+stage)
		want(t, stage, places(got), []string{"a/0/0", "a/0/1", "a/0/2"})
		want(t, stage+" says", got.Trace[1].Why, "the model knows no word of the question")
	}
}

// TestThePackIsDescribedOnce: its description is not loaded for every stage of every question.
func TestThePackIsDescribedOnce(t *testing.T) {
	c := read(1, 2, 3)
	c.run(t, "- lexical\n- score\n- fuse\n- score: {by: has_answer}\n- reduce")
	want(t, "asked", c.readers.infos, 1)
}

func TestAPackWithoutTheGraph(t *testing.T) {
	for stage, lacks := range map[string]string{"score": "score", "fuse": "fuse", "reduce": "score and detect"} {
		for name, readers := range map[string]*scriptedReaders{"no server": nil, "an old pack": {info: wire.ModelInfo{Pack: "old", Version: "1.0.0", Operations: []wire.ModelOp{wire.OpEncode}}}} {
			c := read(1, 2, 3)
			c.readers = readers
			_, err := c.tryRun(t, "- lexical\n- "+stage)
			var field *schema.FieldError
			if !errors.As(err, &field) || field.Field != "plan" || !strings.Contains(field.Problem, "has no graph for "+lacks) || !strings.Contains(field.Problem, "optional") {
				t.Errorf("%s, %s: got %v", stage, name, err)
			}
			got := c.run(t, "- lexical\n- "+stage+": {optional: true}\n- gradient: {min_k: 1, g: 0.9, score: "+map[string]string{"score": "relevance", "fuse": "fuse", "reduce": "prefer_sum"}[stage]+"}")
			want(t, stage+" skipped", places(got), []string{"a/0/0", "a/0/1", "a/0/2"})
			want(t, stage+" then nothing is cut", got.Context, []int{0, 1, 2})
			if why := got.Trace[1].Why; !strings.HasPrefix(why, "skipped: the model pack") || !strings.Contains(why, "no graph for "+lacks) {
				t.Errorf("%s, %s: it says %q", stage, name, why)
			}
		}
	}
	c := read(1, 2)
	c.readers.info.Operations = []wire.ModelOp{wire.OpScore}
	if _, err := c.tryRun(t, "- lexical\n- reduce"); err == nil || !strings.Contains(err.Error(), "no graph for detect:") {
		t.Errorf("a pack without a detector gave %v", err)
	}
}
