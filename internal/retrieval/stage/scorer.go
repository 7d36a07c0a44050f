package stage

// The stages "lexical" and "dense": one component finds units, in the collection or inside the
// candidates, or scores the candidates.

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema"
)

// MaxDepth is the most candidates that a stage takes or returns.
const MaxDepth = 5000

type scorer struct {
	kind string
	of   component
	k    int
}

var lexicalKind = Kind{
	Name:       "lexical",
	Parameters: "`unit` (passage), `k` (100), `k1` (1.2), `b` (0.75), `field` (text, or identity)",
	Does:       "BM25. First: searches the collection. After larger units: searches inside them. After the same: scores them and keeps `k`",
	Finds:      true,
	read:       readLexical,
}

// readLexical reads the stage "lexical":
//
//	lexical: {unit: passage, k: 100, k1: 1.2, b: 0.75, field: text}
//
// BM25 over units of that size. At the beginning of a plan it searches the collection. After a
// stage that returns larger units it searches inside them; after one that returns the same unit it
// scores the candidates and keeps the best k. The field identity has the names of documents, and
// its unit is the document: the score is the sum of the idf of the terms that the question and the
// document share.
func readLexical(p *Parameters) Stage {
	return scorer{kind: "lexical", of: readBM25(p), k: p.Int("k", 100, 1, MaxDepth)}.stage()
}

func readBM25(p *Parameters) bm25 {
	if p.Choice("field", "text", "identity") == "identity" {
		if p.unit("unit") != schema.UnitDocument {
			p.Fail("unit", "must be document when the field is identity, which holds the names of documents")
		}
		return bm25{unit: schema.UnitDocument, weight: 1, settings: lexical.Settings{K1: lexical.Defaults.K1}, identity: true}
	}
	s := lexical.Settings{K1: p.number("k1", lexical.Defaults.K1, 0, 10), B: p.number("b", lexical.Defaults.B, 0, 1)}
	if s == (lexical.Settings{}) { // which the index would replace by its defaults
		p.Fail("k1", "is 0, and so is b: without saturation b does nothing, so leave b out")
	}
	return bm25{unit: p.unit("unit"), weight: 1, settings: s}
}

var denseKind = Kind{
	Name:       "dense",
	Parameters: "`unit` (passage), `k` (100)",
	Does:       "the same by inner product of vectors",
	Finds:      true,
	read:       readDense,
}

// readDense reads the stage "dense":
//
//	dense: {unit: passage, k: 10}
//
// Finds the units nearest to the question by inner product of unit vectors; a unit larger than a
// passage has the score of its best passage (MaxP). If the collection's vectors are of another
// space than the question's, units are found by BM25 instead.
func readDense(p *Parameters) Stage {
	return scorer{kind: "dense", of: inner{unit: p.unit("unit"), weight: 1, alone: true}, k: p.Int("k", 100, 1, MaxDepth)}.stage()
}

func (s scorer) stage() Stage {
	return Stage{Fit: s.fit, Scores: []string{s.of.scorer()}, Cost: Cost{Searches: 1}, run: s.run}
}

func (s scorer) fit(in schema.Unit) (schema.Unit, error) { return fitUnit(in, s.of.size()) }

// fitUnit checks that units of size can be found in, or are, the units of the previous stages.
func fitUnit(in, size schema.Unit) (schema.Unit, error) {
	if in != "" && in != size && !larger(in, size) {
		return "", schema.Invalid("unit", "is %s, but the stages before give units of %s: it needs the same or a smaller one", size, in)
	}
	return size, nil
}

func (s scorer) run(ctx context.Context, t *Task, in Candidates) (outcome, error) {
	if err := t.prepare(ctx, s.of); err != nil {
		return outcome{}, err
	}
	unit := s.of.size()
	switch {
	case in.unit == unit:
		return s.rerank(ctx, t, in.items)
	case in.unit != "" && len(in.items) == 0:
		return outcome{unit: unit, why: "nothing to search in"}, nil
	}
	var within *area
	if in.unit != "" {
		var err error
		if within, err = t.area(ctx, keys(in.items)); err != nil {
			return outcome{}, err
		}
	}
	f, err := s.of.search(ctx, t, t.limitCandidates(s.k), within)
	if err != nil {
		return outcome{}, err
	}
	parents := t.parents(in.items)
	out := outcome{unit: unit, items: make([]item, 0, len(f.hits)), statistics: f.statistics}
	for _, h := range f.hits {
		c := item{key: h.key, best: h.best, origin: s.kind}.scored(s.of.scorer(), h.score)
		if in.unit != "" {
			c = c.withParentScores(parents[t.enclosing(h.key.ref, in.unit)])
		}
		out.items = append(out.items, c)
	}
	out.why = join(spread(out.items, s.of.scorer()), f.note)
	if in.unit != "" {
		for _, parent := range in.items {
			out.dropped = append(out.dropped, judged{parent, "none of it is among the best " + fmt.Sprint(s.k)})
		}
		out.dropped = without(out.dropped, out.items, in.unit, t)
	}
	return out, nil
}

// rerank scores the candidates; those that the component does not find score 0.
func (s scorer) rerank(ctx context.Context, t *Task, in []item) (outcome, error) {
	f, err := s.of.score(ctx, t, keys(in))
	if err != nil {
		return outcome{}, err
	}
	scores := byKey(f.hits)
	items := make([]item, len(in))
	for i, c := range in {
		h := scores[c.key]
		items[i] = c.scored(s.of.scorer(), h.score)
		if h.best != nil {
			items[i].best = h.best
		}
	}
	rank(items)
	kept, rest := cut(items, s.k)
	return outcome{unit: s.of.size(), items: kept, dropped: drop(rest, fmt.Sprintf("below rank %d", s.k)),
		why: join(spread(kept, s.of.scorer()), f.note), statistics: f.statistics}, nil
}

func byKey(hits []hit) map[key]hit {
	out := make(map[key]hit, len(hits))
	for _, h := range hits {
		out[h.key] = h
	}
	return out
}

// without removes those larger units from dropped of which a part was kept.
func without(dropped []judged, kept []item, unit schema.Unit, t *Task) []judged {
	alive := map[key]bool{}
	for _, c := range kept {
		alive[t.enclosing(c.ref, unit)] = true
	}
	out := dropped[:0]
	for _, d := range dropped {
		if !alive[d.key] {
			out = append(out, d)
		}
	}
	return out
}

// spread describes the range of a ranking's scores.
func spread(items []item, name string) string {
	if len(items) == 0 {
		return "nothing found"
	}
	return fmt.Sprintf("%s %.3f to %.3f", name, items[0].score, items[len(items)-1].score)
}

func join(parts ...string) string {
	out := ""
	for _, p := range parts {
		if p == "" {
			continue
		}
		if out != "" {
			out += "; "
		}
		out += p
	}
	return out
}
