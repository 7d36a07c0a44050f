package stage

// This file defines components, which score units by BM25 or by the inner product of vectors. A
// stage has one (lexical, dense) or several (hybrid).

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// unlimited is a k larger than the number of units that any restricted search finds.
const unlimited = 1 << 20

// component finds and scores units of one size.
type component interface {
	// scorer returns the name of its scores, such as "lexical.passage".
	scorer() string
	size() schema.Unit
	share(t *Task) float64 // its weight in a hybrid
	// prepare makes the forms of the question that the other methods need.
	prepare(ctx context.Context, t *Task) error
	// search finds the k best units in an area, or anywhere if within is nil.
	search(ctx context.Context, t *Task, k int, within *area) (found, error)
	// score scores units exactly. Units that are not in the result have the score 0.
	score(ctx context.Context, t *Task, units []key) (found, error)
}

// area is a set of places, in the forms that both sources take.
type area struct {
	clusters map[uuid.UUID]bool
	refs     []lexical.Ref // including the sections of the clusters
}

// area returns the area that the places cover.
func (t *Task) area(ctx context.Context, places []key) (*area, error) {
	refs, err := t.refsOf(ctx, places)
	if err != nil {
		return nil, err
	}
	a := &area{refs: refs}
	if len(places) > 0 && places[0].cluster != uuid.Nil {
		a.clusters = map[uuid.UUID]bool{}
		for _, k := range places {
			a.clusters[k.cluster] = true
		}
	}
	return a, nil
}

// found is what a component found, best first.
type found struct {
	hits       []hit
	statistics map[string]float64 // shown to admins only
	note       string
	// full is the score that earns the component's full weight. If no unit reaches it, the best
	// unit earns less; 0: the best unit always earns the full weight.
	full float64
}

// bm25 scores units by the lexical index.
type bm25 struct {
	unit     schema.Unit
	settings lexical.Settings
	weight   float64
	// identity searches the field identity, which has the names of documents. Each term counts once
	// there, and lengths do not count.
	identity bool
}

const identityScorer = "lexical.identity"

func (c bm25) scorer() string {
	if c.identity {
		return identityScorer
	}
	return "lexical." + string(c.unit)
}

func (c bm25) size() schema.Unit   { return c.unit }
func (c bm25) share(*Task) float64 { return c.weight }

func (c bm25) prepare(_ context.Context, t *Task) error { return t.analyse() }

func (c bm25) search(ctx context.Context, t *Task, k int, within *area) (found, error) {
	terms := t.terms
	if c.identity {
		terms = t.names
	}
	q := t.narrowed(lexical.TermQuery{Unit: c.unit, Terms: terms, K: k, Settings: c.settings, Within: c.within(within)})
	var note string
	if t.state.Unindexed > 0 && within == nil {
		note = fmt.Sprintf("%d documents wait to be indexed", t.state.Unindexed)
	}
	if len(terms) == 0 {
		return found{note: "the question has no word to search for"}, nil
	}
	r, err := t.searchIndex(ctx, q)
	if err != nil {
		return found{}, err
	}
	out := found{hits: make([]hit, len(r.Hits)), note: note, statistics: c.statistics(r)}
	for i, h := range r.Hits {
		out.hits[i] = hit{key: key{ref: h.Ref, cluster: h.Cluster}, score: h.Score}
	}
	if c.identity {
		out.full = lexical.IDF(r.Statistics.Units, 1)
	}
	return out, nil
}

// within converts an area for the index. Passages are replaced by their sections.
func (c bm25) within(a *area) *lexical.Within {
	if a == nil {
		return nil
	}
	if a.clusters != nil {
		return &lexical.Within{Clusters: a.clusters}
	}
	out := &lexical.Within{Sections: make(map[lexical.Ref]bool, len(a.refs))}
	for _, r := range a.refs {
		if r.Passage >= 0 {
			r = enclosingRef(r, schema.UnitSection)
		}
		out.Sections[r] = true
	}
	return out
}

func (c bm25) statistics(r lexical.Result) map[string]float64 {
	at := c.scorer() + "."
	out := map[string]float64{at + "units": float64(r.Statistics.Units), at + "average_terms": r.Statistics.Average,
		at + "scored": float64(r.Scored), at + "pruned_blocks": float64(r.Pruned)}
	for term, df := range r.Statistics.DF {
		out[at+"df."+term] = float64(df)
	}
	return out
}

