package inference

// This file answers encode: one vector per text.

import (
	"context"

	"github.com/sluice-rag/sluice/internal/inference/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func init() { handle(wire.OpEncode, (*service).encode) }

// encode answers wire.EncodeRequest.
func (s *service) encode(ctx context.Context, caller batch.Caller, data []byte) (wire.EncodeReply, error) {
	var reply wire.EncodeReply
	request, ctx, cancel, err := begin[wire.EncodeRequest](ctx, s, &caller, data)
	if err != nil {
		return reply, err
	}
	defer cancel()
	if request.Queries < 0 || request.Queries > len(request.Texts) {
		return reply, schema.Invalid("queries", "%d of %d texts", request.Queries, len(request.Texts))
	}
	// The size of a vector as base64 of float32, and of the numbers that come with it.
	if err := s.fits("texts", len(request.Texts), s.model.dimension()*4*4/3+16); err != nil {
		return reply, err
	}
	if err := s.load.add(request.Lane, 0, len(request.Texts)); err != nil {
		return reply, err
	}
	defer s.load.remove(0, len(request.Texts))
	if s.model.manifest.Encoder.remote() {
		return s.encodeRemotely(ctx, caller, request)
	}
	work, err := s.tokenise(ctx, wire.OpEncode, request.Lane, s.model.encoder, request.Texts, request.Queries)
	if err != nil {
		return reply, err
	}
	if err := s.encoding.Do(ctx, caller, work.sequences); err != nil {
		return reply, err
	}
	return wire.EncodeReply{
		Envelope:  wire.Header(),
		Space:     s.model.manifest.Space,
		Vectors:   wire.Vectors{Dimension: s.model.dimension(), Data: work.vectors},
		Tokens:    work.tokens,
		Truncated: work.truncated,
	}, nil
}

// texts holds the encoder's input for some texts, and their vectors.
type texts struct {
	sequences []sequence // of the texts that have tokens
	vectors   []float32  // of all texts, row by row
	dimension int
	tokens    []int
	truncated int
}

func (t *texts) vector(i int) []float32 { return t.vectors[i*t.dimension : (i+1)*t.dimension] }

// tokenise turns texts into sequences, in a slot. The first queries of all are questions, the
// others passages.
func (s *service) tokenise(ctx context.Context, op wire.ModelOp, lane wire.Lane, by *embedder, all []string, queries int) (*texts, error) {
	if err := s.slots.Acquire(ctx, lane.Background()); err != nil {
		return nil, err
	}
	defer s.slots.Release(lane.Background())
	defer s.metrics.tokenising(op)()
	t := &texts{
		sequences: make([]sequence, 0, len(all)),
		vectors:   make([]float32, len(all)*by.dimension),
		dimension: by.dimension,
		tokens:    make([]int, len(all)),
	}
	for i, text := range all {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		read := by.tokens
		if i < queries {
			read = by.queryTokens
		}
		ids, total, isTruncated := read(text)
		t.tokens[i] = total
		if isTruncated {
			t.truncated++
		}
		if len(ids) > 0 {
			t.sequences = append(t.sequences, by.sequence(ids, t.vector(i)))
		}
	}
	return t, nil
}
