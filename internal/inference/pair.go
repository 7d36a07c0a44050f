package inference

// This file is the pair model and the reranker, whose graphs have the same form: from a question
// and a text they compute three scores and an answer span in one pass.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluice-rag/sluice/internal/inference/batch"
	"github.com/sluice-rag/sluice/internal/inference/tokenizer"
)

// maxFeatures is the most features that a graph may have.
const maxFeatures = 1024

// textPair is a question and one text. Ids include no special tokens; neither is empty.
type textPair struct {
	question, text []int32
	spans          bool        // whether the answer span is wanted
	features       bool        // whether the features that the labels are computed from are wanted
	result         *pairResult // written by the run
}

// size groups pairs by the length of their questions, to within a few tokens: a batch pads
// questions and texts to the longest of each, so one long question would pad all others.
func (p textPair) size() batch.Size {
	const step = 4
	question := (len(p.question) + step - 1) / step * step
	return batch.Size{Cells: question + len(p.text), Text: len(p.question) + len(p.text), Group: p.group(question)}
}

// exactSize groups pairs by both lengths, so that batches have no padding.
func (p textPair) exactSize() batch.Size {
	n := len(p.question) + len(p.text)
	return batch.Size{Cells: n, Text: n, Group: p.group(len(p.question)<<16 + len(p.text))}
}

// group returns a group for each n and for pairs with and without spans: a graph may read fewer
// layers for a batch without spans, and what else is in a batch must not change a score.
func (p textPair) group(n int) int {
	if p.spans {
		return 2*n + 1
	}
	return 2 * n
}

// pairResult is what a graph computes for a pair, as logits. The best answer span is in tokens of
// the text, both ends included; without one, last < first.
type pairResult struct {
	relevance, hasAnswer, llmPrefer float32
	first, last                     int
	span                            float32
	others                          []tokenSpan
	features                        []float32 // nil: not requested, or the graph has none
}

// pairModel scores pairs of token ids. Each input format of cross-encoders has an implementation.
type pairModel interface {
	// vocabulary returns the tokenizer that makes the ids for score.
	vocabulary() *tokenizer.Tokenizer
	// limits returns how many tokens of a question and of a text score reads.
	limits() (question, text int)
	// features returns how many features the labels are computed from; 0: the graph does not output
	// them.
	features() int
	// score runs one batch and writes its results.
	score(ctx context.Context, batch []textPair) error
	close() error
}

// headedPair is a graph that training/ exports: it has separate inputs for questions and texts, and
// outputs three scores, start and end, and perhaps the features that the labels among the scores
// are computed from. It may have the input spans: with 0 it leaves start and end out and may
// estimate the scores, in less time.
type headedPair struct {
	*graph
	section   string // of the manifest
	manifest  *ManifestPair
	tokenizer *tokenizer.Tokenizer
	pad       int64
	width     int  // of features; 0: the graph has no such output
	onRequest bool // whether the graph has the input spans, without which it always computes start and end
	buffers   sync.Pool
}

type pairBuffers struct {
	questionIDs, questionMask, textIDs, textMask []int64
	scores, start, end, features                 []float32
	spans                                        []int64
}

func openPair(path, section string, manifest *ManifestPair, vocabulary *tokenizer.Tokenizer, pad int32, options *ort.SessionOptions) (*headedPair, error) {
	g, err := openGraphWith(path, []port{
		{"question_ids", ort.TensorElementDataTypeInt64, 2},
		{"question_mask", ort.TensorElementDataTypeInt64, 2},
		{"text_ids", ort.TensorElementDataTypeInt64, 2},
		{"text_mask", ort.TensorElementDataTypeInt64, 2},
	}, []port{
		{"scores", ort.TensorElementDataTypeFloat, 2},
		{"start", ort.TensorElementDataTypeFloat, 2},
		{"end", ort.TensorElementDataTypeFloat, 2},
	}, optionalPorts{
		inputs:  []port{{"spans", ort.TensorElementDataTypeInt64, 1}},
		outputs: []port{{"features", ort.TensorElementDataTypeFloat, 2}},
	}, options)
	if err != nil {
		return nil, err
	}
	width := 0
	if len(g.outputs) > 3 {
		if width = int(g.outputs[3].Dimensions[1]); width < 1 || width > maxFeatures {
			return nil, errors.Join(fmt.Errorf("graph %s: the output features has %d columns, not 1 to %d", path, width, maxFeatures), g.close())
		}
	}
	return &headedPair{graph: g, section: section, manifest: manifest, tokenizer: vocabulary, pad: int64(pad), width: width,
		onRequest: slices.Contains(g.inputs, "spans"), buffers: sync.Pool{New: func() any { return &pairBuffers{} }}}, nil
}

