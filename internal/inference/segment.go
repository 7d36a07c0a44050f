package inference

// This file answers segment: how well neighbouring sentences belong together.

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/internal/inference/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func init() { handle(wire.OpSegment, (*service).segment) }

// segment encodes each sentence once, then scores the boundaries between neighbours.
func (s *service) segment(ctx context.Context, caller batch.Caller, data []byte) (wire.SegmentReply, error) {
	var reply wire.SegmentReply
	request, ctx, cancel, err := begin[wire.SegmentRequest](ctx, s, &caller, data)
	if err != nil {
		return reply, err
	}
	defer cancel()
	var sentences []string
	for _, run := range request.Runs {
		sentences = append(sentences, run...)
	}
	// A score is a JSON number of at most 16 bytes; an empty run takes a few bytes too.
	if (len(sentences)+len(request.Runs))*16 > int(s.nc.MaxPayload())-4096 {
		return reply, fmt.Errorf("runs: the reply for %d sentences would not fit a message: %w", len(sentences), schema.ErrTooLarge)
	}
	if err := s.load.add(request.Lane, 0, len(sentences)); err != nil {
		return reply, err
	}
	defer s.load.remove(0, len(sentences))
	scores, err := s.scoreRuns(ctx, wire.OpSegment, caller, request.Runs, sentences)
	if err != nil {
		return reply, err
	}
	return wire.SegmentReply{
		Envelope:  wire.Header(),
		Model:     s.model.name(),
		Threshold: s.model.manifest.Segmenter.Threshold,
		Scores:    scores,
	}, nil
}

// scoreRuns scores the boundaries between neighbours of each run. sentences are the sentences of
// all runs.
func (s *service) scoreRuns(ctx context.Context, op wire.ModelOp, caller batch.Caller, runs [][]string, sentences []string) ([][]float32, error) {
	work, err := s.tokenise(ctx, op, caller.Lane, s.model.sentences, sentences, 0)
	if err != nil {
		return nil, err
	}
	if err := s.sentences.Do(ctx, caller, work.sequences); err != nil {
		return nil, err
	}
	scores := make([][]float32, len(runs))
	var pairs []neighbours
	first := 0
	for i, run := range runs {
		scores[i] = make([]float32, max(0, len(run)-1))
		sides := s.model.boundarySides(work.vectors[first*work.dimension : (first+len(run))*work.dimension])
		for j := range scores[i] {
			pairs = append(pairs, neighbours{sides.before(j), sides.after(j), &scores[i][j]})
		}
		first += len(run)
	}
	return scores, s.segmenting.Do(ctx, caller, pairs)
}
