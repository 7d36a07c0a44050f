package inference

// This file compares the pack with its trainer's golden outputs, through the server and graph by
// graph: token ids exactly, vectors and scores to 1e-4, and the same boundaries.

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/internal/inference/batch"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema/wire"
)

type goldens struct {
	Tokenizer []struct {
		Text string
		IDs  []int32
	}
	Encoder []struct {
		Text      string
		IDs       []int32
		Embedding []float32
	}
	Segmenter []struct {
		Left, Right []float32
		Score       float32
	}
	Pair     []goldenPair
	Reranker []goldenPair
	Linker   []goldenDocument
	Detector []struct {
		Pairs  [][2]float32
		Enough float32
	}
	Segmentation []struct {
		Sentences []string
		IDs       [][]int32
		Scores    []float32
		Starts    []int
	}
}

// goldenDocument is a run of passages, and how strongly each attends to each other.
type goldenDocument struct {
	Passages  []string
	Attention [][]float32
}

type goldenPair struct {
	Question, Text     string
	QuestionIDs        []int32 `json:"question_ids"`
	TextIDs            []int32 `json:"text_ids"`
	Scores, Start, End []float32
	WithoutSpans       []float32 `json:"scores_without_spans"` // of a reranker with a scorer
}

func readGoldens(t *testing.T) (g goldens) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(packDir(t), "goldens.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Tokenizer) == 0 || len(g.Encoder) == 0 || len(g.Segmenter) == 0 || len(g.Segmentation) == 0 {
		t.Fatal("goldens.json lacks a part")
	}
	return g
}

// near fails the test if values differ by more than 1e-4, and returns the largest difference.
func near(t *testing.T, what string, got, want []float32) (worst float64) {
	t.Helper()
	return within(t, defaultTolerance, what, got, want)
}

// within is near with a graph's own tolerance.
func within(t *testing.T, tolerance float64, what string, got, want []float32) (worst float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range want {
		worst = max(worst, math.Abs(float64(got[i])-float64(want[i])))
	}
	if !(worst <= tolerance) {
		t.Errorf("%s: differs by %g", what, worst)
	}
	return worst
}

func TestGoldenTokens(t *testing.T) {
	m := open(t)
	for _, g := range readGoldens(t).Tokenizer {
		ids, total := m.tokenizer.Encode(nil, g.Text, 0)
		if !slices.Equal(ids, g.IDs) || total != len(g.IDs) {
			t.Errorf("%.60q: got %v, want %v", g.Text, ids, g.IDs)
		}
	}
}

func TestGoldenGraphs(t *testing.T) {
	m, g := open(t), readGoldens(t)
	worst := 0.0
	var together []sequence
	for _, e := range g.Encoder {
		if len(e.IDs) == 0 {
			continue
		}
		alone := sequence{ids: e.IDs, vector: make([]float32, m.dimension())}
		if err := m.encoder.encode(t.Context(), []sequence{alone}); err != nil {
			t.Fatal(err)
		}
		worst = max(worst, near(t, "vector of "+e.Text[:min(40, len(e.Text))], alone.vector, e.Embedding))
		together = append(together, sequence{ids: e.IDs, vector: make([]float32, m.dimension())})
	}
	if err := m.encoder.encode(t.Context(), together); err != nil {
		t.Fatal(err)
	}
	i := 0
	for _, e := range g.Encoder {
		if len(e.IDs) > 0 {
			worst = max(worst, near(t, "padded vector of "+e.Text[:min(40, len(e.Text))], together[i].vector, e.Embedding))
			i++
		}
	}
	scores, want := make([]float32, len(g.Segmenter)), make([]float32, len(g.Segmenter))
	var pairs []neighbours
	for i, s := range g.Segmenter {
		pairs, want[i] = append(pairs, neighbours{s.Left, s.Right, &scores[i]}), s.Score
	}
	if err := m.segmenter.score(t.Context(), pairs); err != nil {
		t.Fatal(err)
	}
	worst = max(worst, near(t, "segmenter", scores, want))
	t.Logf("largest difference %.1e", worst)
}

// TestGoldenPairs tests pairs alone and all in one batch: padding of questions or texts must not
// change the result.
func TestGoldenPairs(t *testing.T) {
	m, g := open(t), readGoldens(t)
	t.Run("pair", func(t *testing.T) { goldenPairs(t, m.pair, m.manifest.Pair, g.Pair) })
	t.Run("reranker", func(t *testing.T) { goldenPairs(t, m.reranker, m.manifest.Reranker, g.Reranker) })
}