func (p *headedPair) vocabulary() *tokenizer.Tokenizer { return p.tokenizer }

func (p *headedPair) features() int { return p.width }

func (p *headedPair) limits() (question, text int) {
	return p.manifest.MaxQuestionTokens, p.manifest.MaxTextTokens
}

func (p *headedPair) score(ctx context.Context, pairs []textPair) error {
	const heads = 3
	questions, texts, spans := 0, 0, int64(0)
	for _, pair := range pairs {
		questions, texts = max(questions, len(pair.question)), max(texts, len(pair.text))
		if pair.spans {
			spans = 1
		}
	}
	b := p.buffers.Get().(*pairBuffers)
	defer p.buffers.Put(b)
	b.questionIDs, b.questionMask = grow(b.questionIDs, len(pairs)*questions), grow(b.questionMask, len(pairs)*questions)
	b.textIDs, b.textMask = grow(b.textIDs, len(pairs)*texts), grow(b.textMask, len(pairs)*texts)
	b.scores = grow(b.scores, len(pairs)*heads)
	b.start, b.end = grow(b.start, len(pairs)*texts), grow(b.end, len(pairs)*texts)
	for row, pair := range pairs {
		fillRow(b.questionIDs, b.questionMask, row, questions, pair.question, p.pad)
		fillRow(b.textIDs, b.textMask, row, texts, pair.text, p.pad)
	}
	var t tensors
	defer t.free()
	n, q, l := int64(len(pairs)), int64(questions), int64(texts)
	inputs := []ort.Value{tensor(&t, b.questionIDs, n, q), tensor(&t, b.questionMask, n, q), tensor(&t, b.textIDs, n, l), tensor(&t, b.textMask, n, l)}
	if p.onRequest {
		b.spans = append(b.spans[:0], spans)
		inputs = append(inputs, tensor(&t, b.spans, 1))
	}
	outputs := []ort.Value{tensor(&t, b.scores, n, heads), tensor(&t, b.start, n, l), tensor(&t, b.end, n, l)}
	if p.width > 0 {
		b.features = grow(b.features, len(pairs)*p.width)
		outputs = append(outputs, tensor(&t, b.features, n, int64(p.width)))
	}
	if t.err != nil {
		return t.err
	}
	if err := p.run(ctx, inputs, outputs); err != nil {
		return fmt.Errorf("run the graph %s on %d pairs of up to %d and %d tokens: %w", p.section, n, q, l, err)
	}
	for row, pair := range pairs {
		scores := b.scores[row*heads : (row+1)*heads]
		start, end := b.start[row*texts:][:len(pair.text)], b.end[row*texts:][:len(pair.text)]
		for _, values := range [][]float32{scores, start, end} {
			if err := finite(values); err != nil {
				return fmt.Errorf("the output of the graph %s: %w", p.section, err)
			}
		}
		r := pair.result
		if pair.features && p.width > 0 {
			r.features = slices.Clone(b.features[row*p.width : (row+1)*p.width])
			if err := finite(r.features); err != nil {
				return fmt.Errorf("the features of the graph %s: %w", p.section, err)
			}
		}
		r.relevance, r.hasAnswer, r.llmPrefer = scores[0], scores[1], scores[2]
		if r.last = -1; pair.spans {
			r.first, r.last, r.span = bestSpan(start, end, maxAnswerTokens)
			r.others = otherSpans(start, end, maxAnswerTokens, tokenSpan{r.first, r.last, r.span}, maxOtherSpans)
		}
	}
	return nil
}
