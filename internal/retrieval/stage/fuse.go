package stage

// The stage "fuse": a reader that reads all candidates together tells which of them an answer would
// draw on.

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

type fuse struct {
	lr           int
	withQuestion bool
	depth, keep  int
	pieces       int
	optional     bool
}

var fuseKind = Kind{
	Name:       "fuse",
	Parameters: "`lr` (4), `with_question` (false), `depth` (100), `keep` (4; 0: all), `pieces` (8), `optional` (false)",
	Does:       "FunnelRAG's post-ranking: on which of the candidates, read together, an answer would draw (eq. 3)",
	read:       readFuse,
}

// readFuse reads the stage "fuse":
//
//	fuse: {lr: 4, with_question: false, depth: 100, keep: 4, pieces: 8, optional: false}
//
// FunnelRAG's post-ranking: Fusion-in-Decoder encodes the question with each of the first depth
// candidates. A candidate's score is the attention of the answer's first token to it (eq. 3),
// averaged over the decoder's layers and heads and over the lr tokens of the candidate with the
// most attention, chosen per layer and head. with_question lets tokens of the question be among
// them. The best keep candidates stay (H in the paper; 0: all). The others follow in their order,
// unread, unless keep drops them.
//
// Candidates after those that the fuser can read together follow unread too. A candidate longer
// than the model's input counts as its best piece, as in score. An optional stage is skipped if the
// model pack has no fuser.
func readFuse(p *Parameters) Stage {
	s := fuse{lr: p.Int("lr", 4, 1, 512), withQuestion: p.bool("with_question"), depth: p.Int("depth", 100, 1, 500),
		keep: p.Int("keep", 4, 0, MaxDepth), pieces: p.Int("pieces", 8, 1, maxInputs), optional: p.bool("optional")}
	return Stage{Fit: fitReading, Scores: []string{"fuse"}, Cost: Cost{Reads: s.depth * s.pieces}, run: s.run}
}

func (s fuse) run(ctx context.Context, t *Task, in Candidates) (outcome, error) {
	out := outcome{unit: in.unit, items: in.items, why: "nothing to read"}
	if len(in.items) == 0 {
		return out, nil
	}
	skip, err := t.needs(ctx, s.optional, wire.OpFuse)
	if skip != "" || err != nil {
		out.why = skip
		return out, err
	}
	depth := s.depth
	inputs, err := t.inputs(ctx, in.items[:min(depth, len(in.items))], in.unit, inputOptions{limit: s.pieces, cut: packed(0), joined: true})
	if err != nil {
		return outcome{}, err
	}
	maxInputs, err := t.pack.limit(ctx, wire.OpFuse)
	if err != nil {
		return outcome{}, err
	}
	over := ""
	if maxInputs > 0 && len(inputs) > maxInputs {
		over = fmt.Sprintf("the fuser reads %d of %d texts together", maxInputs, len(inputs))
		depth = max(1, inputs[maxInputs].of) // every candidate but the first is read whole or not at all
		inputs = inputs[:maxInputs]
		for depth < inputs[len(inputs)-1].of+1 {
			inputs = inputs[:len(inputs)-1]
		}
	}
	head, tail := cut(in.items, depth)
	var scores []float32
	var model string
	if len(inputs) > 0 {
		scores, model, err = t.Readers.Fuse(ctx, wire.LaneInteractive, t.query.Text, inputTexts(inputs), s.lr, s.withQuestion)
		if isUnknownWords(err) {
			out.why = unknownWordsReason
			return out, nil
		}
		if err != nil {
			return outcome{}, fmt.Errorf("fuse %d texts: %w", len(inputs), err)
		}
	}
	if err := finite("fuse", len(inputs), single(scores)); err != nil {
		return outcome{}, err
	}
	best := map[int]int{} // candidate -> input
	for i, in := range inputs {
		if have, ok := best[in.of]; !ok || scores[i] > scores[have] {
			best[in.of] = i
		}
	}
	out.items = nil
	for i, c := range head {
		j, ok := best[i]
		if !ok {
			out.dropped = append(out.dropped, judged{c, noTextReason})
			continue
		}
		if in.unit == schema.UnitDocument || in.unit == schema.UnitCluster {
			c.shows = []extent{inputs[j].at}
		}
		out.items = append(out.items, c.scored("fuse", float64(scores[j])))
	}
	rank(out.items)
	out.why = join(fmt.Sprintf("%d candidates in %d texts, fused%s", len(out.items), len(inputs), by(model)), spread(out.items, "fuse"), over)
	out.items = append(out.items, scoreUnread(out.items, head, tail, "fuse")...)
	kept, rest := cut(out.items, s.keep)
	out.items = kept
	out.dropped = append(out.dropped, drop(rest, fmt.Sprintf("below rank %d", s.keep))...)
	return out, nil
}

// noTextReason is why a candidate without text is dropped.
const noTextReason = "it is gone, or has no text"

func by(model string) string {
	if model == "" {
		return ""
	}
	return " by " + model
}

func single(scores []float32) [][]float32 {
	out := make([][]float32, len(scores))
	for i, x := range scores {
		out[i] = []float32{x}
	}
	return out
}
