package stage

// The stage "hybrid": candidates of one unit, scored by several components, which may score larger
// units. The score of a document, section or cluster applies to all passages in it: so a title or
// the surrounding text helps a passage.

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema"
)

type hybrid struct {
	unit         schema.Unit
	k, depth     int
	method       string
	rankConstant int
	normalise    string
	of           []component
}

// maxNamedDocuments is the most documents named in the question that a search is restricted to.
const maxNamedDocuments = 3

// Ways to combine scores.
const (
	weighted   = "weighted" // sum of weight times normalised score
	reciprocal = "rrf"      // reciprocal rank fusion (Cormack et al. 2009): sum of weight / (rank_constant + rank)
)

var hybridKind = Kind{
	Name:       "hybrid",
	Parameters: "`unit` (passage), `k` (100), `depth` (100), `method` (weighted, or rrf), `normalise` (max, or minmax, none), `rank_constant` (60), `of`",
	Does:       "several components of any unit, see below",
	Finds:      true,
	read:       readHybrid,
}

// readHybrid reads the stage "hybrid":
//
//	hybrid:
//	  unit: passage
//	  k: 100                # candidates that come out
//	  depth: 100            # candidates that each component looks up
//	  method: weighted      # or rrf
//	  rank_constant: 60     # of rrf
//	  normalise: max        # of weighted: max, minmax, none
//	  of:
//	    - lexical: {unit: document, weight: 1, k1: 1.2, b: 0.75}
//	    - lexical: {unit: document, field: identity, weight: 1}
//	    - dense: {unit: passage, weight: 1, known: false}
//
// The weight of a component with known is multiplied by the share of the question's letters in
// scripts that the encoder was trained on; in any other script it is zero.
//
// Every component scores exactly what the other components found.
func readHybrid(p *Parameters) Stage {
	h := hybrid{unit: p.unit("unit"), k: p.Int("k", 100, 1, MaxDepth), depth: p.Int("depth", 100, 1, MaxDepth),
		method: p.Choice("method", weighted, reciprocal), normalise: p.Choice("normalise", "max", "minmax", "none"),
		rankConstant: p.Int("rank_constant", 60, 1, 10_000)}
	p.list("of", 1, 16, func(p *Parameters, kind string) {
		var c component
		switch kind {
		case "lexical":
			lexical := readBM25(p)
			lexical.weight = p.number("weight", 1, 0, 1e6)
			c = lexical
		case "dense":
			c = inner{unit: p.unit("unit"), weight: p.number("weight", 1, 0, 1e6), second: p.number("second", 0, 0, 1e6), known: p.bool("known")}
		default:
			p.refuse("there is no component %q; components are: dense, lexical", kind)
			return
		}
		h.of = append(h.of, c)
	})
	if !slices.ContainsFunc(h.of, func(c component) bool { return kindOf(c) == "lexical" }) {
		for i, c := range h.of {
			if dense, ok := c.(inner); ok {
				dense.alone = true
				h.of[i] = dense
			}
		}
	}
	return Stage{Fit: h.fit, Scores: h.scores(), Cost: Cost{Searches: len(h.of)}, run: h.run}
}

func (h hybrid) scores() []string {
	out := []string{"hybrid"}
	for _, c := range h.of {
		out = append(out, c.scorer())
	}
	return out
}

func (h hybrid) fit(in schema.Unit) (schema.Unit, error) {
	for i, c := range h.of {
		if c.size() != h.unit && !larger(c.size(), h.unit) && !larger(h.unit, c.size()) {
			return "", schema.Invalid(fmt.Sprintf("of[%d].%s.unit", i, kindOf(c)), "is %s, which neither contains nor is part of %s", c.size(), h.unit)
		}
		if slices.ContainsFunc(h.of[:i], func(o component) bool { return o.scorer() == c.scorer() }) {
			return "", schema.Invalid(fmt.Sprintf("of[%d].%s", i, kindOf(c)), "occurs twice for unit %s", c.size())
		}
	}
	return fitUnit(in, h.unit)
}

func kindOf(c component) string {
	kind, _, _ := strings.Cut(c.scorer(), ".")
	return kind
}

