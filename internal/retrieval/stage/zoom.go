package stage

// The stage "zoom": from larger units to the smaller ones in them. Cutting documents into passages
// only after they were found is FunnelRAG's late chunking.

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/schema"
)

type zoom struct {
	to     schema.Unit
	k, per int
}

// maxChildren is the most candidates that a zoom without limits returns.
const maxChildren = 20_000

var zoomKind = Kind{
	Name:       "zoom",
	Parameters: "`to` (passage), `k` (0: all), `per` (0: all)",
	Does:       "everything inside the candidates; they keep their parents' scores",
	Finds:      true,
	read:       readZoom,
}

// readZoom reads the stage "zoom":
//
//	zoom: {to: section, k: 200, per: 20}
//
// Replaces the candidates by all units inside them, in the candidates' order and then in reading
// order; each has its parent's scores. per is the most units of one parent, k the most in total; 0
// is no limit. With per the units of each parent are ranked by BM25, and with k all units are.
func readZoom(p *Parameters) Stage {
	s := zoom{to: p.unit("to"), k: p.Int("k", 0, 0, maxChildren), per: p.Int("per", 0, 0, maxChildren)}
	return Stage{Fit: s.fit, Scores: s.scores(), run: s.run}
}

func (z zoom) scores() []string {
	if z.k == 0 && z.per == 0 {
		return nil
	}
	return []string{"lexical." + string(z.to)}
}

func (z zoom) fit(in schema.Unit) (schema.Unit, error) {
	switch {
	case in == "":
		return "", schema.Invalid("", "cannot be first: a plan begins with lexical, dense or hybrid")
	case !larger(in, z.to):
		return "", schema.Invalid("to", "is %s, but the stages before give units of %s: zoom goes to a smaller unit", z.to, in)
	}
	return z.to, nil
}

func (z zoom) run(ctx context.Context, t *Task, in Candidates) (outcome, error) {
	children, err := t.children(ctx, in.items, z.to)
	if err != nil {
		return outcome{}, err
	}
	out := outcome{unit: z.to}
	inside := map[key][]item{}
	for _, r := range children {
		parent := t.enclosing(r, in.unit)
		inside[parent] = append(inside[parent], item{key: key{ref: r}, origin: "zoom"})
	}
	var scores map[key]hit
	if z.k > 0 || z.per > 0 {
		c := bm25{unit: z.to, settings: lexical.Defaults}
		if err := t.prepare(ctx, c); err != nil {
			return outcome{}, err
		}
		f, err := c.score(ctx, t, keys(in.items))
		if err != nil {
			return outcome{}, err
		}
		scores = byKey(f.hits)
		out.note(f)
	}
	for _, parent := range in.items {
		own := inside[parent.key]
		for i, c := range own {
			c = c.withParentScores(parent)
			c.score = parent.score
			if scores != nil {
				c = c.scored("lexical."+string(z.to), scores[c.key].score)
			}
			own[i] = c
		}
		if scores != nil {
			rank(own)
		}
		kept, rest := cut(own, z.per)
		out.items = append(out.items, kept...)
		out.dropped = append(out.dropped, drop(rest, fmt.Sprintf("over %d of its %s", z.per, in.unit))...)
	}
	if z.k > 0 {
		rank(out.items)
	}
	kept, rest := cut(out.items, limitOf(z.k))
	out.items = kept
	out.dropped = append(out.dropped, drop(rest, fmt.Sprintf("below rank %d", limitOf(z.k)))...)
	out.why = join(fmt.Sprintf("%d units of %s hold %d of %s", len(in.items), in.unit, len(children), z.to), out.why)
	return out, nil
}

func limitOf(k int) int {
	if k == 0 {
		return maxChildren
	}
	return k
}

// children returns the units inside candidates, in reading order by document.
func (t *Task) children(ctx context.Context, items []item, unit schema.Unit) ([]lexical.Ref, error) {
	if len(items) == 0 {
		return nil, nil
	}
	refs, err := t.refsOf(ctx, keys(items))
	if err != nil {
		return nil, err
	}
	switch {
	case unit == schema.UnitPassage:
		return readAt(t, func(at retrieval.At) ([]lexical.Ref, error) {
			return t.Texts.PassageRefs(ctx, t.query.Principal, t.query.Collection, at, refs)
		})
	case items[0].cluster != uuid.Nil:
		return refs, nil
	}
	return t.Texts.SectionRefs(ctx, t.query.Principal, t.query.Collection, versionsOf(refs))
}

// versionsOf returns the versions of refs, each once.
func versionsOf(refs []lexical.Ref) []uuid.UUID {
	var out []uuid.UUID
	seen := map[uuid.UUID]bool{}
	for _, r := range refs {
		if !seen[r.Version] {
			seen[r.Version] = true
			out = append(out, r.Version)
		}
	}
	return out
}
