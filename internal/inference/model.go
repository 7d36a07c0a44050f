// Package inference runs the models of a pack with ONNX Runtime and answers for them over NATS: it is the inside of the
// model server. Model is a loaded pack, Server the service around it. Package tokenizer makes token ids of text,
// package batch gathers requests into batches; both are pure Go, only this package links ONNX Runtime.
package inference

// This file loads a pack: manifest, tokenizer and graphs, each checked before anything is served.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluice-rag/sluice/internal/inference/batch"
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
	tokenizer *pieces // of the graphs that have none of their own

	// The graphs; those that the pack hasn't are nil.
	encoder   *embedder
	sentences *embedder // of the segmenter: encoder, unless it has its own
	segmenter *segmenter
	pair      pairModel
	reranker  pairModel
	linker    *linker
	fuser     *fuser
	detector  *detector
	opened    []func() error // closes them
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
	if m.tokenizer, err = openPieces(o.Pack, "tokenizer", m.manifest.Tokenizer); err != nil {
		return nil, fmt.Errorf("model pack %s: %w", o.Pack, err)
	}
	paths := map[string]string{}
	for section, g := range m.manifest.graphs() {
		if paths[section], err = g.locate(o.Pack, section); err != nil {
			return nil, fmt.Errorf("model pack %s: %w", o.Pack, err)
		}
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
	if err := m.openGraphs(o.Pack, paths, options); err != nil {
		return nil, fmt.Errorf("model pack %s: %w", o.Pack, err)
	}
	return m, nil
}

// openGraphs opens the graphs that paths has, by the manifest's section. What it opened before an error, Close closes.
func (m *Model) openGraphs(dir string, paths map[string]string, options *ort.SessionOptions) error {
	type closer interface{ close() error }
	for _, g := range []struct {
		section string
		open    func(path string) (closer, error)
	}{
		{"encoder", func(path string) (closer, error) {
			g, err := m.openEmbedder(dir, "encoder", path, *m.manifest.Encoder, options)
			m.encoder, m.sentences = g, g
			return g, err
		}},
		{"segmenter.encoder", func(path string) (closer, error) {
			g, err := m.openEmbedder(dir, "segmenter.encoder", path, *m.manifest.Segmenter.Encoder, options)
			m.sentences = g
			return g, err
		}},
		{"segmenter", func(path string) (closer, error) {
			g, err := openSegmenter(path, m.sentences.dimension, options)
			m.segmenter = g
			return g, err
		}},
		{"pair", func(path string) (closer, error) {
			g, err := m.openPair(dir, "pair", path, m.manifest.Pair, options)
			m.pair = g
			return g, err
		}},
		{"reranker", func(path string) (closer, error) {
			g, err := m.openPair(dir, "reranker", path, m.manifest.Reranker, options)
			m.reranker = g
			return g, err
		}},
		{"linker", func(path string) (closer, error) {
			g, err := openLinker(path, m.dimension(), options)
			m.linker = g
			return g, err
		}},
		{"fuser", func(path string) (closer, error) {
			g, err := openFuser(path, m.tokenizer.pad, options)
			m.fuser = g
			return g, err
		}},
		{"detector", func(path string) (closer, error) {
			g, err := openDetector(path, options)
			m.detector = g
			return g, err
		}},
	} {
		path, has := paths[g.section]
		if !has {
			continue
		}
		graph, err := g.open(path)
		if err != nil {
			return fmt.Errorf("%s: %w", g.section, err)
		}
		m.opened = append(m.opened, graph.close)
	}
	return nil
}

// dimension is that of the encoder's vectors.
func (m *Model) dimension() int { return m.manifest.Encoder.Dimension }

// name is the pack with its version, as replies say it.
func (m *Model) name() string { return m.manifest.Name + "/" + m.manifest.Version }

// serves says whether the pack has the graph of an operation, and if not, what to do.
func (m *Model) serves(op wire.ModelOp) error {
	section := declared[op].Graph
	if _, has := m.manifest.graphs()[section]; has || section == "" {
		return nil
	}
	return schema.Invalid("SLUICE_MODEL_PACK", "the model pack %s has no graph for %s: name a pack whose %s has a section %s",
		m.name(), op, manifestName, section)
}

