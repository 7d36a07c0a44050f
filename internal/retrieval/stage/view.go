package stage

// The text of a candidate: one or several snippets. A document's is its best passage, a reduced
// candidate's is a window, and two joined passages have several.

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
)

// extent is bytes [start, end) of the section that a ref lies in. With end 0 it is all of the ref,
// a passage or a section.
type extent struct {
	ref        lexical.Ref
	start, end int
}

// snippet is an extent with its section.
type snippet struct {
	extent
	found retrieval.Text
}

func (p snippet) text() string { return p.found.Section.Text[p.start:p.end] }

// tokens counts the snippet's tokens; those of passages and sections are stored.
func (p snippet) tokens() int {
	switch f := p.found; {
	case p.start == f.Passage.Start && p.end == f.Passage.End:
		return f.Passage.Tokens
	case p.start == 0 && p.end == len(f.Section.Text):
		return f.Section.Tokens
	}
	return text.CountTokens(p.text())
}

// view is the text of a candidate; it is empty if the text was deleted.
type view []snippet

func (v view) empty() bool { return len(v) == 0 }

// text joins the snippets, with a line break between two that have no space between them.
func (v view) text() string {
	var b strings.Builder
	for i, p := range v {
		part := p.text()
		if i > 0 {
			last, _ := utf8.DecodeLastRuneInString(v[i-1].text())
			first, _ := utf8.DecodeRuneInString(part)
			if !unicode.IsSpace(last) && !unicode.IsSpace(first) {
				b.WriteByte('\n')
			}
		}
		b.WriteString(part)
	}
	return b.String()
}

func (v view) tokens() int {
	n := 0
	for _, p := range v {
		n += p.tokens()
	}
	return n
}

// same reports whether two views show the same text.
func (v view) same(w view) bool {
	if len(v) != len(w) || v.empty() {
		return false
	}
	for i, p := range v {
		if p.found.Section.ID != w[i].found.Section.ID || p.start != w[i].start || p.end != w[i].end {
			return false
		}
	}
	return true
}

// passageRef returns the passage whose text the view is, if it is that of one passage.
func (v view) passageRef() (lexical.Ref, bool) {
	if len(v) != 1 || v[0].ref.Passage < 0 || v[0].start != v[0].found.Passage.Start || v[0].end != v[0].found.Passage.End {
		return lexical.Ref{}, false
	}
	return v[0].ref, true
}

// views loads the texts of candidates.
func (t *Task) views(ctx context.Context, items []item, unit schema.Unit) ([]view, error) {
	places, err := t.extents(ctx, items, unit)
	if err != nil {
		return nil, err
	}
	return t.loadViews(ctx, places, unit)
}

// loadViews loads the extents of each candidate of a unit.
func (t *Task) loadViews(ctx context.Context, places [][]extent, unit schema.Unit) ([]view, error) {
	var refs []lexical.Ref
	for _, some := range places {
		for _, p := range some {
			refs = append(refs, p.ref)
		}
	}
	if err := t.load(ctx, refs); err != nil {
		return nil, err
	}
	out := make([]view, len(places))
	for i, some := range places {
		for j, p := range some {
			found, ok := t.texts[p.ref]
			if !ok {
				if j == 0 {
					break // the text that it begins with was deleted
				}
				continue
			}
			switch {
			case p.end > 0:
			case p.ref.Passage < 0 && unit != schema.UnitDocument && unit != schema.UnitCluster:
				p.end = len(found.Section.Text)
			default: // for documents too: the ref of a section means its first passage
				p.start, p.end = found.Passage.Start, found.Passage.End
			}
			if p.start < 0 || p.start > p.end || p.end > len(found.Section.Text) {
				return nil, errBounds
			}
			out[i] = append(out[i], snippet{p, found})
		}
	}
	return out, nil
}

// extents returns what candidates show: what a stage set, or else the candidate itself, or the best
// passage of a document or a cluster.
func (t *Task) extents(ctx context.Context, items []item, unit schema.Unit) ([][]extent, error) {
	out := make([][]extent, len(items))
	var open []item
	var at []int
	for i, c := range items {
		if c.shows != nil {
			out[i] = c.shows
			continue
		}
		open, at = append(open, c), append(at, i)
	}
	shown, err := t.shown(ctx, open, unit)
	if err != nil {
		return nil, err
	}
	for j, i := range at {
		items[i].best = open[j].best
		out[i] = []extent{{ref: shown[j]}}
	}
	return out, nil
}
