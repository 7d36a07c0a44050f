package stage

// The stage "reduce": of each candidate the few sentences that serve the answer best, and of the
// candidates as many as are enough.

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/schema/wire"
)

type reduce struct {
	depth, most       int
	sentences, stride int
	windows           int
	enough            Threshold
	optional          bool
}

var reduceKind = Kind{
	Name:       "reduce",
	Parameters: "`depth` (10), `sentences` (3), `stride` (1), `windows` (64), `most` (10), `enough` (calibrated, or a number), `optional` (false)",
	Does:       "selects: of each candidate its best window, as many as are enough (FIT-RAG, Algorithm 3), see below",
	Selects:    true,
	read:       readReduce,
}

// readReduce reads the stage "reduce":
//
//	reduce: {depth: 10, sentences: 3, stride: 1, windows: 64, most: 10, enough: calibrated, optional: false}
//
// FIT-RAG's token reducer (Algorithm 3). Each of the first depth candidates is cut into at most
// windows windows of sentences sentences, each beginning stride sentences after the one before. The
// window with the highest has_answer + llm_prefer represents the candidate. The candidates are
// sorted by that sum and taken one by one, at most most of them (the detector takes up to 10),
// until the detector says that those taken are enough to answer with. (The paper's algorithm
// returns only the last one; its text means all.)
//
// It is a selecting stage: the ranking stays, and a candidate's text in the context is its window.
// enough is the detector's threshold: a probability, or calibrated, the pack's own. The detector
// gets the pack's own llm_prefer, even if a language model's chose the windows.
func readReduce(p *Parameters) Stage {
	s := reduce{depth: p.Int("depth", 10, 1, 100), sentences: p.Int("sentences", 3, 1, 50), stride: p.Int("stride", 1, 1, 50),
		windows: p.Int("windows", 64, 1, 500), most: p.Int("most", wire.DetectPairs, 1, wire.DetectPairs),
		enough: p.Threshold("enough", "detect", Threshold{Calibrated: "detect"}, 0, 1), optional: p.bool("optional")}
	if s.stride > s.sentences {
		p.Fail("stride", "is %d, more than the %d sentences of a window: sentences would be left out", s.stride, s.sentences)
	}
	return Stage{Fit: fitReading, Scores: []string{byHasAnswer, byLLMPrefer, byPreferSum}, Cost: Cost{Reads: s.depth * s.windows}, run: s.run}
}

func (s reduce) run(ctx context.Context, t *Task, in Candidates) (outcome, error) {
	out := outcome{unit: in.unit, items: in.items, why: "nothing to read"}
	if len(in.items) == 0 {
		return out, nil
	}
	skip, err := t.needs(ctx, s.optional, wire.OpScore, wire.OpDetect)
	if skip != "" || err != nil {
		out.why = skip
		return out, err
	}
	head, tail := cut(in.items, s.depth)
	read, err := t.scored(ctx, wire.GraphPair, head, in.unit, inputOptions{limit: s.windows, cut: windows(s.sentences, s.stride), prefers: true}, score{by: byPreferSum}.of)
	if isUnknownWords(err) {
		out.why = unknownWordsReason
		return out, nil
	}
	if err != nil {
		return outcome{}, err
	}
	out.items = nil
	var own [][2]float32 // the pack's logits, for which the detector is calibrated
	var order []int
	for i, c := range head {
		if _, ok := read.best[i]; !ok {
			out.dropped = append(out.dropped, judged{c, noTextReason})
			continue
		}
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(read.best[b].value, read.best[a].value) })
	for _, i := range order {
		best := read.best[i]
		c := best.score.addTo(head[i], wire.GraphPair).scored(byPreferSum, best.value)
		c.shows = []extent{best.at}
		out.items, own = append(out.items, c), append(own, [2]float32{best.score.HasAnswer, best.own})
	}
	minimum, n, p, err := s.detect(ctx, t, own)
	if err != nil {
		return outcome{}, err
	}
	over, dropped := out.items[n:], "the windows before it are enough"
	out.items = out.items[:n:n]
	out.dropped = append(out.dropped, drop(over, dropped)...)
	out.dropped = append(out.dropped, drop(tail, fmt.Sprintf("below rank %d", s.depth))...)
	found := fmt.Sprintf("%d windows are enough: %.3f, from %.3f on", n, p, minimum)
	if p < minimum {
		found = fmt.Sprintf("all %d windows are kept: the probability that they are enough is %.3f, below %.3f", n, p, minimum)
	}
	out.why = join(fmt.Sprintf("windows of %d sentences of %s", s.sentences, read), found)
	return out, nil
}

// detect returns the length n of the first prefix that is enough, or else of all, and the
// probability p that it is enough. minimum is the threshold.
func (s reduce) detect(ctx context.Context, t *Task, read [][2]float32) (minimum float64, n int, p float64, err error) {
	n = min(len(read), s.most)
	if n == 0 {
		return 0, 0, 0, nil
	}
	contexts := make([][][2]float32, n)
	for i := range contexts {
		contexts[i] = read[: i+1 : i+1]
	}
	enough, calibrated, _, err := t.Readers.Detect(ctx, wire.LaneInteractive, contexts)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("detect which of %d windows are enough: %w", n, err)
	}
	if err := finite("detect", n, single(enough)); err != nil {
		return 0, 0, 0, err
	}
	if minimum = s.enough.Value; s.enough.Calibrated != "" {
		minimum = calibrated
	}
	for i, x := range enough {
		if p = float64(x); p >= minimum {
			return minimum, i + 1, p, nil
		}
	}
	return minimum, n, p, nil
}
