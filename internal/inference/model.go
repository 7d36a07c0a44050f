// Package inference runs the models of a pack with ONNX Runtime and answers for them over NATS: it is the inside of the
// model server. Model is a loaded pack, Server the service around it. Package tokenizer makes token ids of text,
// package batch gathers requests into batches; both are pure Go, only this package links ONNX Runtime.
package inference

// This file loads a pack: manifest, tokenizer and graphs, each checked before anything is served.

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/sluice-rag/sluice/internal/inference/tokenizer"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Options of a Model.
type Options struct {
	Pack     string   // folder with a manifest.yaml
	Library  string   // file of the ONNX Runtime library
	Provider Provider // empty: CPU
	Threads  int      // of one graph's run; 0: half of the cores
}

// Model is a loaded pack. Close frees it.
type Model struct {
	manifest  Manifest
	provider  Provider
	threads   int
	tokenizer *tokenizer.Tokenizer
	before    []int32
	after     []int32
	encoder   *encoder
	segmenter *segmenter
}

// Open loads a pack. What is wrong with it, or with the library, is named together with the remedy.
func Open(o Options) (_ *Model, err error) {
	if o.Provider == "" {
		o.Provider = CPU
	}
	if o.Threads < 0 {
		return nil, schema.Invalid("SLUICE_MODEL_THREADS", "%d is negative", o.Threads)
	}
	if o.Threads == 0 {
		o.Threads = max(1, runtime.GOMAXPROCS(0)/2)
	}
	m := &Model{provider: o.Provider, threads: o.Threads}
	if m.manifest, err = ReadManifest(o.Pack); err != nil {
		return nil, err
	}
	pad, err := m.openTokenizer(o.Pack)
	if err != nil {
		return nil, fmt.Errorf("model pack %s: %w", o.Pack, err)
	}
	encoderPath, err := m.manifest.Encoder.locate(o.Pack, "encoder")
	if err != nil {
		return nil, fmt.Errorf("model pack %s: %w", o.Pack, err)
	}
	segmenterPath, err := m.manifest.Segmenter.locate(o.Pack, "segmenter")
	if err != nil {
		return nil, fmt.Errorf("model pack %s: %w", o.Pack, err)
	}

	if err := loadLibrary(o.Library); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	options, err := sessionOptions(o.Provider, o.Threads)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, options.Destroy()) }()
	dimension := m.manifest.Encoder.Dimension
	if m.encoder, err = openEncoder(encoderPath, dimension, pad, options); err != nil {
		return nil, fmt.Errorf("model pack %s: encoder: %w", o.Pack, err)
	}
	if m.segmenter, err = openSegmenter(segmenterPath, dimension, options); err != nil {
		return nil, fmt.Errorf("model pack %s: segmenter: %w", o.Pack, err)
	}
	return m, nil
}

func (m *Model) openTokenizer(dir string) (pad int32, err error) {
	spec := m.manifest.Tokenizer
	path, err := spec.locate(dir, "tokenizer")
	if err != nil {
		return 0, err
	}
	if m.tokenizer, err = tokenizer.Load(path); err != nil {
		return 0, err
	}
	lookup := func(field, token string) int32 {
		id, ok := m.tokenizer.Lookup(token)
		if !ok {
			err = schema.Invalid("tokenizer."+field, "%s has no token %q", path, token)
		}
		return id
	}
	for _, token := range spec.Before {
		m.before = append(m.before, lookup("before", token))
	}
	for _, token := range spec.After {
		m.after = append(m.after, lookup("after", token))
	}
	return lookup("pad", spec.Pad), err
}

// Close frees the graphs. Nothing may run any more.
func (m *Model) Close() error {
	var err error
	if m.encoder != nil {
		err = errors.Join(err, m.encoder.close())
	}
	if m.segmenter != nil {
		err = errors.Join(err, m.segmenter.close())
	}
	return errors.Join(err, freeLibrary())
}

// Info describes the model.
func (m *Model) Info() wire.ModelInfo {
	return wire.ModelInfo{
		Envelope:  wire.Header(),
		Pack:      m.manifest.Name,
		Version:   m.manifest.Version,
		Space:     m.manifest.Space,
		Dimension: m.manifest.Encoder.Dimension,
		MaxTokens: m.manifest.Encoder.MaxTokens,
		Provider:  string(m.provider),
	}
}

// tokens makes the encoder's ids of a text: at most MaxTokens of them, special tokens included. total counts the
// text's own tokens, cut or not. A text without a known token gives none.
func (m *Model) tokens(text string) (ids []int32, total int, cut bool) {
	room := m.manifest.Encoder.MaxTokens - len(m.before) - len(m.after)
	ids = append(make([]int32, 0, len(m.before)+min(room, len(text)/4+8)+len(m.after)), m.before...)
	ids, total = m.tokenizer.Encode(ids, text, room)
	for _, id := range ids[len(m.before):] {
		if id != m.tokenizer.Unknown() {
			return append(ids, m.after...), total, total > room
		}
	}
	return nil, total, total > room
}
