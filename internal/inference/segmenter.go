package inference

// This file is SAGE's segmentation head: from the vectors of the text before and after a boundary
// between sentences it computes a score in [0, 1] for whether the two belong together. The graph
// computes the features x1, x2, x1-x2 and x1*x2 itself. SAGE's model reads one sentence on either
// side; the manifest says how many this one reads.

import (
	"context"
	"fmt"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
)

// neighbours are the vectors of the two sides of a boundary between sentences.
type neighbours struct {
	left, right []float32
	score       *float32 // the result is written here
}

// sides are the vectors of the two sides of every boundary in a run of sentences.
type sides struct {
	left, right []float32 // row i of left ends with sentence i, row i of right begins with it
	dimension   int
}

func (s sides) before(i int) []float32 { return s.left[i*s.dimension : (i+1)*s.dimension] }
func (s sides) after(i int) []float32  { return s.right[(i+1)*s.dimension : (i+2)*s.dimension] }

// boundarySides computes the sides from the vectors of a run's sentences. Each is the mean of as
// many sentences as the manifest's Window says and the run has, weighted by distance and scaled to
// unit length. With a Window of one, it is the sentence's vector unchanged.
func (m *Model) boundarySides(vectors []float32) sides {
	section, d := m.manifest.Segmenter, m.sentences.dimension
	if section.Window == 1 {
		return sides{vectors, vectors, d}
	}
	out := sides{make([]float32, len(vectors)), make([]float32, len(vectors)), d}
	n, none := len(vectors)/d, make([]float32, d)
	row := func(i int) []float32 {
		if i < 0 || i >= n {
			return none
		}
		return vectors[i*d : (i+1)*d]
	}
	weights := make([]float32, (section.Window+3)/4*4)
	for distance, weight := 0, 1.0; distance < section.Window; distance++ {
		weights[distance], weight = float32(weight), weight*section.Decay
	}
	for i := range n {
		left, right := out.left[i*d:(i+1)*d], out.right[i*d:(i+1)*d]
		for k := 0; k < len(weights); k += 4 {
			w := [4]float32(weights[k:])
			addFour(left, w, row(i-k), row(i-k-1), row(i-k-2), row(i-k-3))
			addFour(right, w, row(i+k), row(i+k+1), row(i+k+2), row(i+k+3))
		}
		scale(left)
		scale(right)
	}
	return out
}

// addFour adds vectors to sum, each times its weight. One loop over four takes half the time of
// four.
func addFour(sum []float32, weights [4]float32, a, b, c, d []float32) {
	a, b, c, d = a[:len(sum)], b[:len(sum)], c[:len(sum)], d[:len(sum)]
	u, v, w, x := weights[0], weights[1], weights[2], weights[3]
	for i := range sum {
		sum[i] = sum[i] + u*a[i] + v*b[i] + w*c[i] + x*d[i]
	}
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
