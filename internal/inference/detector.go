package inference

// This file is FIT-RAG's eligible-augmentation detector: it maps the scores of the texts so far to
// the probability that they are enough to answer with. It also answers detect, which adds little.

import (
	"context"
	"fmt"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluice-rag/sluice/internal/inference/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// detectorInputs is how many numbers the detector reads: has_answer and llm_prefer of each text.
const detectorInputs = 2 * wire.DetectPairs

// detectorInput are the scores of the texts so far.
type detectorInput struct {
	pairs  [][2]float32 // at most wire.DetectPairs
	enough *float32     // the result is written here
}

type detector struct {
	*graph
	buffers sync.Pool
}

type detectorBuffers struct{ scores, enough []float32 }

func openDetector(path string, options *ort.SessionOptions) (*detector, error) {
	g, err := openGraph(path, []port{{"scores", ort.TensorElementDataTypeFloat, 2}},
		[]port{{"enough", ort.TensorElementDataTypeFloat, 1}}, options)
	if err != nil {
		return nil, err
	}
	return &detector{graph: g, buffers: sync.Pool{New: func() any { return &detectorBuffers{} }}}, nil
}

// detect runs one batch.
func (d *detector) detect(ctx context.Context, contexts []detectorInput) error {
	b := d.buffers.Get().(*detectorBuffers)
	defer d.buffers.Put(b)
	b.scores, b.enough = grow(b.scores, len(contexts)*detectorInputs), grow(b.enough, len(contexts))
	clear(b.scores)
	for row, c := range contexts {
		for i, pair := range c.pairs {
			copy(b.scores[row*detectorInputs+2*i:], pair[:])
		}
	}
	var t tensors
	defer t.free()
	n := int64(len(contexts))
	inputs := []ort.Value{tensor(&t, b.scores, n, detectorInputs)}
	output := tensor(&t, b.enough, n)
	if t.err != nil {
		return t.err
	}
	if err := d.run(ctx, inputs, []ort.Value{output}); err != nil {
		return fmt.Errorf("run the detector on %d contexts: %w", n, err)
	}
	if err := finite(b.enough); err != nil {
		return fmt.Errorf("the detector's output: %w", err)
	}
	for row, c := range contexts {
		*c.enough = b.enough[row]
	}
	return nil
}

// probabilityBytes is the most bytes that a probability takes in a reply.
const probabilityBytes = 16

func init() { handle(wire.OpDetect, (*service).detect) }

// detect answers wire.DetectRequest.
func (s *service) detect(ctx context.Context, caller batch.Caller, data []byte) (wire.DetectReply, error) {
	var reply wire.DetectReply
	request, ctx, cancel, err := begin[wire.DetectRequest](ctx, s, &caller, data)
	if err != nil {
		return reply, err
	}
	defer cancel()
	if err := s.fits("contexts", len(request.Contexts), probabilityBytes); err != nil {
		return reply, err
	}
	reply = wire.DetectReply{Envelope: wire.Header(), Model: s.model.name(), Threshold: s.model.manifest.Detector.Threshold,
		Enough: make([]float32, len(request.Contexts))}
	contexts := make([]detectorInput, len(request.Contexts))
	for i, pairs := range request.Contexts {
		if len(pairs) > wire.DetectPairs {
			return wire.DetectReply{}, schema.Invalid("contexts", "context %d has the scores of %d texts, the detector sees %d: send the best", i, len(pairs), wire.DetectPairs)
		}
		contexts[i] = detectorInput{pairs, &reply.Enough[i]}
	}
	if err := s.load.add(request.Lane, 0, len(contexts)); err != nil {
		return wire.DetectReply{}, err
	}
	defer s.load.remove(0, len(contexts))
	if err := s.detecting.Do(ctx, caller, contexts); err != nil {
		return wire.DetectReply{}, err
	}
	return reply, nil
}
