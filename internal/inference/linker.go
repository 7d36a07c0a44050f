package inference

// This file is SAKI's SentenceAttnLinker: from the vectors of a window of passages it computes how
// strongly each attends to each other (PAPERS section 3, eq. 2-4).

import (
	"context"
	"fmt"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluice-rag/sluice/internal/inference/batch"
)

// window is a run of a document's passages.
type window struct {
	vectors   []float32 // row by row, of the linker's dimension
	passages  int
	attention []float32 // the result is written here: passages x passages, row by row
}

func (w window) size() batch.Size { return batch.Tokens(w.passages) }

type linker struct {
	*graph
	dimension int
	buffers   sync.Pool
}

type linkerBuffers struct {
	vectors, attention []float32
	mask               []int64
}

func openLinker(path string, dimension int, options *ort.SessionOptions) (*linker, error) {
	g, err := openGraph(path, []port{
		{"vectors", ort.TensorElementDataTypeFloat, 3},
		{"mask", ort.TensorElementDataTypeInt64, 2},
	}, []port{{"attention", ort.TensorElementDataTypeFloat, 3}}, options)
	if err != nil {
		return nil, err
	}
	return &linker{graph: g, dimension: dimension, buffers: sync.Pool{New: func() any { return &linkerBuffers{} }}}, nil
}

// computeAttention runs one batch. No window is empty.
func (l *linker) computeAttention(ctx context.Context, windows []window) error {
	longest := 0
	for _, w := range windows {
		longest = max(longest, w.passages)
	}
	b := l.buffers.Get().(*linkerBuffers)
	defer l.buffers.Put(b)
	row := longest * l.dimension
	b.vectors, b.mask = grow(b.vectors, len(windows)*row), grow(b.mask, len(windows)*longest)
	b.attention = grow(b.attention, len(windows)*longest*longest)
	for i, w := range windows {
		vectors, mask := b.vectors[i*row:(i+1)*row], b.mask[i*longest:(i+1)*longest]
		clear(vectors[copy(vectors, w.vectors):])
		for j := range mask {
			mask[j] = 0
			if j < w.passages {
				mask[j] = 1
			}
		}
	}
	var t tensors
	defer t.free()
	n, p, d := int64(len(windows)), int64(longest), int64(l.dimension)
	inputs := []ort.Value{tensor(&t, b.vectors, n, p, d), tensor(&t, b.mask, n, p)}
	output := tensor(&t, b.attention, n, p, p)
	if t.err != nil {
		return t.err
	}
	if err := l.run(ctx, inputs, []ort.Value{output}); err != nil {
		return fmt.Errorf("run the linker on %d windows of up to %d passages: %w", n, p, err)
	}
	for i, w := range windows {
		for j := range w.passages {
			attention := b.attention[(i*longest+j)*longest:][:w.passages]
			if err := finite(attention); err != nil {
				return fmt.Errorf("the linker's output: %w", err)
			}
			copy(w.attention[j*w.passages:], attention)
		}
	}
	return nil
}
