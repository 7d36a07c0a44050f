package stage

// The stage "proximity": features of the best candidates that BM25, a bag of words, cannot see. It
// reads their texts, so it comes after the stages that find them.

import (
	"context"
	"fmt"
	"math"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema"
)

type proximity struct {
	depth                       int
	ordered, coverage, sentence float64
}

var proximityKind = Kind{
	Name:       "proximity",
	Parameters: "`depth` (50), `ordered` (0.5), `coverage` (0.3), `sentence` (0.5)",
	Does:       "reads the first `depth` passages or sections, see below",
	read:       readProximity,
}

// readProximity reads the stage "proximity":
//
//	proximity: {depth: 50, ordered: 0.5, coverage: 0.3, sentence: 0.5}
//
// The first depth candidates are ranked again by their score, as a share of the best one's, plus
// weighted features between 0 and 1:
//
//   - ordered: terms that follow each other in the question and in the section,
//     saturated as BM25 does (the ordered window of the sequential dependence
//     model, Metzler and Croft 2005)
//   - coverage: the part of the question's terms that the section or the title has
//   - sentence: BM25 of the candidate's best sentence
//
// Each term is weighted by its idf. The other candidates follow, unread.
func readProximity(p *Parameters) Stage {
	s := proximity{depth: p.Int("depth", 50, 1, 200), ordered: p.number("ordered", 0.5, 0, 100),
		coverage: p.number("coverage", 0.3, 0, 100), sentence: p.number("sentence", 0.5, 0, 100)}
	return Stage{Fit: s.fit, Scores: []string{"coverage", "ordered", "proximity", "sentence"}, run: s.run}
}

func (proximity) fit(in schema.Unit) (schema.Unit, error) {
	if in != schema.UnitPassage && in != schema.UnitSection {
		return "", schema.Invalid("", "reads passages or sections: the stages before give %s", unitOrNone(in))
	}
	return in, nil
}

func unitOrNone(u schema.Unit) string {
	if u == "" {
		return "nothing"
	}
	return string(u) + "s"
}

func (s proximity) run(ctx context.Context, t *Task, in Candidates) (outcome, error) {
	out := outcome{unit: in.unit, items: in.items, why: "nothing to read"}
	if err := t.analyse(); err != nil {
		return outcome{}, err
	}
	head, tail := cut(in.items, s.depth)
	if len(head) == 0 || len(t.terms) == 0 || head[0].score <= 0 {
		return out, nil
	}
	refs := make([]lexical.Ref, len(head))
	for i, c := range head {
		refs[i] = c.ref
	}
	if err := t.load(ctx, refs); err != nil {
		return outcome{}, err
	}
	idf, err := t.idf(ctx)
	if err != nil {
		return outcome{}, err
	}
	read := t.analyseSections(refs, idf)
	items := make([]item, 0, len(in.items))
	best := head[0].score
	for i, c := range head {
		f := read.features(t.texts[refs[i]], in.unit)
		score := c.score/best + s.ordered*f.ordered + s.coverage*f.coverage + s.sentence*f.sentence
		items = append(items, c.scored("ordered", f.ordered).scored("coverage", f.coverage).scored("sentence", f.sentence).scored("proximity", score))
	}
	rank(items)
	out.why = join(fmt.Sprintf("read %d sections", len(read.sections)), spread(items, "proximity"))
	// Candidates that were not read stay behind the others; their scores are brought to the same
	// scale.
	lowest := items[len(items)-1].score
	for _, c := range tail {
		items = append(items, c.scored("proximity", math.Min(lowest, c.score/best)))
	}
	out.items = items
	return out, nil
}

// idf returns the BM25 weights of the question's terms in sections.
func (t *Task) idf(ctx context.Context) (map[string]float64, error) {
	if t.statistics == nil {
		r, err := t.searchIndex(ctx, t.statisticsOf(t.terms))
		if err != nil {
			return nil, fmt.Errorf("read the statistics of the question's terms: %w", err)
		}
		t.statistics = &r.Statistics
	}
	n := float64(t.statistics.Units)
	out := make(map[string]float64, len(t.terms))
	for _, term := range t.terms {
		df := float64(t.statistics.DF[term])
		out[term] = math.Log(1 + (n-df+0.5)/(df+0.5))
	}
	return out, nil
}
