package inference

// This file lists the graphs that a pack may have. Code that reads a manifest, opens a pack or
// checks it iterates over the list.

import (
	"context"
	"fmt"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluice-rag/sluice/internal/inference/modelpack"
)

// graphKind is a graph that a pack may have.
type graphKind struct {
	section string // of the manifest
	// spec returns the manifest's entry of the graph; nil: the pack has none. The entry of a model
	// behind an API names no file.
	spec func(m *Manifest) *ManifestGraph
	// open opens the graph for a model, which closes it.
	open func(m *Model, f graphFile) (opened closer, err error)
	// check checks the graph of an open pack. all are the pack's goldens.
	check func(c *checker, ctx context.Context, g *modelpack.GraphReport, all packGoldens) error
}

type closer interface{ close() error }

// graphFile is where a graph is, and the options of its session.
type graphFile struct {
	dir, section, path string
	options            *ort.SessionOptions
}

// graphs are in the order in which they are opened: encoders before the segmenter and the linker,
// which read their vectors.
var graphs = []graphKind{
	{"encoder", func(m *Manifest) *ManifestGraph { return graphOf(m.Encoder) },
		func(m *Model, f graphFile) (_ closer, err error) {
			m.encoder, err = m.openEmbedder(f, m.manifest.Encoder)
			m.sentences = m.encoder
			return m.encoder, err
		},
		func(c *checker, ctx context.Context, g *modelpack.GraphReport, all packGoldens) error {
			return c.encoder(ctx, g, c.model.encoder, c.model.manifest.Encoder, all)
		}},
	{"segmenter.encoder", func(m *Manifest) *ManifestGraph {
		if m.Segmenter == nil {
			return nil
		}
		return graphOf(m.Segmenter.Encoder)
	},
		func(m *Model, f graphFile) (_ closer, err error) {
			m.sentences, err = m.openEmbedder(f, m.manifest.Segmenter.Encoder)
			return m.sentences, err
		},
		func(c *checker, ctx context.Context, g *modelpack.GraphReport, _ packGoldens) error {
			return c.encoder(ctx, g, c.model.sentences, c.model.manifest.Segmenter.Encoder, packGoldens{})
		}},
	{"segmenter", func(m *Manifest) *ManifestGraph { return graphOf(m.Segmenter) },
		func(m *Model, f graphFile) (_ closer, err error) {
			m.segmenter, err = openSegmenter(f.path, m.sentences.dimension, f.options)
			return m.segmenter, err
		}, (*checker).segmenter},
	{"pair", func(m *Manifest) *ManifestGraph { return graphOf(m.Pair) },
		func(m *Model, f graphFile) (_ closer, err error) {
			m.pair, err = m.openPair(f, m.manifest.Pair)
			return m.pair, err
		},
		func(c *checker, ctx context.Context, g *modelpack.GraphReport, all packGoldens) error {
			return c.pair(ctx, g, c.model.pair, c.model.manifest.Pair, all.Pair)
		}},
	{"reranker", func(m *Manifest) *ManifestGraph { return graphOf(m.Reranker) },
		func(m *Model, f graphFile) (_ closer, err error) {
			m.reranker, err = m.openPair(f, m.manifest.Reranker)
			return m.reranker, err
		},
		func(c *checker, ctx context.Context, g *modelpack.GraphReport, all packGoldens) error {
			return c.pair(ctx, g, c.model.reranker, c.model.manifest.Reranker, all.Reranker)
		}},
	{"linker", func(m *Manifest) *ManifestGraph { return graphOf(m.Linker) },
		func(m *Model, f graphFile) (_ closer, err error) {
			m.linker, err = openLinker(f.path, m.dimension(), f.options)
			return m.linker, err
		}, (*checker).linker},
	{"fuser", func(m *Manifest) *ManifestGraph { return graphOf(m.Fuser) },
		func(m *Model, f graphFile) (_ closer, err error) {
			m.fuser, err = openFuser(f.path, m.tokenizer.pad, f.options)
			return m.fuser, err
		}, (*checker).fuser},
	{"detector", func(m *Manifest) *ManifestGraph { return graphOf(m.Detector) },
		func(m *Model, f graphFile) (_ closer, err error) {
			m.detector, err = openDetector(f.path, f.options)
			return m.detector, err
		}, (*checker).detector},
}

// graphOf returns the graph of a section; nil: there is no such section.
func graphOf[T any, S interface {
	*T
	graph() *ManifestGraph
}](section S) *ManifestGraph {
	if section == nil {
		return nil
	}
	return section.graph()
}

func (g *ManifestGraph) graph() *ManifestGraph { return g }

// hasGraph reports whether the pack has the graph of a section.
func (m *Manifest) hasGraph(section string) bool {
	for _, g := range graphs {
		if g.section == section {
			return g.spec(m) != nil
		}
	}
	return false
}

// second returns the manifest without the graphs of operations that the servers of the second
// encoder don't answer.
func (m Manifest) second() Manifest {
	m.Segmenter, m.Pair, m.Reranker, m.Fuser, m.Detector, m.Calibrated = nil, nil, nil, nil, nil, nil
	return m
}

// openGraphs opens the graphs of the pack in dir. paths has their files by section. After an error,
// Close closes those that were opened.
func (m *Model) openGraphs(dir string, paths map[string]string, options *ort.SessionOptions) error {
	for _, g := range graphs {
		path, ok := paths[g.section]
		if !ok {
			continue
		}
		opened, err := g.open(m, graphFile{dir, g.section, path, options})
		if err != nil {
			return fmt.Errorf("%s: %w", g.section, err)
		}
		m.opened = append(m.opened, opened.close)
	}
	return nil
}