func (h hybrid) run(ctx context.Context, t *Task, in Candidates) (outcome, error) {
	if err := t.prepare(ctx, h.of...); err != nil {
		return outcome{}, err
	}
	out := outcome{unit: h.unit, statistics: map[string]float64{}}
	if in.unit != "" && len(in.items) == 0 {
		out.why = "nothing to search in"
		return out, nil
	}
	p := pool{unit: h.unit, items: map[key]item{}, scores: make([]map[key]hit, len(h.of)), whole: make([]bool, len(h.of)), full: make([]float64, len(h.of))}
	var err error
	if in.unit == h.unit {
		for _, c := range in.items {
			p.items[c.key] = c
		}
	} else {
		err = h.collect(ctx, t, in, &p, &out)
	}
	if err == nil {
		err = h.complete(ctx, t, &p, &out)
	}
	if err != nil {
		return outcome{}, err
	}
	items := h.combine(t, &p)
	rank(items)
	var rest []item
	out.items, rest = cut(items, h.k)
	out.dropped = drop(rest, fmt.Sprintf("below rank %d", h.k))
	out.why = join(fmt.Sprintf("%s of %d components over %d candidates", h.method, len(h.of), len(items)), spread(out.items, "hybrid"), out.why)
	return out, nil
}

// pool is the candidates of a hybrid, and each component's scores of its own units.
type pool struct {
	unit   schema.Unit
	items  map[key]item
	scores []map[key]hit // by component and its unit
	// whole says for each component whether these are all scores above zero, because it found fewer
	// units than it looked for.
	whole []bool
	// full has each component's score that earns its full weight.
	full []float64
}

// collect finds the candidates: what components of the same or a smaller unit find anywhere, and
// what they find inside the larger units that the other components find. Every such larger unit has
// at least one candidate.
func (h hybrid) collect(ctx context.Context, t *Task, in Candidates, p *pool, out *outcome) error {
	var within *area
	var err error
	if in.unit != "" {
		if within, err = t.area(ctx, keys(in.items)); err != nil {
			return err
		}
	}
	var anchors []int
	var above []key // larger units
	var named []key // documents that the question names
	seen := map[key]bool{}
	for i, c := range h.of {
		p.scores[i] = map[key]hit{}
		isAbove := larger(c.size(), h.unit)
		if !isAbove {
			anchors = append(anchors, i)
		}
		if in.unit != "" && !larger(in.unit, c.size()) {
			continue // such a component cannot find units inside the candidates, only score them
		}
		f, err := c.search(ctx, t, h.depth, within)
		if err != nil {
			return err
		}
		out.note(f)
		p.scores[i], p.whole[i], p.full[i] = byKey(f.hits), len(f.hits) < h.depth, f.full
		if !isAbove {
			if err := p.add(ctx, t, c, f.hits); err != nil {
				return err
			}
			continue
		}
		for i, x := range f.hits {
			if f.full > 0 && i < maxNamedDocuments && x.score >= f.full {
				named = append(named, x.key)
			}
			if !seen[x.key] {
				seen[x.key] = true
				above = append(above, x.key)
			}
		}
	}
	if len(anchors) == 0 && in.unit != "" && len(above) == 0 {
		above = keys(in.items)
	}
	if err := h.descend(ctx, t, p, anchors, above); err != nil {
		return err
	}
	// In the search of the whole collection all passages of one document may rank too low.
	if err := h.inside(ctx, t, p, anchors, named); err != nil {
		return err
	}
	if in.unit == "" {
		return nil
	}
	parents := t.parents(in.items)
	for k, c := range p.items {
		parent, ok := parents[t.enclosing(k.ref, in.unit)]
		if !ok {
			delete(p.items, k) // it lies in a part of a larger unit that is outside the area
			continue
		}
		p.items[k] = c.withParentScores(parent)
	}
	return nil
}

// descend adds the best candidates inside larger units, and at least one of each.
func (h hybrid) descend(ctx context.Context, t *Task, p *pool, anchors []int, above []key) error {
	if err := h.inside(ctx, t, p, anchors, above); err != nil {
		return err
	}
	reached := map[key]bool{}
	for k := range p.items {
		for _, u := range []schema.Unit{schema.UnitSection, schema.UnitDocument} {
			reached[t.enclosing(k.ref, u)] = true
		}
		if c, ok := t.clusterOf[enclosingRef(k.ref, schema.UnitSection)]; ok {
			reached[key{cluster: c}] = true
		}
	}
	for _, k := range above {
		if reached[k] {
			continue
		}
		ref := k.ref
		if k.cluster != uuid.Nil {
			if len(t.members[k.cluster]) == 0 {
				continue
			}
			ref = t.members[k.cluster][0]
		}
		first := key{ref: enclosingRef(lexical.Ref{Version: ref.Version, Section: max(ref.Section, 0)}, p.unit)}
		if _, ok := p.items[first]; !ok {
			p.items[first] = item{key: first, origin: "hybrid"}
		}
	}
	return nil
}

