package inference

// This file is the encoder: it turns token ids into one unit vector per text.

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluice-rag/sluice/schema"
)

// sequence is a text as the encoder reads it.
type sequence struct {
	ids    []int32
	counts []int32   // how often each id occurs; nil: once
	vector []float32 // the result is written here; it has the encoder's dimension
}

// textEncoder turns token ids into vectors. Each input format of encoders has an implementation.
type textEncoder interface {
	// encode runs one batch and writes its vectors. No sequence is empty; ids include the special
	// tokens.
	encode(ctx context.Context, batch []sequence) error
	close() error
}

// embedder is an encoder with its tokenizer and prompts.
type embedder struct {
	textEncoder
	*graphTokenizer
	dimension, maxTokens int
	query, passage       prompt
	counts               bool
	counters             sync.Pool
}

// prompt is the text in front of questions or of passages, and how many tokens it has.
type prompt struct {
	text   string
	tokens int
}

func (w *graphTokenizer) prompt(text string) prompt {
	_, n := w.Encode(nil, strings.TrimSpace(text), 0)
	return prompt{text, n}
}

// openEmbedder opens an encoder of either format, and the tokenizer of its section.
func (m *Model) openEmbedder(f graphFile, spec *ManifestEncoder) (*embedder, error) {
	tok, err := m.tokenizerOf(f, spec.ManifestBERT)
	if err != nil {
		return nil, err
	}
	e := &embedder{graphTokenizer: tok, dimension: spec.Dimension, maxTokens: spec.MaxTokens, counts: spec.Counts}
	e.counters.New = func() any { return &tokenCounter{} }
	if spec.Prompts != nil {
		e.query, e.passage = tok.prompt(spec.Prompts.Query), tok.prompt(spec.Prompts.Passage)
		if limit := spec.MaxTokens - len(tok.frame.Before) - len(tok.frame.After); max(e.query.tokens, e.passage.tokens) >= limit {
			return nil, schema.Invalid(f.section+".prompts", "leave no room for a text of %d tokens at most", spec.MaxTokens)
		}
	}
	if spec.Format == formatBERT {
		e.textEncoder, err = openBERTEncoder(f.path, *spec, tok.pad, f.options)
	} else {
		e.textEncoder, err = openEncoder(f.path, spec.Dimension, tok.pad, f.options)
	}
	return e, err
}

// sequence returns a text as the graph reads it, which takes the memory of ids.
func (e *embedder) sequence(ids []int32, vector []float32) sequence {
	if !e.counts {
		return sequence{ids: ids, vector: vector}
	}
	c := e.counters.Get().(*tokenCounter)
	defer e.counters.Put(c)
	distinct, counts := c.count(ids)
	return sequence{ids: distinct, counts: counts, vector: vector}
}

// tokens returns the ids of a passage, queryTokens those of a question: at most maxTokens, with
// prompt and special tokens. total counts the tokens of the text alone, before cutting. A text
// without a known token has no ids.
func (e *embedder) tokens(text string) (ids []int32, total int, truncated bool) {
	return e.prompted(e.passage, text)
}

func (e *embedder) queryTokens(text string) (ids []int32, total int, truncated bool) {
	return e.prompted(e.query, text)
}

func (e *embedder) prompted(p prompt, text string) (ids []int32, total int, truncated bool) {
	if p.text != "" {
		if strings.TrimSpace(text) == "" {
			return nil, 0, false
		}
		text = p.text + text
	}
	before, after := e.frame.Before, e.frame.After
	limit := e.maxTokens - len(before) - len(after)
	ids = append(make([]int32, 0, len(before)+min(limit, len(text)/4+8)+len(after)), before...)
	ids, total = e.Encode(ids, text, limit)
	truncated = total > limit
	total = max(0, total-p.tokens)
	for _, id := range ids[min(len(ids), len(before)+p.tokens):] {
		if id != e.Unknown() {
			return append(ids, after...), total, truncated
		}
	}
	return nil, total, truncated
}

// encoder is a graph that training/ exports: it pools and scales inside the graph.
type encoder struct {
	*graph
	dimension int
	pad       int64
	buffers   sync.Pool
}

type encoderBuffers struct {
	ids, mask []int64
	vectors   []float32
}

func openEncoder(path string, dimension int, pad int32, options *ort.SessionOptions) (*encoder, error) {
	g, err := openGraph(path, []port{
		{"input_ids", ort.TensorElementDataTypeInt64, 2},
		{"attention_mask", ort.TensorElementDataTypeInt64, 2},
	}, []port{{"embedding", ort.TensorElementDataTypeFloat, 2}}, options)
	if err != nil {
		return nil, err
	}
	if got := g.outputs[0].Dimensions[1]; got > 0 && got != int64(dimension) {
		_ = g.close()
		return nil, fmt.Errorf("graph %s: output embedding has dimension %d, the manifest says %d", path, got, dimension)
	}
	return &encoder{graph: g, dimension: dimension, pad: int64(pad), buffers: sync.Pool{New: func() any { return &encoderBuffers{} }}}, nil
}

// encode runs one batch. No sequence is empty.
func (e *encoder) encode(ctx context.Context, batch []sequence) error {
	longest := 0
	for _, s := range batch {
		longest = max(longest, len(s.ids))
	}
	b := e.buffers.Get().(*encoderBuffers)
	defer e.buffers.Put(b)
	b.ids, b.mask = grow(b.ids, len(batch)*longest), grow(b.mask, len(batch)*longest)
	b.vectors = grow(b.vectors, len(batch)*e.dimension)
	for row, s := range batch {
		fillRow(b.ids, b.mask, row, longest, s.ids, e.pad)
		for i, n := range s.counts {
			b.mask[row*longest+i] = int64(n)
		}
	}
	var t tensors
	defer t.free()
	n, m := int64(len(batch)), int64(longest)
	inputs := []ort.Value{tensor(&t, b.ids, n, m), tensor(&t, b.mask, n, m)}
	output := tensor(&t, b.vectors, n, int64(e.dimension))
	if t.err != nil {
		return t.err
	}
	if err := e.run(ctx, inputs, []ort.Value{output}); err != nil {
		return fmt.Errorf("run the encoder on %d texts of up to %d tokens: %w", n, m, err)
	}
	for row, s := range batch {
		v := b.vectors[row*e.dimension : (row+1)*e.dimension]
		if err := finite(v); err != nil {
			return fmt.Errorf("the encoder's output: %w", err)
		}
		copy(s.vector, v)
	}
	return nil
}

// finite returns an error that names the first value that is not a finite number.
func finite(values []float32) error {
	// x-x is 0 if x is finite and NaN otherwise, so one sum checks all values without a branch for
	// each.
	var sums [4]float32
	rest := values
	for ; len(rest) >= 4; rest = rest[4:] {
		sums[0] += rest[0] - rest[0]
		sums[1] += rest[1] - rest[1]
		sums[2] += rest[2] - rest[2]
		sums[3] += rest[3] - rest[3]
	}
	for _, v := range rest {
		sums[0] += v - v
	}
	if sums[0]+sums[1]+sums[2]+sums[3] == 0 {
		return nil
	}
	for _, v := range values {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("%v is no finite number", v)
		}
	}
	return nil
}
