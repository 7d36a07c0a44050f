package main

// This file measures how well methods of segmentation find where texts change their subject, on
// texts that were concatenated from pieces: Pk and WindowDiff, as in the literature. It measures
// quality; `models` measures speed.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

type segmentationCommand struct {
	Folder  string        `arg:"" help:"Texts in the form of Choi's: .ref files with a sentence on each line and a line of ten = between segments. Files of one folder are one set."`
	By      []string      `sep:";" placeholder:"BY[,SETTING=N];..." help:"More ways to measure beside those always measured, as collections take them; separated by semicolons."`
	Pack    string        `placeholder:"FOLDER" help:"The model pack to measure with; the one that comes with Sluice when empty."`
	Program string        `placeholder:"FILE" help:"The gpu-segmenter to ask; the one beside this program when empty."`
	JSON    string        `placeholder:"FILE" help:"Write the figures there too, as JSON."`
	Timeout time.Duration `default:"20m" help:"Longest time of the whole measurement."`
}

// reference is a text whose segments are known.
type reference struct {
	name, set string
	sentences []string
	bounds    []bool // after each sentence but the last
}

// segmentMethod is a method of segmentation. cut returns the boundaries of the i-th text.
type segmentMethod struct {
	name string
	cut  func(i int) ([]bool, error)
}

// boundaryDistance is the distance of a method's boundaries from the reference's, as the mean over
// a set's texts; 0 is best.
type boundaryDistance struct {
	Set        string  `json:"set"`
	Texts      int     `json:"texts"`
	Pk         float64 `json:"pk"`
	WindowDiff float64 `json:"window_diff"`
	Segments   float64 `json:"segments"` // ratio to the number of segments of the reference
}

// segmentationResult has the figures of every method.
type segmentationResult struct {
	Pack string                        `json:"pack"`
	Sets []string                      `json:"sets"`
	Ways []string                      `json:"ways"`
	Is   map[string][]boundaryDistance `json:"figures"` // by method, in the order of Sets
}

// allTexts is the name of the union of all sets.
const allTexts = "all"