// inside adds the best candidates that components find inside units.
func (h hybrid) inside(ctx context.Context, t *Task, p *pool, anchors []int, units []key) error {
	if len(units) == 0 {
		return nil
	}
	within, err := t.area(ctx, units)
	if err != nil {
		return err
	}
	within.clusters = nil // units may mix clusters with others; the sections of the clusters are used instead
	for _, i := range anchors {
		if p.whole[i] {
			continue // it found all units already
		}
		f, err := h.of[i].search(ctx, t, h.depth, within)
		if err != nil {
			return err
		}
		// These hits are not recorded as scores: a unit only partly inside the area would have the
		// score of that part. complete looks up the score of the whole unit.
		if err := p.add(ctx, t, h.of[i], f.hits); err != nil {
			return err
		}
	}
	return nil
}

// add makes candidates from what a component found in its own unit, which is not larger than the
// candidates'.
func (p *pool) add(ctx context.Context, t *Task, c component, hits []hit) error {
	if p.unit == schema.UnitCluster && c.size() != schema.UnitCluster {
		refs := make([]lexical.Ref, len(hits))
		for i, x := range hits {
			refs[i] = x.key.ref
		}
		if err := t.locate(ctx, refs); err != nil {
			return err
		}
	}
	for _, x := range hits {
		k := x.key
		if c.size() != p.unit {
			k = t.enclosing(x.key.ref, p.unit)
		}
		have, ok := p.items[k]
		if !ok {
			have = item{key: k, origin: kindOf(c)}
		}
		if have.best == nil {
			have.best = x.best
			if c.size() == schema.UnitPassage && p.unit != schema.UnitPassage {
				have.best = &x.key.ref
			}
		}
		p.items[k] = have
	}
	return nil
}

// complete has every component score the candidates that it has not scored yet.
func (h hybrid) complete(ctx context.Context, t *Task, p *pool, out *outcome) error {
	candidates := make([]key, 0, len(p.items))
	for k := range p.items {
		candidates = append(candidates, k)
	}
	slices.SortFunc(candidates, compareKeys)
	for i, c := range h.of {
		if p.scores[i] == nil {
			p.scores[i] = map[key]hit{}
		}
		if p.whole[i] {
			continue
		}
		missing, err := h.missing(ctx, t, p, i, candidates)
		if err != nil {
			return err
		}
		if len(missing) == 0 {
			continue
		}
		f, err := c.score(ctx, t, missing)
		if err != nil {
			return err
		}
		out.note(f)
		p.full[i] = max(p.full[i], f.full)
		for _, x := range f.hits {
			if _, ok := p.scores[i][x.key]; !ok {
				p.scores[i][x.key] = x
			}
		}
	}
	return nil
}

// missing returns the units that component i has to score. If its units are smaller than the
// candidates, these are the candidates of which it has not scored any part; in the others it found
// the best part already.
func (h hybrid) missing(ctx context.Context, t *Task, p *pool, i int, candidates []key) ([]key, error) {
	c := h.of[i]
	if c.size() == schema.UnitCluster && h.unit != schema.UnitCluster {
		refs := make([]lexical.Ref, len(candidates))
		for j, k := range candidates {
			refs[j] = k.ref
		}
		if err := t.locate(ctx, refs); err != nil {
			return nil, err
		}
	}
	known := map[key]bool{}
	for k := range p.scores[i] {
		if larger(h.unit, c.size()) {
			k = t.enclosing(k.ref, h.unit)
		}
		known[k] = true
	}
	var out []key
	for _, k := range candidates {
		if larger(c.size(), h.unit) {
			k = t.enclosing(k.ref, c.size())
		}
		if !known[k] {
			known[k] = true
			out = append(out, k)
		}
	}
	return out, nil
}