// refuses is serves before a request is read. One that names its operation is read first.
func (m *Model) refuses(op wire.ModelOp) error {
	if slices.ContainsFunc(operations, func(o wire.ModelOperation) bool { return o.Of == op }) {
		return nil
	}
	return m.serves(op)
}

// piecesOf opens the tokenizer of a section, or gives the pack's.
func (m *Model) piecesOf(dir, section string, b ManifestBERT) (*pieces, error) {
	if b.Tokenizer == nil {
		return m.tokenizer, nil
	}
	return openPieces(dir, section+".tokenizer", *b.Tokenizer)
}

func (m *Model) openPair(dir, name, path string, section *ManifestPair, options *ort.SessionOptions) (pairModel, error) {
	words, err := m.piecesOf(dir, name, section.ManifestBERT)
	switch {
	case err != nil:
		return nil, err
	case section.Format == formatBERT:
		return openBERTPair(path, *section, words, options)
	}
	return openPair(path, name, section, words.Tokenizer, words.pad, options)
}

// describe says in info what a graph that scores can do: its names of thresholds end with suffix. spanless: it finds no answers.
func (p *ManifestPair) describe(info *wire.ModelInfo, op wire.ModelOp, suffix string) (spanless bool) {
	if p == nil {
		return false
	}
	info.Limits[op] = p.MaxTextTokens
	if p.HasAnswerThreshold != nil {
		info.Calibrated["has_answer"+suffix] = *p.HasAnswerThreshold
	}
	if p.Format == formatBERT {
		info.Notes = append(info.Notes, string(op)+": has_answer and llm_prefer are the relevance; there are no answer spans")
	}
	return p.Format == formatBERT
}

// Close frees the graphs. Nothing may run any more.
func (m *Model) Close() error {
	var err error
	for _, closeGraph := range m.opened {
		err = errors.Join(err, closeGraph())
	}
	return errors.Join(err, freeLibrary())
}

func init() {
	handle(wire.OpInfo, func(s *service, _ context.Context, _ batch.Caller, _ []byte) (wire.ModelInfo, error) {
		return s.model.Info(), nil
	})
}

// Info describes the model.
func (m *Model) Info() wire.ModelInfo {
	info := wire.ModelInfo{
		Envelope:   wire.Header(),
		Pack:       m.manifest.Name,
		Version:    m.manifest.Version,
		Space:      m.manifest.Space,
		Provider:   string(m.provider),
		Calibrated: map[string]float64{},
		Limits:     map[wire.ModelOp]int{},
	}
	for _, o := range operations {
		if o.Name != wire.OpInfo && m.serves(o.Name) == nil {
			info.Operations = append(info.Operations, o.Name)
		}
	}
	maps.Copy(info.Calibrated, m.manifest.Calibrated)
	if e := m.manifest.Encoder; e != nil {
		info.Dimension, info.MaxTokens = e.Dimension, e.MaxTokens
		info.Limits[wire.OpEncode] = e.MaxTokens
		if e.SimilarityThreshold != nil {
			info.Calibrated[wire.CalibratedSimilarity] = *e.SimilarityThreshold
		}
	}
	if s := m.manifest.Segmenter; s != nil {
		info.Calibrated["segment"] = s.Threshold
	}
	info.NoSpans = m.manifest.Pair.describe(&info, wire.OpScore, "")
	info.NoRerankSpans = m.manifest.Reranker.describe(&info, wire.OpRerank, wire.RerankerSuffix)
	if l := m.manifest.Linker; l != nil {
		info.Limits[wire.OpLink] = l.MaxPassages
		if l.Threshold != nil {
			info.Calibrated["link"] = *l.Threshold
		}
	}
	if f := m.manifest.Fuser; f != nil {
		info.Limits[wire.OpFuse] = f.MaxPassages
	}
	if d := m.manifest.Detector; d != nil {
		info.Limits[wire.OpDetect] = wire.DetectPairs
		info.Calibrated["detect"] = d.Threshold
	}
	return info
}