// TestGoldenScoresWithoutSpans: without spans the shipped reranker reads fewer layers, and its
// scores are near those with spans. In a batch that asks for some, who asks gets the same as alone.
func TestGoldenScoresWithoutSpans(t *testing.T) {
	m, g := open(t), readGoldens(t)
	if model, ok := m.reranker.(*headedPair); !ok || !model.onRequest {
		t.Fatalf("the shipped reranker has no input spans: %T", m.reranker)
	}
	rows := slices.DeleteFunc(g.Reranker, func(p goldenPair) bool { return len(p.TextIDs) == 0 })
	read := func(spans ...bool) []*pairResult {
		var pairs []textPair
		var results []*pairResult
		for i, p := range rows {
			results = append(results, &pairResult{})
			pairs = append(pairs, textPair{question: p.QuestionIDs, text: p.TextIDs, spans: spans[i%len(spans)], result: results[i]})
		}
		if err := m.reranker.score(t.Context(), pairs); err != nil {
			t.Fatal(err)
		}
		return results
	}
	all, none, some := read(true), read(false), read(false, true)
	const most = 1.5 // of the mean distance of relevance with and without spans, as a logit
	var apart float64
	for i, p := range rows {
		got := none[i]
		within(t, m.manifest.Reranker.Tolerance, "scores without spans of "+p.Text[:min(40, len(p.Text))],
			[]float32{got.relevance, got.hasAnswer, got.llmPrefer}, p.WithoutSpans)
		apart += math.Abs(float64(got.relevance - all[i].relevance))
		if got.last >= got.first {
			t.Errorf("pair %d has an answer that nobody asked for: %+v", i, got)
		}
		want, got := all[i], some[i]
		if got.relevance != want.relevance || got.hasAnswer != want.hasAnswer {
			t.Errorf("pair %d: scores %+v beside pairs without spans, %+v alone", i, got, want)
		}
		if got.last >= got.first && (got.first != want.first || got.last != want.last || got.span != want.span) {
			t.Errorf("pair %d: answer %+v beside pairs without, %+v alone", i, got, want)
		}
	}
	if apart /= float64(len(rows)); apart == 0 || apart > most {
		t.Errorf("without spans relevance is %.2f off on average; want more than 0 and at most %.2f", apart, most)
	}
	if !slices.ContainsFunc(some, func(r *pairResult) bool { return r.last >= r.first }) {
		t.Error("no pair that asked has an answer")
	}
}

// TestPairsWithSpansHaveBatchesOfTheirOwn: otherwise what else is in a batch would change a score.
func TestPairsWithSpansHaveBatchesOfTheirOwn(t *testing.T) {
	for name, size := range map[string]func(textPair) batch.Size{"padded": textPair.size, "exact": textPair.exactSize} {
		groups := map[int]bool{}
		for questions := range 9 {
			for texts := range 9 {
				pair := textPair{question: make([]int32, questions+1), text: make([]int32, texts+1)}
				groups[size(pair).Group] = true
			}
		}
		for questions := range 9 {
			pair := textPair{question: make([]int32, questions+1), text: make([]int32, 1), spans: true}
			if groups[size(pair).Group] {
				t.Errorf("%s: a pair with spans, and a question of %d tokens, shares a group with others", name, questions+1)
			}
		}
	}
}

func goldenPairs(t *testing.T, model pairModel, section *ManifestPair, goldens []goldenPair) {
	tolerance := defaultTolerance
	if section != nil {
		tolerance = max(tolerance, section.Tolerance)
	}
	if (model != nil) != (len(goldens) > 0) {
		t.Fatalf("the pack has the graph: %v, but %d goldens of it", model != nil, len(goldens))
	}
	var together []textPair
	for _, p := range goldens {
		questionRoom, textRoom := model.limits()
		question, _ := model.vocabulary().Encode(nil, p.Question, questionRoom)
		text, _ := model.vocabulary().Encode(nil, p.Text, textRoom)
		if !slices.Equal(question, p.QuestionIDs) || !slices.Equal(text, p.TextIDs) {
			t.Errorf("%.40q, %.40q: got %v and %v, want %v and %v", p.Question, p.Text, question, text, p.QuestionIDs, p.TextIDs)
		}
		if len(p.TextIDs) == 0 {
			continue
		}
		alone := textPair{question: p.QuestionIDs, text: p.TextIDs, spans: true, result: &pairResult{}}
		if err := model.score(t.Context(), []textPair{alone}); err != nil {
			t.Fatal(err)
		}
		within(t, tolerance, "scores alone", []float32{alone.result.relevance, alone.result.hasAnswer, alone.result.llmPrefer}, p.Scores)
		alone.result = &pairResult{}
		together = append(together, alone)
	}
	if len(together) > 0 {
		if err := model.score(t.Context(), together); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range slices.DeleteFunc(goldens, func(p goldenPair) bool { return len(p.TextIDs) == 0 }) {
		r := together[i].result
		within(t, tolerance, "scores of "+p.Text[:min(40, len(p.Text))], []float32{r.relevance, r.hasAnswer, r.llmPrefer}, p.Scores)
		_, _, span := bestSpan(p.Start, p.End, maxAnswerTokens)
		within(t, tolerance, "answer of "+p.Text[:min(40, len(p.Text))], []float32{r.span}, []float32{span})
	}
}

func TestGoldenOverNATS(t *testing.T) {
	nc, _ := serving(t, open(t), ServerOptions{})
	client, g := modelclient.New(nc, modelclient.Options{}), readGoldens(t)

	info, err := client.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, e := range g.Encoder {
		texts = append(texts, e.Text)
	}
	vectors, space, err := client.Encode(t.Context(), wire.LaneInteractive, texts)
	if err != nil {
		t.Fatal(err)
	}
	if vectors.Len() != len(texts) || vectors.Dimension != info.Dimension || space != info.Space || space == "" {
		t.Fatalf("%d vectors of %d in space %q, info %+v", vectors.Len(), vectors.Dimension, space, info)
	}
	for i, e := range g.Encoder {
		near(t, "vector of "+e.Text[:min(40, len(e.Text))], vectors.Row(i), e.Embedding)
	}

	var runs [][]string
	for _, s := range g.Segmentation {
		runs = append(runs, s.Sentences)
	}
	scores, threshold, err := client.Segment(t.Context(), wire.LaneBulk, runs)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range g.Segmentation {
		near(t, "scores of "+s.Sentences[0], scores[i], s.Scores)
		starts := []int{0}
		for j, score := range scores[i] {
			if float64(score) < threshold {
				starts = append(starts, j+1)
			}
		}
		if !slices.Equal(starts, s.Starts) {
			t.Errorf("%q: passages start at %v, want %v", s.Sentences[0], starts, s.Starts)
		}
	}
}
