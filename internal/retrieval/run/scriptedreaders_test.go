package run_test

// A model server and links with scripted results. Package queryworker's tests run plans on the real
// ones.

import (
	"context"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// scriptedReaders implements retrieval.Readers.
type scriptedReaders struct {
	info   wire.ModelInfo
	score  func(text string) wire.PairScore
	rerank func(text string) wire.PairScore // nil: as score
	fuse   func(text string) float32
	enough func(pairs [][2]float32) float32
	fail   error
	// described makes Info succeed even if the rest fails.
	described bool
	fewer     bool // one score less than texts
	// features are the features of the labels, returned for the graph "graph"; nil: none.
	features func(text string) []float32
	featured int

	infos     int
	scored    [][]string // texts of each request
	reranked  [][]string
	spans     []bool // whether the reranker was asked for them
	fused     [][]string
	questions []string
	tokens    int
	question  bool
	contexts  [][][2]float32
}

// everyOp returns readers that score a text by f in every operation.
func everyOp(f func(text string) float32) *scriptedReaders {
	return &scriptedReaders{
		info: wire.ModelInfo{Pack: "scripted", Version: "1", Operations: []wire.ModelOp{wire.OpEncode, wire.OpScore, wire.OpRerank, wire.OpFuse, wire.OpDetect}},
		score: func(text string) wire.PairScore {
			return wire.PairScore{Relevance: f(text), HasAnswer: f(text), LLMPrefer: f(text)}
		},
		fuse:   f,
		enough: func(pairs [][2]float32) float32 { return float32(len(pairs)) / 10 },
	}
}

func (r *scriptedReaders) Info(context.Context) (wire.ModelInfo, error) {
	r.infos++
	if r.described {
		return r.info, nil
	}
	return r.info, r.fail
}

func (r *scriptedReaders) Score(_ context.Context, _ wire.Lane, question string, texts []string, _ bool) ([]wire.PairScore, string, error) {
	r.scored, r.questions = append(r.scored, texts), append(r.questions, question)
	out := make([]wire.PairScore, len(texts))
	for i, text := range texts {
		out[i] = r.score(text)
	}
	if r.fewer {
		out = out[1:]
	}
	return out, "scripted/1", r.fail
}

func (r *scriptedReaders) ScoreWithFeatures(ctx context.Context, lane wire.Lane, question string, texts []string) (out wire.ScoresWithFeatures, err error) {
	r.featured++
	out.Scores, out.Model, err = r.Score(ctx, lane, question, texts, false)
	if r.features == nil {
		return out, err
	}
	out.Of = "graph"
	for _, text := range texts {
		row := r.features(text)
		out.Features.Dimension, out.Features.Data = len(row), append(out.Features.Data, row...)
	}
	return out, err
}

func (r *scriptedReaders) Rerank(_ context.Context, _ wire.Lane, question string, texts []string,
	answers bool) ([]wire.PairScore, string, error) {
	r.reranked, r.questions, r.spans = append(r.reranked, texts), append(r.questions, question), append(r.spans, answers)
	f := r.rerank
	if f == nil {
		f = r.score
	}
	out := make([]wire.PairScore, len(texts))
	for i, text := range texts {
		out[i] = f(text)
	}
	if r.fewer {
		out = out[1:]
	}
	return out, "scripted/1", r.fail
}

func (r *scriptedReaders) Fuse(_ context.Context, _ wire.Lane, question string, texts []string, tokens int, withQuestion bool) ([]float32, string, error) {
	r.fused, r.questions = append(r.fused, texts), append(r.questions, question)
	r.tokens, r.question = tokens, withQuestion
	out := make([]float32, len(texts))
	for i, text := range texts {
		out[i] = r.fuse(text)
	}
	if r.fewer {
		out = out[1:]
	}
	return out, "scripted/1", r.fail
}

func (r *scriptedReaders) Detect(_ context.Context, _ wire.Lane, contexts [][][2]float32) ([]float32, float64, string, error) {
	r.contexts = contexts
	out := make([]float32, len(contexts))
	for i, pairs := range contexts {
		out[i] = r.enough(pairs)
	}
	return out, 0.3, "scripted/1", r.fail
}

// scriptedLinks are links by passage, strongest first.
type scriptedLinks map[lexical.Ref][]retrieval.Link

// Links implements retrieval.Links.
func (c *scriptedCorpus) Links(_ context.Context, p schema.Principal, _ uuid.UUID, at retrieval.At, passages []lexical.Ref, k int) (map[lexical.Ref][]retrieval.Link, error) {
	if err := c.checkState(at); err != nil {
		return nil, err
	}
	out := map[lexical.Ref][]retrieval.Link{}
	for _, r := range passages {
		if some := c.links[r]; len(some) > 0 && c.readable(p, r.Version) {
			out[r] = some[:min(k, len(some))]
		}
	}
	return out, nil
}
