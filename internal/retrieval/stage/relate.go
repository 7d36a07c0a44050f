package stage

// The stage "relate": passages with the passages of their document that they are linked to.

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/internal/retrieval"
	"github.com/sluice-rag/sluice/schema"
)

type relate struct {
	depth, k int
	least    float64
	all      bool // makes one candidate of a passage and all that it is linked to
}

var relateKind = Kind{
	Name:       "relate",
	Parameters: "`depth` (10), `k` (3), `least` (0), `join` (each, or all)",
	Does:       "SAKI: each of the first `depth` passages with each of the `k` that it is linked to most strongly, or with `all` of them, see below",
	Finds:      true,
	Joins:      true,
	read:       readRelate,
}

// readRelate reads the stage "relate":
//
//	relate: {depth: 10, k: 3, least: 0, join: each}
//
// SAKI's dual-axis retriever (Algorithm 1): each of the first depth passages c becomes a candidate
// with each of its k most strongly linked passages r. Such a candidate c + r is one text of two
// spans, with c's scores and the link's weight as "link". Links weaker than least are ignored. A
// passage without a link stays alone; two passages that are linked both ways are joined once. The
// other candidates follow unchanged.
//
// With join: all a passage becomes one candidate with all of its linked passages (section 3.2 of
// the paper), in the order of the document, with the strongest weight as "link".
func readRelate(p *Parameters) Stage {
	s := relate{depth: p.Int("depth", 10, 1, 200), k: p.Int("k", 3, 1, 50), least: p.number("least", 0, 0, 1),
		all: p.Choice("join", "each", "all") == "all"}
	return Stage{Fit: s.fit, Scores: []string{"link"}, run: s.run}
}

func (relate) fit(in schema.Unit) (schema.Unit, error) {
	if in != schema.UnitPassage {
		return "", schema.Invalid("", "joins passages: the stages before give %s", unitOrNone(in))
	}
	return in, nil
}

func (s relate) run(ctx context.Context, t *Task, in Candidates) (outcome, error) {
	out := outcome{unit: in.unit, items: in.items, why: "nothing to join"}
	if len(in.items) == 0 {
		return out, nil
	}
	if t.Links == nil {
		return outcome{}, schema.Invalid("plan", "needs the links between passages, which are not stored here")
	}
	head, tail := cut(in.items, s.depth)
	refs := make([]lexical.Ref, len(head))
	for i, c := range head {
		refs[i] = c.ref
	}
	links, err := readAt(t, func(at retrieval.At) (map[lexical.Ref][]retrieval.Link, error) {
		return t.Links.Links(ctx, t.query.Principal, t.query.Collection, at, refs, s.k)
	})
	if err != nil {
		return outcome{}, fmt.Errorf("find what %d passages are linked to: %w", len(refs), err)
	}
	out.items = nil
	joined, alone := map[[2]lexical.Ref]bool{}, 0
	for _, c := range head {
		some := links[c.ref]
		if s.all {
			c, found := s.withAll(c, some)
			if !found {
				alone++
			}
			out.items = append(out.items, c)
			continue
		}
		n := 0
		for _, l := range some[:min(s.k, len(some))] {
			switch {
			case !s.counts(c, l):
				continue
			case joined[[2]lexical.Ref{l.To, c.ref}]:
				n++ // it is part of the other one's candidate
				continue
			}
			joined[[2]lexical.Ref{c.ref, l.To}] = true
			own := c.score
			pair := c.scored("link", l.Weight)
			pair.score, pair.with = own, l.To
			pair.shows = []extent{{ref: c.ref}, {ref: l.To}}
			out.items = append(out.items, pair)
			n++
		}
		if n == 0 {
			alone++
			out.items = append(out.items, c)
		}
	}
	out.why = fmt.Sprintf("%d passages became %d candidates, %d of them stay alone", len(head), len(out.items), alone)
	out.items = append(out.items, tail...)
	return out, nil
}

// counts reports whether a link joins a passage to another one of its document.
func (s relate) counts(c item, l retrieval.Link) bool {
	return l.Weight >= s.least && l.To != c.ref && l.To.Version == c.ref.Version
}

// withAll joins a passage with all passages that it is linked to. It reports false if there are
// none.
func (s relate) withAll(c item, links []retrieval.Link) (item, bool) {
	shows := []extent{{ref: c.ref}}
	joined := c
	for _, l := range links[:min(s.k, len(links))] {
		if !s.counts(c, l) {
			continue
		}
		if len(shows) == 1 { // the strongest link comes first
			joined = c.scored("link", l.Weight)
			joined.score, joined.with = c.score, l.To
		}
		shows = append(shows, extent{ref: l.To})
	}
	if len(shows) == 1 {
		return c, false
	}
	slices.SortFunc(shows, func(a, b extent) int {
		return cmp.Or(cmp.Compare(a.ref.Section, b.ref.Section), cmp.Compare(a.ref.Passage, b.ref.Passage))
	})
	joined.shows = shows
	return joined, true
}
