package inference

// This file runs encoders and cross-encoders in Hugging Face's form. Their inputs are input_ids,
// attention_mask and perhaps token_type_ids; their output is the vectors of the tokens, a vector of
// the text, or the logits of a pair.

import (
	"context"
	"fmt"
	"math"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluice-rag/sluice/internal/inference/tokenizer"
)

// Poolings: how the vectors of the tokens become one vector, as sentence-transformers' 1_Pooling
// defines it.
const (
	poolMean  = "mean"
	poolFirst = "cls"
	poolLast  = "last"
	poolNone  = "none" // the graph returns one vector
)

// bertInputs are the inputs of a batch. Rows are padded to the longest.
type bertInputs struct{ ids, mask, types []int64 }

// ports returns the inputs that the graph must have.
func (b ManifestBERT) ports() []port {
	ports := []port{
		{"input_ids", ort.TensorElementDataTypeInt64, 2},
		{"attention_mask", ort.TensorElementDataTypeInt64, 2},
	}
	if b.Types {
		ports = append(ports, port{"token_type_ids", ort.TensorElementDataTypeInt64, 2})
	}
	return ports
}

// reset makes room for rows of width tokens. With types, all token types are 0.
func (b *bertInputs) reset(rows, width int, types bool) {
	b.ids, b.mask = grow(b.ids, rows*width), grow(b.mask, rows*width)
	if types {
		b.types = grow(b.types, rows*width)
		clear(b.types)
	}
}

func (b *bertInputs) tensors(t *tensors, rows, width int64, types bool) []ort.Value {
	inputs := []ort.Value{tensor(t, b.ids, rows, width), tensor(t, b.mask, rows, width)}
	if types {
		inputs = append(inputs, tensor(t, b.types, rows, width))
	}
	return inputs
}

// bertEncoder is an encoder that pools outside the graph, unless the graph pools, and always scales
// vectors to unit length.
type bertEncoder struct {
	*graph
	section ManifestEncoder
	pad     int64
	buffers sync.Pool
}

type bertBuffers struct {
	bertInputs
	output []float32
	rows   [][]int32 // of pairs
	second []int
}

func openBERTEncoder(path string, section ManifestEncoder, pad int32, options *ort.SessionOptions) (*bertEncoder, error) {
	rank := 3
	if section.Pooling == poolNone {
		rank = 2
	}
	g, err := openGraph(path, section.ports(), []port{{section.Output, ort.TensorElementDataTypeFloat, rank}}, options)
	if err != nil {
		return nil, err
	}
	if got := g.outputs[0].Dimensions[rank-1]; got > 0 && got != int64(section.Dimension) {
		_ = g.close()
		return nil, fmt.Errorf("graph %s: output %s has dimension %d, the manifest says %d", path, section.Output, got, section.Dimension)
	}
	return &bertEncoder{graph: g, section: section, pad: int64(pad), buffers: sync.Pool{New: func() any { return &bertBuffers{} }}}, nil
}

// encode runs one batch. No sequence is empty.
func (e *bertEncoder) encode(ctx context.Context, batch []sequence) error {
	width := 0
	for _, s := range batch {
		width = max(width, len(s.ids))
	}
	d := e.section.Dimension
	b := e.buffers.Get().(*bertBuffers)
	defer e.buffers.Put(b)
	b.reset(len(batch), width, e.section.Types)
	for row, s := range batch {
		fillRow(b.ids, b.mask, row, width, s.ids, e.pad)
	}
	var t tensors
	defer t.free()
	n, l := int64(len(batch)), int64(width)
	inputs := b.tensors(&t, n, l, e.section.Types)
	perRow := width * d
	shape := []int64{n, l, int64(d)}
	if e.section.Pooling == poolNone {
		perRow, shape = d, []int64{n, int64(d)}
	}
	b.output = grow(b.output, len(batch)*perRow)
	output := tensor(&t, b.output, shape...)
	if t.err != nil {
		return t.err
	}
	if err := e.run(ctx, inputs, []ort.Value{output}); err != nil {
		return fmt.Errorf("run the encoder on %d texts of up to %d tokens: %w", n, l, err)
	}
	for row, s := range batch {
		states := b.output[row*perRow : (row+1)*perRow]
		switch e.section.Pooling {
		case poolMean:
			mean(s.vector, states[:len(s.ids)*d])
		case poolLast:
			copy(s.vector, states[(len(s.ids)-1)*d:][:d])
		default: // the first token's vector, or the only one
			copy(s.vector, states[:d])
		}
		if err := finite(s.vector); err != nil {
			return fmt.Errorf("the encoder's output: %w", err)
		}
		scale(s.vector)
	}
	return nil
}

