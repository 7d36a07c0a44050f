package inference

// This file answers score: how well texts answer a question, and with which words.

import (
	"context"

	"github.com/sluice-rag/sluice/internal/inference/batch"
	"github.com/sluice-rag/sluice/internal/inference/tokenizer"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const lowestScore = wire.LowestScore

// scoreBytes is the most bytes that a text's scores take in a reply.
const scoreBytes = 224

// rerankWeight is how many sequences of the server's load a text for the reranker counts as,
// because it takes so much longer.
const rerankWeight = 10

// scoringGraph is a graph that scores texts, with its queue. weight is how many sequences of the
// server's load a text counts as.
type scoringGraph struct {
	op     wire.ModelOp
	model  pairModel
	queue  *batch.Queue[textPair]
	weight int
}

// scorerFor returns the graph that a request names.
func (s *service) scorerFor(request wire.ScoreRequest) (scoringGraph, error) {
	op, err := wire.ScoreOp(request.Graph)
	if err == nil {
		err = s.model.serves(op)
	}
	if err != nil || op == wire.OpScore {
		return scoringGraph{op, s.model.pair, s.scoring, 1}, err
	}
	return scoringGraph{op, s.model.reranker, s.reranking, rerankWeight}, nil
}

func init() { handle(wire.OpScore, (*service).score) }

// score answers wire.ScoreRequest. The reply's Graph is set even if there is an error.
func (s *service) score(ctx context.Context, caller batch.Caller, data []byte) (wire.ScoreReply, error) {
	var reply wire.ScoreReply
	request, ctx, cancel, err := begin[wire.ScoreRequest](ctx, s, &caller, data)
	if err != nil {
		return reply, err
	}
	defer cancel()
	scorer, err := s.scorerFor(request)
	if err != nil {
		return reply, err
	}
	if scorer.op == wire.OpRerank {
		reply.Graph = wire.GraphReranker
	}
	// Only the pair model's labels are trained further, so nobody needs the reranker's features.
	width := 0
	if request.Features && scorer.op == wire.OpScore {
		width = scorer.model.features()
	}
	if err := s.fits("texts", len(request.Texts), scoreBytes+6*width); err != nil {
		return reply, err
	}
	if err := s.load.add(request.Lane, 0, scorer.weight*len(request.Texts)); err != nil {
		return reply, err
	}
	defer s.load.remove(0, scorer.weight*len(request.Texts))
	if r := s.model.manifest.Reranker; scorer.op == wire.OpRerank && r.remote() {
		return s.rerankRemotely(ctx, caller, request)
	}
	work, err := s.tokenisePairs(ctx, request, scorer, width > 0)
	if err != nil {
		return reply, err
	}
	if err := scorer.queue.Do(ctx, caller, work.pairs); err != nil {
		return reply, err
	}
	reply = wire.ScoreReply{Envelope: wire.Header(), Model: s.model.name(), Scores: make([]wire.PairScore, len(request.Texts)), Truncated: work.truncated, Graph: reply.Graph}
	if width > 0 {
		reply.FeaturesOf = featuresOf(s.model.manifest.Pair)
		reply.Features = &wire.Vectors{Dimension: width, Data: make(wire.Floats, width*len(request.Texts))}
	}
	for i, text := range request.Texts {
		r := work.results[i]
		if width > 0 && r.features != nil {
			copy(reply.Features.Row(i), r.features)
		}
		reply.Scores[i] = wire.PairScore{Relevance: r.relevance, HasAnswer: r.hasAnswer, LLMPrefer: r.llmPrefer}
		if r.last >= r.first {
			answer := func(s tokenSpan) wire.AnswerSpan {
				start, end := expandToWords(text, work.spans[i][s.first], work.spans[i][s.last])
				return wire.AnswerSpan{Start: start, End: end, Score: s.score}
			}
			best := answer(tokenSpan{r.first, r.last, r.span})
			reply.Scores[i].Answer = &best
			for _, s := range r.others {
				reply.Scores[i].Others = append(reply.Scores[i].Others, answer(s))
			}
		}
	}
	return reply, nil
}

// featuresOf returns the name of the graph that computes features: the beginning of its hash. A
// head that is trained on them is valid for this graph only.
func featuresOf(m *ManifestPair) string { return m.SHA256[:min(16, len(m.SHA256))] }

// tokenisedPairs holds the pairs of a request and their results.
type tokenisedPairs struct {
	pairs     []textPair              // of the texts that have tokens
	results   []pairResult            // of all texts
	spans     [][]tokenizer.ByteRange // of each text's tokens, when answers are asked for
	truncated int
}

// tokenisePairs tokenises the question and each text once, in a slot.
func (s *service) tokenisePairs(ctx context.Context, request wire.ScoreRequest, scorer scoringGraph, features bool) (*tokenisedPairs, error) {
	if err := s.slots.Acquire(ctx, request.Lane.Background()); err != nil {
		return nil, err
	}
	defer s.slots.Release(request.Lane.Background())
	defer s.metrics.tokenising(scorer.op)()
	vocabulary := scorer.model.vocabulary()
	maxQuestion, maxText := scorer.model.limits()
	question, _ := vocabulary.Encode(nil, request.Question, maxQuestion)
	if len(question) == 0 {
		return nil, schema.Invalid("question", "%.40q has no word to score texts for", request.Question)
	}
	p := &tokenisedPairs{pairs: make([]textPair, 0, len(request.Texts)), results: make([]pairResult, len(request.Texts))}
	if request.Answers {
		p.spans = make([][]tokenizer.ByteRange, len(request.Texts))
	}
	for i, text := range request.Texts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var ids []int32
		var total int
		if request.Answers {
			ids, p.spans[i], total = vocabulary.EncodeSpans(nil, nil, text, maxText)
		} else {
			ids, total = vocabulary.Encode(make([]int32, 0, min(maxText, len(text)/4+8)), text, maxText)
		}
		if total > maxText {
			p.truncated++
		}
		if len(ids) == 0 {
			p.results[i] = pairResult{relevance: lowestScore, hasAnswer: lowestScore, llmPrefer: lowestScore, last: -1}
			continue
		}
		p.pairs = append(p.pairs, textPair{question: question, text: ids, spans: request.Answers, features: features, result: &p.results[i]})
	}
	return p, nil
}