func (c *segmentationCommand) Run(ctx context.Context) (err error) {
	texts, err := readReferences(c.Folder)
	if err != nil {
		return err
	}
	more := make([]schema.Segmentation, len(c.By))
	for i, by := range c.By {
		given, err := schema.ParseSegmentation(by)
		if err == nil {
			more[i], err = given.Complete()
		}
		if err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("not done after %s: raise --timeout", c.Timeout))
	defer cancel()
	progressf("segmentation: starting")
	b, err := newModelInstallation(ctx, c.Program, c.Pack)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	progressf("segmentation: cutting %d texts", len(texts))
	methods, err := c.methods(ctx, b.client, texts, more)
	if err != nil {
		return fmt.Errorf("segmentation: %w", err)
	}
	r := segmentationResult{Pack: b.info.Pack + " " + b.info.Version}
	if err := r.measure(texts, methods); err != nil {
		return fmt.Errorf("segmentation: %w", err)
	}
	if err := r.print(os.Stdout); err != nil || c.JSON == "" {
		return err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(c.JSON, append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the figures: %w", err)
	}
	return nil
}

// methods returns the methods that are always measured, and more. Models get all texts at once.
func (c *segmentationCommand) methods(ctx context.Context, models *modelclient.Client, texts []reference, more []schema.Segmentation) ([]segmentMethod, error) {
	runs := make([][]string, len(texts))
	var sentences []string
	for i, t := range texts {
		runs[i] = t.sentences
		sentences = append(sentences, t.sentences...)
	}
	scored, threshold, err := models.Segment(ctx, wire.LaneBulk, runs)
	if err != nil {
		return nil, err
	}
	vectors, _, err := models.Encode(ctx, wire.LaneBulk, sentences)
	if err != nil {
		return nil, err
	}
	scores, cosines := make([][]float64, len(texts)), make([][]float64, len(texts))
	row := 0
	for i, t := range texts {
		for j := range len(t.sentences) - 1 {
			scores[i] = append(scores[i], float64(scored[i][j]))
			cosines[i] = append(cosines[i], cosine(vectors.Row(row+j), vectors.Row(row+j+1)))
		}
		row += len(t.sentences)
	}
	ingested := func(g schema.Segmentation) func(int) ([]bool, error) {
		return func(i int) ([]bool, error) {
			if g.By == schema.BySimilarity {
				return texts[i].cut(cosines[i], g)
			}
			if g.By == schema.BySegmenter && g.Threshold == 0 {
				g.Threshold = threshold
			}
			return texts[i].cut(scores[i], g)
		}
	}
	below := func(values [][]float64, threshold float64) func(int) ([]bool, error) {
		return func(i int) ([]bool, error) {
			out := make([]bool, len(values[i]))
			for j, v := range values[i] {
				out[j] = v < threshold
			}
			return out, nil
		}
	}
	out := []segmentMethod{{fmt.Sprintf("segmenter's scores below %.4f", threshold), below(scores, threshold)}}
	for _, g := range append(slices.Clone(defaultMethods), more...) {
		g, err := g.Complete()
		if err != nil {
			return nil, err
		}
		out = append(out, segmentMethod{g.String(), ingested(g)})
	}
	return append(out, fixedMethods(texts)...), nil
}

var defaultMethods = []schema.Segmentation{{By: schema.BySegmenter}, {By: schema.BySimilarity}, {By: schema.BySentences}, {By: schema.ByRecursion}}

// fixedMethods returns methods that ignore the text. The first one uses the mean length of its
// set's segments.
func fixedMethods(texts []reference) []segmentMethod {
	lengths := map[string]int{}
	for set, members := range bySet(texts) {
		sentences, segments := 0, 0
		for _, i := range members {
			sentences += len(texts[i].sentences)
			segments += 1 + cuts(texts[i].bounds)
		}
		lengths[set] = max((sentences+segments/2)/segments, 1)
	}
	every := func(length func(i int) int) func(int) ([]bool, error) {
		return func(i int) ([]bool, error) {
			out := make([]bool, len(texts[i].bounds))
			for j := range out {
				out[j] = (j+1)%length(i) == 0
			}
			return out, nil
		}
	}
	return []segmentMethod{
		{"fixed length, the set's mean", every(func(i int) int { return lengths[texts[i].set] })},
		{"behind every sentence", every(func(int) int { return 1 })},
		{"nowhere", every(func(i int) int { return len(texts[i].sentences) })},
	}
}

// cut returns the boundaries of the passages that ingestion would make.
func (t *reference) cut(scores []float64, g schema.Segmentation) ([]bool, error) {
	var b strings.Builder
	ranges := make([]text.Range, len(t.sentences))
	last := map[int]int{} // sentence by its end offset
	for i, s := range t.sentences {
		start := b.Len()
		b.WriteString(s + " ")
		ranges[i] = text.Range{Start: start, End: b.Len()}
		last[b.Len()] = i
	}
	passages, err := text.Passages(b.String(), ranges, scores, g)
	if err != nil {
		return nil, fmt.Errorf("cut %s: %w", t.name, err)
	}
	out := make([]bool, len(t.bounds))
	for _, p := range passages[:len(passages)-1] {
		out[last[p.End]] = true
	}
	return out, nil
}

// measure compares every way with the references.
func (r *segmentationResult) measure(texts []reference, methods []segmentMethod) error {
	sets := bySet(texts)
	for set := range sets {
		r.Sets = append(r.Sets, set)
	}
	slices.Sort(r.Sets)
	if len(r.Sets) > 1 {
		r.Sets = append(r.Sets, allTexts)
		for i := range texts {
			sets[allTexts] = append(sets[allTexts], i)
		}
	}
	r.Is = map[string][]boundaryDistance{}
	for _, w := range methods {
		if r.Is[w.name] != nil {
			continue // the method was named twice
		}
		cut := make([][]bool, len(texts))
		for i := range texts {
			var err error
			if cut[i], err = w.cut(i); err != nil {
				return err
			}
		}
		r.Ways = append(r.Ways, w.name)
		for _, set := range r.Sets {
			figures := boundaryDistance{Set: set, Texts: len(sets[set])}
			found, total := 0, 0
			for _, i := range sets[set] {
				k := evaluate.WindowLength(texts[i].bounds)
				figures.Pk += evaluate.Pk(texts[i].bounds, cut[i], k) / float64(figures.Texts)
				figures.WindowDiff += evaluate.WindowDiff(texts[i].bounds, cut[i], k) / float64(figures.Texts)
				found, total = found+1+cuts(cut[i]), total+1+cuts(texts[i].bounds)
			}
			figures.Segments = float64(found) / float64(total)
			r.Is[w.name] = append(r.Is[w.name], figures)
		}
	}
	return nil
}

func (r *segmentationResult) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(out, "Pk / WindowDiff, lower is better (segments found per segment there is); %s\n\n", r.Pack)
	_, _ = fmt.Fprint(w, "cut by\t")
	for i, set := range r.Sets {
		_, _ = fmt.Fprintf(w, "%s (%d)\t", set, r.Is[r.Ways[0]][i].Texts)
	}
	_, _ = fmt.Fprintln(w)
	for _, name := range r.Ways {
		_, _ = fmt.Fprintf(w, "%s\t", name)
		for _, f := range r.Is[name] {
			_, _ = fmt.Fprintf(w, "%.3f / %.3f (%.2f)\t", f.Pk, f.WindowDiff, f.Segments)
		}
		_, _ = fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// readReferences reads all .ref files below a folder.
func readReferences(dir string) ([]reference, error) {
	var out []reference
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".ref" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		t, err := readReference(data)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		t.name, t.set = path, filepath.Base(filepath.Dir(path))
		out = append(out, t)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read texts: %w", err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read texts: there is no .ref file below %s", dir)
	}
	return out, nil
}

func readReference(data []byte) (reference, error) {
	var t reference
	boundary := false
	for line := range bytes.Lines(data) {
		line := strings.TrimSpace(text.Clean(string(line)))
		switch {
		case line == "":
		case len(line) >= 10 && strings.Trim(line, "=") == "":
			boundary = len(t.sentences) > 0
		default:
			if len(t.sentences) > 0 {
				t.bounds = append(t.bounds, boundary)
			}
			t.sentences, boundary = append(t.sentences, line), false
		}
	}
	if cuts(t.bounds) == 0 {
		return t, errors.New("it has no two segments with a line of ten = between them")
	}
	return t, nil
}

// bySet returns the indexes of each set's texts.
func bySet(texts []reference) map[string][]int {
	out := map[string][]int{}
	for i, t := range texts {
		out[t.set] = append(out[t.set], i)
	}
	return out
}

func cuts(bounds []bool) int {
	n := 0
	for _, b := range bounds {
		if b {
			n++
		}
	}
	return n
}

// cosine returns the cosine of two unit vectors.
func cosine(a, b []float32) float64 {
	sum := float32(0)
	for i, x := range a {
		sum += x * b[i]
	}
	return float64(sum)
}
