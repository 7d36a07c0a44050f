package inference

// This file is SAGE's segmentation head: the vectors of two neighbouring sentences to one score in [0, 1], whether
// they belong together. The features x1, x2, x1-x2 and x1*x2 are made inside the graph.

import (
	"context"
	"fmt"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
)

// neighbours are two sentences, one after the other.
type neighbours struct {
	left, right []float32
	score       *float32 // the result is written here
}

type segmenter struct {
	*graph
	dimension int
	buffers   sync.Pool
}

type segmenterBuffers struct{ left, right, scores []float32 }

func openSegmenter(path string, dimension int, options *ort.SessionOptions) (*segmenter, error) {
	g, err := openGraph(path, []port{
		{"left", ort.TensorElementDataTypeFloat, 2},
		{"right", ort.TensorElementDataTypeFloat, 2},
	}, []port{{"score", ort.TensorElementDataTypeFloat, 1}}, options)
	if err != nil {
		return nil, err
	}
	return &segmenter{graph: g, dimension: dimension, buffers: sync.Pool{New: func() any { return &segmenterBuffers{} }}}, nil
}

// score runs one batch.
func (s *segmenter) score(ctx context.Context, batch []neighbours) error {
	d := s.dimension
	b := s.buffers.Get().(*segmenterBuffers)
	defer s.buffers.Put(b)
	b.left, b.right = grow(b.left, len(batch)*d), grow(b.right, len(batch)*d)
	b.scores = grow(b.scores, len(batch))
	for row, p := range batch {
		copy(b.left[row*d:(row+1)*d], p.left)
		copy(b.right[row*d:(row+1)*d], p.right)
	}
	var t tensors
	defer t.free()
	n := int64(len(batch))
	inputs := []ort.Value{tensor(&t, b.left, n, int64(d)), tensor(&t, b.right, n, int64(d))}
	output := tensor(&t, b.scores, n)
	if t.err != nil {
		return t.err
	}
	if err := s.run(ctx, inputs, []ort.Value{output}); err != nil {
		return fmt.Errorf("run the segmenter on %d pairs: %w", n, err)
	}
	if err := finite(b.scores); err != nil {
		return fmt.Errorf("the segmenter's output: %w", err)
	}
	for row, p := range batch {
		*p.score = b.scores[row]
	}
	return nil
}