func (c bm25) score(ctx context.Context, t *Task, units []key) (found, error) {
	a, err := t.area(ctx, units)
	if err != nil {
		return found{}, err
	}
	return c.search(ctx, t, unlimited, a)
}

// inner scores passages by the inner product of their vectors with the question's. A larger unit
// has the score of its best passage (MaxP).
type inner struct {
	unit   schema.Unit
	weight float64
	// second is the weight where the vectors are the second encoder's; 0: weight.
	second float64
	// known multiplies the weight by the share of the question in scripts that the encoder was
	// trained on.
	known bool
	// alone is set if no other component finds units: if the vectors are of another space, units
	// are then found by BM25.
	alone bool
}

func (c inner) scorer() string    { return "dense." + string(c.unit) }
func (c inner) size() schema.Unit { return c.unit }

func (c inner) share(t *Task) float64 {
	weight := c.weight
	if t.state.Second && c.second > 0 {
		weight = c.second
	}
	if c.known {
		weight *= t.encoderShare
	}
	return weight
}

func (c inner) prepare(ctx context.Context, t *Task) error {
	if c.known {
		var err error
		if t.encoderShare, err = t.known(ctx, wire.OpEncode); err != nil || t.encoderShare == 0 {
			return err
		}
	}
	if err := t.encode(ctx); err != nil {
		return err
	}
	if t.vectorsIncomparable() && c.alone {
		return t.analyse()
	}
	return nil
}

func (c inner) search(ctx context.Context, t *Task, k int, within *area) (found, error) {
	switch {
	case t.vectorsIncomparable() && c.alone:
		f, err := bm25{unit: c.unit, settings: lexical.Defaults}.search(ctx, t, k, within)
		f.note = join("BM25 in the place of vectors of another space", f.note)
		return f, err
	case t.vectorsIncomparable():
		return found{note: "the vectors are of another space"}, nil
	}
	if t.vector == nil {
		return found{note: "the model knows no word of the question"}, nil
	}
	if within != nil && len(within.refs) == 0 {
		return found{}, nil
	}
	q := dense.NearestQuery{Principal: t.query.Principal, Collection: t.query.Collection, Generation: t.state.Generation,
		Space: t.space, Vector: t.vector, Filter: t.query.Filter, K: k, View: t.view()}
	if within != nil {
		q.Within = within.refs
	}
	if c.unit != schema.UnitPassage && k < unlimited {
		q.K = min(4*k, unlimited)
	}
	for {
		nearest, err := t.Vectors.Nearest(ctx, q)
		if err != nil {
			return found{}, err
		}
		hits, err := c.best(ctx, t, nearest)
		if err != nil {
			return found{}, err
		}
		// The best passages decide which units are best. If they are of too few units, the search
		// is repeated with more passages.
		if len(hits) >= k || len(nearest) < q.K || q.K >= unlimited {
			return found{hits: hits[:min(k, len(hits))]}, nil
		}
		q.K = min(4*q.K, unlimited)
	}
}

// best returns the units of passages, each with its best passage.
func (c inner) best(ctx context.Context, t *Task, nearest []dense.Hit) ([]hit, error) {
	if c.unit == schema.UnitCluster {
		refs := make([]lexical.Ref, len(nearest))
		for i, n := range nearest {
			refs[i] = n.Ref
		}
		if err := t.locate(ctx, refs); err != nil {
			return nil, err
		}
	}
	best := make(map[key]hit, len(nearest))
	for _, n := range nearest {
		k := t.enclosing(n.Ref, c.unit)
		if have, ok := best[k]; !ok || have.score < n.Similarity {
			best[k] = hit{key: k, score: n.Similarity, best: &n.Ref}
		}
	}
	out := slices.Collect(maps.Values(best))
	sortHits(out)
	return out, nil
}

func (c inner) score(ctx context.Context, t *Task, units []key) (found, error) {
	a, err := t.area(ctx, units)
	if err != nil {
		return found{}, err
	}
	return c.search(ctx, t, unlimited, a)
}