// mean writes the mean of the vectors, which are stored one after the other.
func mean(dst, vectors []float32) {
	clear(dst)
	for offset := 0; offset < len(vectors); offset += len(dst) {
		for i, v := range vectors[offset : offset+len(dst)] {
			dst[i] += v
		}
	}
	count := float32(len(vectors) / len(dst))
	for i := range dst {
		dst[i] /= count
	}
}

// scale scales a vector to length 1. A zero vector stays as it is.
func scale(vector []float32) {
	sum := 0.0
	for _, v := range vector {
		sum += float64(v) * float64(v)
	}
	if sum == 0 {
		return
	}
	factor := float32(1 / math.Sqrt(sum))
	for i := range vector {
		vector[i] *= factor
	}
}

// bertPair is a cross-encoder. It computes relevance only: has_answer and llm_prefer have the same
// value, and there are no spans.
type bertPair struct {
	*graph
	section ManifestPair
	tok     *graphTokenizer
	buffers sync.Pool
}

func openBERTPair(path string, section ManifestPair, tok *graphTokenizer, options *ort.SessionOptions) (*bertPair, error) {
	g, err := openGraph(path, section.ports(), []port{{section.Output, ort.TensorElementDataTypeFloat, 2}}, options)
	if err != nil {
		return nil, err
	}
	if got := g.outputs[0].Dimensions[1]; got > 0 && got != int64(section.Labels) {
		_ = g.close()
		return nil, fmt.Errorf("graph %s: output %s has %d labels, the manifest says %d", path, section.Output, got, section.Labels)
	}
	return &bertPair{graph: g, section: section, tok: tok, buffers: sync.Pool{New: func() any { return &bertBuffers{} }}}, nil
}

func (p *bertPair) vocabulary() *tokenizer.Tokenizer { return p.tok.Tokenizer }

func (p *bertPair) features() int { return 0 }

// limits returns how many tokens of a question and of a text are read. Together they may exceed the
// model's length: score cuts the pair to it.
func (p *bertPair) limits() (question, text int) {
	return p.section.MaxQuestionTokens, p.section.MaxTextTokens
}

// score runs one batch.
func (p *bertPair) score(ctx context.Context, batch []textPair) error {
	b := p.buffers.Get().(*bertBuffers)
	defer p.buffers.Put(b)
	b.rows, b.second = grow(b.rows, len(batch)), grow(b.second, len(batch))
	width := 0
	for i, pair := range batch {
		b.rows[i], b.second[i] = p.tok.frame.Pair(b.rows[i][:0], pair.question, pair.text, p.section.MaxTokens, tokenizer.Truncation(p.section.Truncation))
		width = max(width, len(b.rows[i]))
	}
	b.reset(len(batch), width, p.section.Types)
	for row, ids := range b.rows {
		fillRow(b.ids, b.mask, row, width, ids, int64(p.tok.pad))
		if p.section.Types && !p.tok.frame.OneType {
			for i := b.second[row]; i < len(ids); i++ {
				b.types[row*width+i] = 1
			}
		}
	}
	labels := p.section.Labels
	b.output = grow(b.output, len(batch)*labels)
	var t tensors
	defer t.free()
	n, l := int64(len(batch)), int64(width)
	inputs := b.tensors(&t, n, l, p.section.Types)
	output := tensor(&t, b.output, n, int64(labels))
	if t.err != nil {
		return t.err
	}
	if err := p.run(ctx, inputs, []ort.Value{output}); err != nil {
		return fmt.Errorf("run the cross-encoder on %d pairs of up to %d tokens: %w", n, l, err)
	}
	if err := finite(b.output); err != nil {
		return fmt.Errorf("the cross-encoder's output: %w", err)
	}
	for row, pair := range batch {
		// With two classes, relevance is the logit of the second class against the first.
		relevance := b.output[row*labels+labels-1]
		if labels == 2 {
			relevance -= b.output[row*labels]
		}
		*pair.result = pairResult{relevance: relevance, hasAnswer: relevance, llmPrefer: relevance, last: -1}
	}
	return nil
}
