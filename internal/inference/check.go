package inference

// This file checks a pack as a whole: that it opens, that its graphs return what the trainer's did
// (goldens), and that padding does not change a result. `sluice models check` prints the report.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/inference/modelpack"
)

// defaultTolerance is the tolerance of fp32 graphs.
const defaultTolerance = 1e-4

// packGoldens is the part of goldens.json, a pack's or a graph's, that this file reads.
type packGoldens struct {
	Tokenizer []struct {
		Text string
		IDs  []int32
	}
	Encoder []struct {
		Text      string
		Kind      string // query; empty: a passage
		IDs       []int32
		Embedding []float32
	}
	Segmenter []struct {
		Left, Right []float32
		Score       float32
	}
	Pair     []scoreGolden
	Reranker []scoreGolden
	Linker   []struct {
		Passages  []string
		Attention [][]float32
	}
	Fuser []struct {
		Question string
		Texts    []string
		Settings []struct {
			Tokens       int
			WithQuestion bool `json:"with_question"`
			Scores       []float32
		}
	}
	Detector []struct {
		Pairs  [][2]float32
		Enough float32
	}
}

// scoreGolden is what a graph returns for a question and a text.
type scoreGolden struct {
	Question, Text string
	IDs            []int32   // of question and text with special tokens; for cross-encoders
	Relevance      *float32  // for cross-encoders
	Scores         []float32 // for other graphs
}

