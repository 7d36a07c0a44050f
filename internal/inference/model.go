// Package inference runs the models of a pack with ONNX Runtime and serves their operations over
// NATS: it implements the model server. Model is a loaded pack, Server the service around it.
// Package tokenizer turns text into token ids, package batch groups requests into batches. Both are
// pure Go; only this package links ONNX Runtime.
package inference

// This file loads a pack: it checks manifest, tokenizer and graphs before anything is served.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"github.com/sluice-rag/sluice/internal/inference/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Options of a Model.
type Options struct {
	Pack     string   // folder with a manifest.yaml
	Library  string   // file of the ONNX Runtime library
	Provider Provider // empty: CPU
	Threads  int      // that a graph's run uses; 0: half of the cores
	Second   bool     // open only the graphs that servers of the second encoder need
}

// Model is a loaded pack. Close frees it.
type Model struct {
	pack      string // its folder
	manifest  Manifest
	sum       [sha256.Size]byte // of the manifest's bytes
	provider  Provider
	threads   int
	tokenizer *graphTokenizer // of the graphs that have no tokenizer of their own

	// The graphs. Those that the pack does not have are nil.
	encoder   *embedder
	sentences *embedder // the segmenter's: same as encoder, unless it has its own
	segmenter *segmenter
	pair      pairModel
	reranker  pairModel
	linker    *linker
	fuser     *fuser
	detector  *detector
	opened    []func() error // close the graphs that are open
}

// Open loads a pack. An error says what is wrong with the pack or the library, and the remedy.
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
	m := &Model{pack: o.Pack, provider: o.Provider, threads: o.Threads}
	if m.manifest, m.sum, err = readManifest(o.Pack); err != nil {
		return nil, err
	}
	if o.Second {
		if m.manifest.Encoder == nil {
			return nil, schema.Invalid("SLUICE_MODEL_PACK", "the model pack %s has no encoder, so it cannot be the second one", m.name())
		}
		m.manifest = m.manifest.second()
	}
	if m.tokenizer, err = openTokenizer(o.Pack, "tokenizer", m.manifest.Tokenizer); err != nil {
		return nil, fmt.Errorf("model pack %s: %w", o.Pack, err)
	}
	paths := map[string]string{}
	for _, g := range graphs {
		if spec := g.spec(&m.manifest); spec != nil && spec.File != "" {
			if paths[g.section], err = spec.locate(o.Pack, g.section); err != nil {
				return nil, fmt.Errorf("model pack %s: %w", o.Pack, err)
			}
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

// dimension is the dimension of the encoder's vectors.
func (m *Model) dimension() int { return m.manifest.Encoder.Dimension }

// name is the pack's name and version, as in replies.
func (m *Model) name() string { return m.manifest.Name + "/" + m.manifest.Version }

// serves returns an error with the remedy if the pack has no graph for an operation.
func (m *Model) serves(op wire.ModelOp) error {
	section := declared[op].Graph
	if op == wire.OpSegmentEncode && m.manifest.hasGraph(section) && (m.encoder == nil || m.manifest.Encoder.remote()) {
		section = "encoder of its own"
	} else if section == "" || m.manifest.hasGraph(section) {
		return nil
	}
	return schema.Invalid("SLUICE_MODEL_PACK", "the model pack %s has no graph for %s: name a pack whose %s has a section %s",
		m.name(), op, manifestName, section)
}

// refuses is serves for a request that was not read yet. It returns nil if the request itself can
// name another operation, as a score can name the reranker.
func (m *Model) refuses(op wire.ModelOp) error {
	if slices.ContainsFunc(operations, func(o wire.ModelOperation) bool { return o.Of == op }) {
		return nil
	}
	return m.serves(op)
}

// tokenizerOf opens the tokenizer of a graph, or returns the pack's if the graph has none of its
// own.
func (m *Model) tokenizerOf(f graphFile, b ManifestBERT) (*graphTokenizer, error) {
	if b.Tokenizer == nil {
		return m.tokenizer, nil
	}
	return openTokenizer(f.dir, f.section+".tokenizer", *b.Tokenizer)
}

func (m *Model) openPair(f graphFile, spec *ManifestPair) (pairModel, error) {
	tok, err := m.tokenizerOf(f, spec.ManifestBERT)
	switch {
	case err != nil:
		return nil, err
	case spec.Format == formatBERT:
		return openBERTPair(f.path, *spec, tok, f.options)
	}
	return openPair(f.path, f.section, spec, tok.Tokenizer, tok.pad, f.options)
}

// describe adds to info what a graph that scores can do. suffix ends the names of its thresholds.
// spanless reports that the graph finds no answer spans.
func (p *ManifestPair) describe(info *wire.ModelInfo, op wire.ModelOp, suffix string) (spanless bool) {
	if p == nil {
		return false
	}
	info.Limits[op] = p.MaxTextTokens
	if p.HasAnswerThreshold != nil {
		info.Calibrated["has_answer"+suffix] = *p.HasAnswerThreshold
	}
	if p.remote() {
		info.Remote = append(info.Remote, op)
		info.Notes = append(info.Notes, p.note(op))
	}
	if p.Format == formatBERT || p.remote() {
		info.Notes = append(info.Notes, string(op)+": has_answer and llm_prefer are the relevance; there are no answer spans")
	}
	return p.Format == formatBERT || p.remote()
}

// Close frees the graphs. No graph may be running.
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
		SHA256:     hex.EncodeToString(m.sum[:]),
		Space:      m.manifest.Space,
		Provider:   string(m.provider),
		Calibrated: map[string]float64{},
		Limits:     map[wire.ModelOp]int{},
	}
	for _, g := range m.manifest.rankingGraphs() {
		if len(g.graph.Scripts) > 0 {
			if info.Scripts == nil {
				info.Scripts = map[wire.ModelOp][]string{}
			}
			info.Scripts[g.op] = g.graph.Scripts
		}
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
		if e.remote() {
			info.Remote = append(info.Remote, wire.OpEncode)
			info.Notes = append(info.Notes, e.note(wire.OpEncode))
		}
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
