package stage

// This file makes of candidates the texts that models read: in context, and in
// pieces that fit a model. A candidate then counts as its best piece (MaxP).

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

// Bounds of what one candidate gives a model to read.
const (
	// pieceTokens are what a piece has at most, in tokens of internal/text:
	// with its title and heading it stays under the modelTokens of the shipped
	// models. One that reads less gets less, in proportion.
	pieceTokens = 280
	modelTokens = 384
	maxPieces   = 64
)

// pieces says how candidates are cut for a model.
type pieces struct {
	most int // of a candidate
	cut  func(string) []text.Range
	// narrow is what is read of a piece; nil: all of it.
	narrow func(string) string
	// joined has passages that relate joined read as one text.
	joined bool
	// prefers has llm_prefer be the language model's, where one was learnt.
	prefers bool
}

// input is a piece of a candidate as a model reads it.
type input struct {
	of   int    // which candidate
	at   extent // where the piece is; of joined passages, the first one
	text string
}

func inputTexts(inputs []input) []string {
	out := make([]string, len(inputs))
	for i, in := range inputs {
		out[i] = in.text
	}
	return out
}

// inputs cuts what candidates show into pieces, in order of the candidates. A document or a cluster is read by its best sections,
// by BM25, from the start.
func (t *Task) inputs(ctx context.Context, items []item, unit schema.Unit, how pieces) ([]input, error) {
	views, err := t.readable(ctx, items, unit, how.most)
	if err != nil {
		return nil, err
	}
	var out []input
	for i, v := range views {
		if v.gone() {
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
		out = out[:min(len(out), first+how.most)]
	}
	return out, nil
}

// read is what a model reads of a piece.
func (p pieces) read(piece string) string {
	if p.narrow == nil {
		return piece
	}
	return p.narrow(piece)
}

func inContext(of int, p piece, at extent, body string) input {
	in, _ := text.InContext(p.found.Title, p.found.Section.HeadingPath, body)
	return input{of: of, at: at, text: in}
}

// readable is what models read of candidates: what they show, and of a document
// or a cluster whole sections.
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
	return t.look(ctx, places, schema.UnitSection)
}

// bestSections are the sections of documents or clusters, the best by BM25
// first and then in reading order.
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
		parent := t.up(r, unit)
		out[parent] = append(out[parent], r)
	}
	for _, refs := range out {
		slices.SortStableFunc(refs, func(a, b lexical.Ref) int {
			return cmp.Compare(scores[key{ref: b}].score, scores[key{ref: a}].score)
		})
	}
	return out, nil
}

// packed cuts a text at the ends of sentences into pieces that a model reads
// whole; a longer sentence is a piece of its own. room is how many of its tokens
// the model reads; 0: it does not say.
func packed(room int) func(s string) []text.Range {
	most := pieceTokens
	if room > 0 {
		most = min(most, max(1, room*pieceTokens/modelTokens))
	}
	return func(s string) []text.Range {
		if text.CountTokens(s) <= most {
			return []text.Range{{End: len(s)}}
		}
		var out []text.Range
		tokens := 0
		for _, r := range text.Sentences(s) {
			n := text.CountTokens(r.Of(s))
			if len(out) == 0 || tokens+n > most {
				out, tokens = append(out, text.Range{Start: r.Start}), 0
			}
			out[len(out)-1].End = r.End
			tokens += n
		}
		return out
	}
}

// windows cuts a text into runs of so many sentences, each beginning stride
// sentences after the one before; the last one ends the text.
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

// finite refuses a model's scores of texts when one is missing or no number.
func finite(model string, texts int, scores [][]float32) error {
	if len(scores) != texts {
		return fmt.Errorf("%s: the model server gave %d scores for %d texts", model, len(scores), texts)
	}
	for i, of := range scores {
		for _, x := range of {
			if y := float64(x); math.IsNaN(y) || math.IsInf(y, 0) {
				return fmt.Errorf("%s: the model server scored text %d of %d as %g, which is no number", model, i+1, texts, x)
			}
		}
	}
	return nil
}