// Check opens a pack and runs Try on it. It returns an error if the pack cannot be opened.
func Check(ctx context.Context, o Options) (_ modelpack.Report, err error) {
	m, err := Open(o)
	if err != nil {
		return modelpack.Report{}, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return m.Try(ctx)
}

// Try runs each graph of an open pack at least once, on the trainer's inputs and on texts of its
// own, and reports where the results differ. It also warms up a GPU, which loads the rest of what a
// graph needs at its first run: that run takes many times as long as the next.
func (m *Model) Try(ctx context.Context) (modelpack.Report, error) {
	c := &checker{model: m, dir: m.pack, report: modelpack.Report{Info: m.Info()}}
	goldens, err := c.goldens("", nil)
	if err != nil {
		return modelpack.Report{}, err
	}
	for _, kind := range graphs {
		spec := kind.spec(&m.manifest)
		if spec == nil || spec.File == "" {
			continue
		}
		g := modelpack.GraphReport{Section: kind.section, Tolerance: max(spec.Tolerance, defaultTolerance)}
		info, err := os.Stat(filepath.Join(m.pack, spec.File))
		if err != nil {
			return modelpack.Report{}, err
		}
		g.Bytes = info.Size()
		if err := kind.check(c, ctx, &g, goldens); err != nil {
			return modelpack.Report{}, fmt.Errorf("model pack %s: %s: %w", m.pack, g.Section, err)
		}
		c.report.Graphs = append(c.report.Graphs, g)
	}
	for _, golden := range goldens.Tokenizer {
		if ids, _ := m.tokenizer.Encode(nil, golden.Text, 0); !slices.Equal(ids, golden.IDs) {
			c.problem("tokenizer: %.40q gives %v, its golden is %v: tokenizer.json is not the trainer's", golden.Text, ids, golden.IDs)
		}
	}
	return c.report, nil
}

type checker struct {
	model  *Model
	dir    string
	report modelpack.Report
}

func (c *checker) problem(format string, args ...any) {
	c.report.Problems = append(c.report.Problems, fmt.Sprintf(format, args...))
}

// goldens reads the goldens that a section names, or, if section is empty, the pack's, which may be
// missing.
func (c *checker) goldens(section string, file *ManifestFile) (g packGoldens, err error) {
	path := filepath.Join(c.dir, "goldens.json")
	if section != "" {
		if file == nil {
			return g, nil
		}
		if path, err = file.locate(c.dir, section+".goldens"); err != nil {
			return g, err
		}
	}
	data, err := os.ReadFile(path)
	if section == "" && errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err != nil {
		return g, fmt.Errorf("read goldens %s: %w", path, err)
	}
	return g, nil
}

// probeTexts are texts for graphs without goldens. The first is much shorter than the second.
var probeTexts = []string{"What is the capital of France?", strings.Repeat("The quick brown fox jumps over the lazy dog, and the river flows on. ", 6)}

func (c *checker) encoder(ctx context.Context, g *modelpack.GraphReport, e *embedder, section *ManifestEncoder, all packGoldens) error {
	if section.Goldens != nil || section.Format != "" {
		var err error
		if all, err = c.goldens(g.Section, section.Goldens); err != nil {
			return err
		}
	}
	vector := func(ids []int32, others ...sequence) ([]float32, error) {
		v := make([]float32, e.dimension)
		return v, e.encode(ctx, append([]sequence{{ids: ids, vector: v}}, others...))
	}
	for _, golden := range all.Encoder {
		read := e.tokens
		if golden.Kind == "query" {
			read = e.queryTokens
		}
		ids, _, _ := read(golden.Text)
		if len(golden.IDs) == 0 || ids == nil {
			continue
		}
		if !slices.Equal(ids, golden.IDs) {
			c.problem("%s: %.40q gives the ids %v, its golden is %v: the tokenizer is not the trainer's", g.Section, golden.Text, ids, golden.IDs)
			return nil
		}
		got, err := vector(ids)
		if err != nil {
			return err
		}
		c.compare(g, 1, fmt.Sprintf("the vector of %.40q", golden.Text), got, golden.Embedding)
	}
	short, _, _ := e.tokens(probeTexts[0])
	long, _, _ := e.tokens(probeTexts[1])
	if short == nil || long == nil {
		return nil // the vocabulary is of another script
	}
	alone, err := vector(short)
	if err != nil {
		return err
	}
	longer := sequence{ids: long, vector: make([]float32, e.dimension)}
	padded, err := vector(short, longer)
	if err != nil {
		return err
	}
	c.padding(g, alone, padded)
	if !e.counts {
		return nil
	}
	counted := e.sequence(long, make([]float32, e.dimension))
	if err := e.encode(ctx, []sequence{counted}); err != nil {
		return err
	}
	if maxDiff, ok := difference(counted.vector, longer.vector); !ok || maxDiff > g.Tolerance {
		c.problem("%s: a text's result changes by %.2g when its repeated tokens are counted, more than %.2g: leave counts out of the manifest",
			g.Section, maxDiff, g.Tolerance)
	}
	return nil
}

func (c *checker) segmenter(ctx context.Context, g *modelpack.GraphReport, all packGoldens) error {
	scores := make([]float32, len(all.Segmenter))
	var batch []neighbours
	var want []float32
	for i, golden := range all.Segmenter {
		batch, want = append(batch, neighbours{golden.Left, golden.Right, &scores[i]}), append(want, golden.Score)
	}
	if len(batch) == 0 { // score two equal sentences
		v := make([]float32, c.model.sentences.dimension)
		v[0] = 1
		return c.model.segmenter.score(ctx, []neighbours{{v, v, new(float32)}})
	}
	if err := c.model.segmenter.score(ctx, batch); err != nil {
		return err
	}
	c.compare(g, len(want), "the scores of sentences", scores, want)
	return nil
}

// compare compares outputs with n goldens and reports a difference above the graph's tolerance.
func (c *checker) compare(g *modelpack.GraphReport, n int, name string, got, want []float32) {
	g.Goldens += n
	maxDiff, ok := difference(got, want)
	g.Worst = max(g.Worst, maxDiff)
	if !ok || maxDiff > g.Tolerance {
		c.problem("%s: %s differs from its golden by %.2g, more than %.2g: the graph is not the trainer's, or its manifest states too small a tolerance",
			g.Section, name, maxDiff, g.Tolerance)
	}
}

// padding compares an output with a longer text in the batch with the output without one.
func (c *checker) padding(g *modelpack.GraphReport, alone, padded []float32) {
	maxDiff, ok := difference(padded, alone)
	g.Padding = maxDiff
	if !ok || maxDiff > g.Tolerance {
		c.problem("%s: a text's result changes by %.2g when a longer text is in its batch, more than %.2g: the graph does not keep to attention_mask, export it again",
			g.Section, maxDiff, g.Tolerance)
	}
}

// difference returns the largest absolute difference. ok is false if the lengths differ.
func difference(a, b []float32) (maxDiff float64, ok bool) {
	if len(a) != len(b) {
		return 0, false
	}
	for i := range a {
		maxDiff = max(maxDiff, math.Abs(float64(a[i])-float64(b[i])))
	}
	return maxDiff, true
}
