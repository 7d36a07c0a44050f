package inference

// This file answers fuse: how much an answer would draw on each passage when all are read together.

import (
	"context"

	"github.com/sluice-rag/sluice/internal/inference/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func init() { handle(wire.OpFuse, (*service).fuse) }

// fuse answers wire.FuseRequest.
func (s *service) fuse(ctx context.Context, caller batch.Caller, data []byte) (wire.FuseReply, error) {
	var reply wire.FuseReply
	request, ctx, cancel, err := begin[wire.FuseRequest](ctx, s, &caller, data)
	if err != nil {
		return reply, err
	}
	defer cancel()
	limits := s.model.manifest.Fuser
	switch {
	case request.Tokens < 0:
		return reply, schema.Invalid("tokens", "%d is negative", request.Tokens)
	case len(request.Texts) > limits.MaxPassages:
		return reply, schema.Invalid("texts", "there are %d, the fuser of %s reads %d together: keep fewer before fusing them",
			len(request.Texts), s.model.name(), limits.MaxPassages)
	}
	if err := s.load.add(request.Lane, 0, len(request.Texts)); err != nil {
		return reply, err
	}
	defer s.load.remove(0, len(request.Texts))
	reply = wire.FuseReply{Envelope: wire.Header(), Model: s.model.name(), Scores: make([]float32, len(request.Texts))}
	work, textIndices, truncated, err := s.prepareFusion(ctx, request)
	if err != nil {
		return wire.FuseReply{}, err
	}
	if len(textIndices) > 0 {
		if err := s.fusing.Do(ctx, caller, []fusion{work}); err != nil {
			return wire.FuseReply{}, err
		}
	}
	for i := range reply.Scores {
		reply.Scores[i] = lowestScore
	}
	for i, text := range textIndices {
		reply.Scores[text] = work.scores[i]
	}
	reply.Truncated = truncated
	return reply, nil
}

// prepareFusion tokenises a request in a slot. textIndices has the index of each passage's text:
// texts without tokens are left out.
func (s *service) prepareFusion(ctx context.Context, request wire.FuseRequest) (work fusion, textIndices []int, truncated int, err error) {
	if err := s.slots.Acquire(ctx, request.Lane.Background()); err != nil {
		return work, nil, 0, err
	}
	defer s.slots.Release(request.Lane.Background())
	defer s.metrics.tokenising(wire.OpFuse)()
	limits, vocabulary := s.model.manifest.Fuser, s.model.tokenizer
	work = fusion{tokens: request.Tokens, withQuestion: request.WithQuestion}
	if work.tokens == 0 {
		work.tokens = defaultFuseTokens
	}
	if work.question, _ = vocabulary.Encode(nil, request.Question, limits.MaxQuestionTokens); len(work.question) == 0 {
		return work, nil, 0, schema.Invalid("question", "%.40q has no word to read texts for", request.Question)
	}
	maxTextTokens := limits.MaxTokens - len(work.question)
	for i, text := range request.Texts {
		if err := ctx.Err(); err != nil {
			return work, nil, 0, err
		}
		ids, total := vocabulary.Encode(make([]int32, 0, min(maxTextTokens, len(text)/4+8)), text, maxTextTokens)
		if total > maxTextTokens {
			truncated++
		}
		if len(ids) > 0 {
			work.passages, textIndices = append(work.passages, ids), append(textIndices, i)
		}
	}
	work.scores = make([]float32, len(work.passages))
	return work, textIndices, truncated, nil
}
