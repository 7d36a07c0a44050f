package stage

// This file defines candidates as stages see them: where they are and how they scored, without
// text. Texts are loaded for what is returned, or if a stage needs them.

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema"
)

// key names a candidate: a cluster, or a place of text.
type key struct {
	ref     lexical.Ref
	cluster uuid.UUID
	with    lexical.Ref // the passage that relate joined to it; its version is nil without one
}

// sizes orders the units.
var sizes = map[schema.Unit]int{schema.UnitPassage: 1, schema.UnitSection: 2, schema.UnitDocument: 3, schema.UnitCluster: 3}

// larger reports whether a unit of a may hold units of b. Documents and
// clusters do not hold each other.
func larger(a, b schema.Unit) bool { return sizes[a] > sizes[b] }

// enclosingRef returns the section or the document that a smaller unit lies in.
func enclosingRef(r lexical.Ref, unit schema.Unit) lexical.Ref {
	switch unit {
	case schema.UnitSection:
		return lexical.Ref{Version: r.Version, Section: r.Section, Passage: -1}
	case schema.UnitDocument:
		return lexical.Ref{Version: r.Version, Section: -1, Passage: -1}
	}
	return r
}

func compareKeys(a, b key) int {
	return cmp.Or(bytes.Compare(a.ref.Version[:], b.ref.Version[:]), cmp.Compare(a.ref.Section, b.ref.Section),
		cmp.Compare(a.ref.Passage, b.ref.Passage), bytes.Compare(a.cluster[:], b.cluster[:]),
		cmp.Compare(a.with.Section, b.with.Section), cmp.Compare(a.with.Passage, b.with.Passage))
}

// hit is a unit that a source found or scored.
type hit struct {
	key   key
	score float64
	best  *lexical.Ref // the passage that a larger unit has its score from
}

// item is a candidate between stages.
type item struct {
	key
	from   uuid.UUID // the cluster that it was found in
	best   *lexical.Ref
	shows  []extent // nil: the unit itself, or its best passage
	score  float64
	scores scores
	origin string
	// near are the same passage in other versions of the text, if the stage newest looked for them.
	near []near
}

// scores are a candidate's scores with the names of their scorers. Candidates share them, so they
// are never changed.
type scores []namedScore

type namedScore struct {
	name  string
	value float64
}

func (s scores) of(name string) (value float64, ok bool) {
	for _, x := range s {
		if x.name == name {
			return x.value, true
		}
	}
	return 0, false
}

// with returns s with one score added or replaced.
func (s scores) with(name string, value float64) scores {
	out := make(scores, 0, len(s)+1)
	for _, x := range s {
		if x.name != name {
			out = append(out, x)
		}
	}
	return append(out, namedScore{name, value})
}

// byName returns the scores by name, as results have them.
func (s scores) byName() map[string]float64 {
	if len(s) == 0 {
		return nil
	}
	out := make(map[string]float64, len(s))
	for _, x := range s {
		out[x.name] = x.value
	}
	return out
}

func scoresByName(of map[string]float64) scores {
	var out scores
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, namedScore{name, of[name]})
	}
	return out
}

// scored returns the item with one more score, which becomes its current score.
func (i item) scored(name string, score float64) item {
	i.scores, i.score = i.scores.with(name, score), score
	return i
}

// withParentScores adds the scores of the larger unit that the item came from.
func (i item) withParentScores(parent item) item {
	all := parent.scores
	for _, s := range i.scores {
		all = all.with(s.name, s.value)
	}
	i.scores = all
	i.from = cmp.Or(i.from, parent.from, parent.cluster)
	return i
}

// rank sorts by descending score, ties by key, so that the order is deterministic.
func rank(items []item) {
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Or(cmp.Compare(b.score, a.score), compareKeys(a.key, b.key)) })
}

func keys(items []item) []key {
	out := make([]key, len(items))
	for i, c := range items {
		out[i] = c.key
	}
	return out
}

// cut splits a ranking at k.
func cut(items []item, k int) (kept, rest []item) {
	if k <= 0 || len(items) <= k {
		return items, nil
	}
	return items[:k:k], items[k:]
}

// judged is a candidate that a stage dropped, with the reason.
type judged struct {
	item
	why string
}

// drop returns dropped items with a reason; only as many as a report shows.
func drop(items []item, why string) []judged {
	out := make([]judged, min(len(items), maxReported))
	for i := range out {
		out[i] = judged{items[i], why}
	}
	return out
}

func sortHits(hits []hit) {
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Or(cmp.Compare(b.score, a.score), compareKeys(a.key, b.key)) })
}
