package stage

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"github.com/sluice-rag/sluice/internal/dense"
	"github.com/sluice-rag/sluice/internal/lexical"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// defaultRedundancy is ChunkRAG's redundancy threshold.
const defaultRedundancy = 0.9

type dedupe struct {
	cosine Threshold
	depth  int
}

var dedupeKind = Kind{
	Name:           "dedupe",
	Parameters:     "`cosine` (0.9; or calibrated, where the pack says), `depth` (50)",
	Does:           "drops what repeats a better one: same text, vectors closer than `cosine`, or, behind `newest`, the same passage in an older version",
	AfterSelection: true,
	read:           readDedupe,
}

// readDedupe reads the stage "dedupe":
//
//	dedupe: {cosine: 0.9, depth: 50}
//
// Redundancy removal as in ChunkRAG, among the first depth candidates. A candidate is dropped if a
// better one shows the same passage, has the same text except for case, spaces and punctuation, or
// has a vector whose cosine to its own is above the threshold. The threshold is a number, where 1
// means that vectors do not count, or calibrated: the one that the model pack has for the space of
// the collection's vectors, or 0.9 if it has none. After the stage newest, a candidate is also
// dropped if it is the passage of a better one in an older version of its text. The other
// candidates follow unchanged. Texts that contain each other need no check: the candidates are of
// one unit, and units do not overlap.
func readDedupe(p *Parameters) Stage {
	s := dedupe{cosine: p.Threshold("cosine", "dedupe", Threshold{Value: defaultRedundancy}, 0, 1), depth: p.Int("depth", 50, 1, 500)}
	return Stage{Fit: fitSelection, run: s.run}
}

func (d dedupe) run(ctx context.Context, t *Task, in Candidates) (outcome, error) {
	head, tail := cut(in.items, d.depth)
	shown, err := t.views(ctx, head, in.unit)
	if err != nil {
		return outcome{}, err
	}
	cosine, note, err := t.redundancyThreshold(ctx, d.cosine)
	if err != nil {
		return outcome{}, err
	}
	var vectors map[lexical.Ref][]float32
	if cosine < 1 && in.unit == schema.UnitPassage {
		var whole []lexical.Ref
		for _, v := range shown {
			if r, ok := v.passageRef(); ok {
				whole = append(whole, r)
			}
		}
		if vectors, err = t.Vectors.VectorsOf(ctx, dense.PassagesQuery{Principal: t.query.Principal, Collection: t.query.Collection,
			Generation: t.state.Generation, Passages: whole, View: t.view()}); err != nil {
			return outcome{}, err
		}
	}
	out := outcome{unit: in.unit}
	seen := map[string]int{} // normalised text -> rank
	var kept []int
	for i, c := range head {
		text := normalise(shown[i].text())
		own, single := shown[i].passageRef()
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
			if c.supersededBy(head[j].key) {
				why = fmt.Sprintf("the passage of rank %d in another version of the text", j+1)
				break
			}
			other, _ := shown[j].passageRef()
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
	out.why = join(fmt.Sprintf("%d of the first %d repeat a better one", len(out.dropped), len(head)), note)
	out.items = append(out.items, tail...)
	return out, nil
}

// redundancyThreshold returns the cosine above which a passage repeats another. A calibrated one is
// that of the pack whose encoder made the collection's vectors.
func (t *Task) redundancyThreshold(ctx context.Context, x Threshold) (cosine float64, note string, err error) {
	if x.Calibrated == "" {
		return x.Value, "", nil
	}
	info, err := t.encoderInfo(ctx)
	switch {
	case t.state.Second && unavailable(err) && ctx.Err() == nil:
		return 1, "the second encoder does not answer, so texts are compared and vectors are not", nil
	case err != nil:
		return 0, "", err
	}
	cosine, ok := info.Calibrated[x.Calibrated]
	if !ok {
		return defaultRedundancy, fmt.Sprintf("%s has no threshold %q, so the published %g counts", packName(info), x.Calibrated, defaultRedundancy), nil
	}
	return cosine, "", nil
}

// encoderInfo describes the model pack whose encoder made the collection's vectors.
func (t *Task) encoderInfo(ctx context.Context) (wire.ModelInfo, error) {
	if !t.state.Second {
		return t.pack.describe(ctx, packTTL)
	}
	secondCtx, cancel := context.WithTimeout(ctx, secondTimeout)
	defer cancel()
	return t.pack.second.describe(secondCtx, packTTL)
}

// normalise keeps letters and digits, in lower case, with one space between words.
func normalise(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	}), " ")
}

// dot returns the cosine of unit vectors; 0 if their lengths differ.
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
