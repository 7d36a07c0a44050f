package inference

// This file is FunnelRAG's FiD: the encoder reads the question with each passage, and the
// cross-attention of the decoder's first token says how much it draws on each passage (PAPERS
// section 2, eq. 3, on raw scores).

import (
	"context"
	"fmt"
	"slices"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluice-rag/sluice/internal/inference/batch"
)

// defaultFuseTokens is the paper's lr: the number of tokens that represent a passage.
const defaultFuseTokens = 4

// fusion is one question with its passages. One run reads all of them, because attention spans all
// passages.
type fusion struct {
	question     []int32
	passages     [][]int32 // none is empty
	tokens       int       // how many tokens represent a passage, for each layer and head; the paper's lr
	withQuestion bool      // whether the question's tokens may be among them
	scores       []float32 // the result is written here
}

func (f fusion) size() batch.Size {
	longest, sum := 0, 0
	for _, p := range f.passages {
		longest = max(longest, len(p))
		sum += len(f.question) + len(p)
	}
	return batch.Size{Cells: len(f.passages) * (len(f.question) + longest), Text: sum}
}

type fuser struct {
	*graph
	pad     int64
	heads   int // number of layers x heads of the decoder
	buffers sync.Pool
}

type fuserBuffers struct {
	ids, mask, passage  []int64
	attention, selected []float32
}

func openFuser(path string, pad int32, options *ort.SessionOptions) (*fuser, error) {
	g, err := openGraph(path, []port{
		{"input_ids", ort.TensorElementDataTypeInt64, 2},
		{"attention_mask", ort.TensorElementDataTypeInt64, 2},
		{"passage_mask", ort.TensorElementDataTypeInt64, 2},
	}, []port{{"attention", ort.TensorElementDataTypeFloat, 3}}, options)
	if err != nil {
		return nil, err
	}
	f := &fuser{graph: g, pad: int64(pad), heads: int(g.outputs[0].Dimensions[0]), buffers: sync.Pool{New: func() any { return &fuserBuffers{} }}}
	if f.heads < 1 { // the exported graph does not state the dimension
		if f.heads, err = f.countHeads(); err != nil {
			_ = g.close()
			return nil, fmt.Errorf("graph %s: %w", path, err)
		}
	}
	return f, nil
}

// countHeads runs the graph on one token to find its number of layers x heads.
func (f *fuser) countHeads() (int, error) {
	var t tensors
	defer t.free()
	one := []int64{1}
	inputs := []ort.Value{tensor(&t, one, 1, 1), tensor(&t, one, 1, 1), tensor(&t, one, 1, 1)}
	if t.err != nil {
		return 0, t.err
	}
	outputs := []ort.Value{nil}
	if err := f.run(context.Background(), inputs, outputs); err != nil {
		return 0, fmt.Errorf("run on one token: %w", err)
	}
	heads := outputs[0].GetShape()[0]
	if err := outputs[0].Destroy(); err != nil {
		return 0, err
	}
	return int(heads), nil
}

// fuse runs the questions one after the other.
func (f *fuser) fuse(ctx context.Context, questions []fusion) error {
	for _, q := range questions {
		if err := f.fuseOne(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func (f *fuser) fuseOne(ctx context.Context, q fusion) error {
	longest := 0
	for _, p := range q.passages {
		longest = max(longest, len(q.question)+len(p))
	}
	b := f.buffers.Get().(*fuserBuffers)
	defer f.buffers.Put(b)
	cells := len(q.passages) * longest
	b.ids, b.mask, b.passage = grow(b.ids, cells), grow(b.mask, cells), grow(b.passage, cells)
	b.attention = grow(b.attention, f.heads*cells)
	row := make([]int32, 0, longest)
	for i, p := range q.passages {
		row = append(append(row[:0], q.question...), p...)
		fillRow(b.ids, b.mask, i, longest, row, f.pad)
		passage := b.passage[i*longest : (i+1)*longest]
		copy(passage, b.mask[i*longest:])
		clear(passage[:len(q.question)])
	}
	var t tensors
	defer t.free()
	n, l := int64(len(q.passages)), int64(longest)
	inputs := []ort.Value{tensor(&t, b.ids, n, l), tensor(&t, b.mask, n, l), tensor(&t, b.passage, n, l)}
	output := tensor(&t, b.attention, int64(f.heads), n, l)
	if t.err != nil {
		return t.err
	}
	if err := f.run(ctx, inputs, []ort.Value{output}); err != nil {
		return fmt.Errorf("run the fuser on %d passages of up to %d tokens: %w", n, l, err)
	}
	for i, p := range q.passages {
		from := len(q.question)
		if q.withQuestion {
			from = 0
		}
		sum := 0.0
		for h := range f.heads {
			offset := (h*len(q.passages) + i) * longest
			weights := b.attention[offset+from : offset+len(q.question)+len(p)]
			if err := finite(weights); err != nil {
				return fmt.Errorf("the fuser's output: %w", err)
			}
			b.selected = append(b.selected[:0], weights...)
			sum += meanOfHighest(b.selected, q.tokens)
		}
		q.scores[i] = float32(sum / float64(f.heads))
	}
	return nil
}

// meanOfHighest returns the mean of the n highest values, or of all if there are fewer. It reorders
// values.
func meanOfHighest(values []float32, n int) float64 {
	n = min(n, len(values))
	slices.Sort(values)
	sum := 0.0
	for _, v := range values[len(values)-n:] {
		sum += float64(v)
	}
	return sum / float64(n)
}
