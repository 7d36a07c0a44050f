package stage

// The inputs of models: texts of candidates with their context, cut to fit a model. A candidate's
// score is that of its best input (MaxP).

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

// Limits of the inputs of one candidate.
const (
	// maxInputTokens is the most tokens of an input, as internal/text counts them: with title and
	// heading it stays under the modelTokens of the shipped models. A model that reads fewer gets
	// fewer, in proportion.
	maxInputTokens = 280
	modelTokens    = 384
	maxInputs      = 64
)

// inputOptions says how candidates are cut into inputs.
type inputOptions struct {
	limit int // most inputs of a candidate
	cut   func(string) []text.Range
	// reduce returns the part of an input that the model reads; nil: all of it.
	reduce func(string) string
	// joined makes one input of passages that the stage relate joined.
	joined bool
	// prefers uses the llm_prefer that was trained for the language model, if there is one.
	prefers bool
}

// input is the text of a part of a candidate, as a model reads it.
type input struct {
	of   int    // index of the candidate
	at   extent // where the text is; for joined passages, the first one
	text string
}

func inputTexts(inputs []input) []string {
	out := make([]string, len(inputs))
	for i, in := range inputs {
		out[i] = in.text
	}
	return out
}

// inputs cuts the texts of candidates into inputs, in the order of the candidates. It takes the
// sections of a document or a cluster that are best by BM25.
func (t *Task) inputs(ctx context.Context, items []item, unit schema.Unit, how inputOptions) ([]input, error) {
	views, err := t.readable(ctx, items, unit, how.limit)
	if err != nil {
		return nil, err
	}
	var out []input
	for i, v := range views {
		if v.empty() {
			continue
		}
		first := len(out)
		if how.joined && items[i].with != (lexical.Ref{}) {
			for _, r := range how.cut(v.text()) {
				out = append(out, inContext(i, v[0], v[0].extent, how.read(r.Of(v.text()))))
			}
		} else {
			for _, p := range v {
				for _, r := range how.cut(p.text()) {
					at := extent{ref: p.ref, start: p.start + r.Start, end: p.start + r.End}
					out = append(out, inContext(i, p, at, how.read(r.Of(p.text()))))
				}
			}
		}
		out = out[:min(len(out), first+how.limit)]
	}
	return out, nil
}

// read returns the part of a piece that a model reads.
func (p inputOptions) read(piece string) string {
	if p.reduce == nil {
		return piece
	}
	return p.reduce(piece)
}

func inContext(of int, p snippet, at extent, body string) input {
	in, _ := text.InContext(p.found.Title, p.found.Section.HeadingPath, body)
	return input{of: of, at: at, text: in}
}

// readable returns the texts that models read of candidates: what they show, or whole sections of a
// document or a cluster.
func (t *Task) readable(ctx context.Context, items []item, unit schema.Unit, sections int) ([]view, error) {
	if unit == schema.UnitPassage || unit == schema.UnitSection {
		return t.views(ctx, items, unit)
	}
	inside, err := t.bestSections(ctx, items, unit)
	if err != nil {
		return nil, err
	}
	places := make([][]extent, len(items))
	for i, c := range items {
		if c.shows != nil {
			places[i] = c.shows
			continue
		}
		refs := inside[c.key]
		for _, r := range refs[:min(sections, len(refs))] {
			places[i] = append(places[i], extent{ref: r})
		}
	}
	return t.loadViews(ctx, places, schema.UnitSection)
}

// bestSections returns sections of documents or clusters: the best by BM25 first, then the others
// in reading order.
func (t *Task) bestSections(ctx context.Context, items []item, unit schema.Unit) (map[key][]lexical.Ref, error) {
	all, err := t.children(ctx, items, schema.UnitSection)
	if err != nil {
		return nil, err
	}
	of := bm25{unit: schema.UnitSection, settings: lexical.Defaults}
	if err := t.prepare(ctx, of); err != nil {
		return nil, err
	}
	f, err := of.score(ctx, t, keys(items))
	if err != nil {
		return nil, err
	}
	scores := byKey(f.hits)
	out := map[key][]lexical.Ref{}
	for _, r := range all {
		parent := t.enclosing(r, unit)
		out[parent] = append(out[parent], r)
	}
	for _, refs := range out {
		slices.SortStableFunc(refs, func(a, b lexical.Ref) int {
			return cmp.Compare(scores[key{ref: b}].score, scores[key{ref: a}].score)
		})
	}
	return out, nil
}

// packed cuts a text at the ends of sentences into pieces that a model reads whole; a longer
// sentence is a piece by itself. modelLimit is the most tokens that the model reads; 0: unknown.
func packed(modelLimit int) func(s string) []text.Range {
	maxTokens := maxInputTokens
	if modelLimit > 0 {
		maxTokens = min(maxTokens, max(1, modelLimit*maxInputTokens/modelTokens))
	}
	return func(s string) []text.Range {
		if text.CountTokens(s) <= maxTokens {
			return []text.Range{{End: len(s)}}
		}
		var out []text.Range
		tokens := 0
		for _, r := range text.Sentences(s) {
			n := text.CountTokens(r.Of(s))
			if len(out) == 0 || tokens+n > maxTokens {
				out, tokens = append(out, text.Range{Start: r.Start}), 0
			}
			out[len(out)-1].End = r.End
			tokens += n
		}
		return out
	}
}

// windows cuts a text into overlapping runs of sentences. Each begins stride sentences after the
// one before; the last one ends with the text.
func windows(sentences, stride int) func(string) []text.Range {
	return func(s string) []text.Range {
		all := text.Sentences(s)
		if len(all) <= sentences {
			return []text.Range{{End: len(s)}}
		}
		var out []text.Range
		for i := 0; ; i += stride {
			last := min(i+sentences, len(all))
			out = append(out, text.Range{Start: all[i].Start, End: all[last-1].End})
			if last == len(all) {
				return out
			}
		}
	}
}

// finite returns an error if a model's scores of texts are incomplete or not finite.
func finite(model string, texts int, scores [][]float32) error {
	if len(scores) != texts {
		return fmt.Errorf("%s: the model server gave %d scores for %d texts", model, len(scores), texts)
	}
	for i, of := range scores {
		for _, x := range of {
			if y := float64(x); math.IsNaN(y) || math.IsInf(y, 0) {
				return fmt.Errorf("%s: the model server scored text %d of %d as %g, which is not a number", model, i+1, texts, x)
			}
		}
	}
	return nil
}
