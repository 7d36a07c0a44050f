package stage

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema"
)

type dedupe struct {
	cosine Threshold
	depth  int
}

var dedupeKind = Kind{
	Name:           "dedupe",
	Parameters:     "`cosine` (0.9; or calibrated), `depth` (50)",
	Does:           "drops what repeats a better one: same text, or vectors closer than `cosine`",
	AfterSelection: true,
	read:           readDedupe,
}

// readDedupe reads the stage "dedupe":
//
//	dedupe: {cosine: 0.9, depth: 50}
//
// Redundancy removal as in ChunkRAG: of the first depth candidates those go that
// show the same passage as a better one, whose text is the same but for case,
// spaces and punctuation, or whose vector's cosine to a better one's is above the
// threshold (1: vectors do not count; calibrated: what the model pack has for it).
// The rest follows unseen. One text does not lie inside another's: the candidates
// are of one unit, and units do not overlap.
func readDedupe(p *Parameters) Stage {
	s := dedupe{cosine: p.Threshold("cosine", "dedupe", Threshold{Value: 0.9}, 0, 1), depth: p.Whole("depth", 50, 1, 500)}
	return Stage{Fit: fitSelection, run: s.run}
}

func (d dedupe) run(ctx context.Context, t *Task, in Candidates) (outcome, error) {
	head, tail := cut(in.items, d.depth)
	shown, err := t.views(ctx, head, in.unit)
	if err != nil {
		return outcome{}, err
	}
	cosine, err := t.resolve(ctx, "cosine", d.cosine)
	if err != nil {
		return outcome{}, err
	}
	var vectors map[lexical.Ref][]float32
	if cosine < 1 && in.unit == schema.UnitPassage {
		var whole []lexical.Ref
		for _, v := range shown {
			if r, ok := v.whole(); ok {
				whole = append(whole, r)
			}
		}
		if vectors, err = t.Texts.VectorsOf(ctx, t.query.Principal, t.query.Collection, t.place.Generation, whole); err != nil {
			return outcome{}, err
		}
	}
	out := outcome{unit: in.unit}
	seen := map[string]int{} // normalised text -> rank
	var kept []int
	for i, c := range head {
		text := normalise(shown[i].text())
		own, single := shown[i].whole()
		if n, ok := seen[text]; ok && text != "" {
			out.dropped = append(out.dropped, judged{c, fmt.Sprintf("the same text as rank %d", n+1)})
			continue
		}
		why := ""
		for _, j := range kept {
			if shown[i].same(shown[j]) {
				why = fmt.Sprintf("shows the passage of rank %d", j+1)
				break
			}
			other, _ := shown[j].whole()
			if x := dot(vectors[own], vectors[other]); single && x > cosine {
				why = fmt.Sprintf("cosine %.3f to rank %d", x, j+1)
				break
			}
		}
		if why != "" {
			out.dropped = append(out.dropped, judged{c, why})
			continue
		}
		seen[text] = i
		kept = append(kept, i)
		out.items = append(out.items, c)
	}
	out.why = fmt.Sprintf("%d of the first %d repeat a better one", len(out.dropped), len(head))
	out.items = append(out.items, tail...)
	return out, nil
}

// normalise keeps letters and digits, in lower case, with one space between
// words.
func normalise(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	}), " ")
}

// dot is the cosine of unit vectors; 0 where there is none.
func dot(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}
	sum := 0.0
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}
