package stage

import (
	"context"
	"fmt"
	"math"
)

type gradient struct {
	minK  int
	g     float64
	fall  bool // g is the share that a score may lose, not the share that it must keep
	score string
	// chance converts scores, which must be logits, to probabilities before comparing them.
	chance bool
}

var gradientKind = Kind{
	Name:       "gradient",
	Parameters: "`min_k` (7), `by` (ratio, or fall), `g` (0.3), `score`, `scale` (`raw`, `probability`)",
	Does:       "selects: the first `min_k`, and on until a score is below `g` times the one before (`ratio`) or has fallen by more than the share `g` of the one before (`fall`) (SAGE, Algorithm 2); with `scale: probability` scores are logits, and their probabilities are compared",
	Selects:    true,
	read:       readGradient,
}

// readGradient reads the stage "gradient":
//
//	gradient: {min_k: 7, by: ratio, g: 0.3, score: hybrid, scale: raw}
//
// SAGE's selection (Algorithm 2): the first min_k candidates by score, and then more as long as the
// scores fall slowly. A score of zero or less ends the list. The paper prints S[i] > score/g with a
// score that never changes, and says both "exceeds 1/g times its predecessor" and "a decrease rate
// of g". Here a score stays
//
//	by: ratio  when it is at least g times the one before
//	by: fall   when it is at least 1-g times the one before
//
// Both agree with the paper's figures. score names the scorer whose scores count; by default those
// of the previous stage. A candidate without that score is kept.
//
// With scale: probability the scores are logits and are compared as probabilities. These fall
// steeply from a text that surely answers to one that may, and slowly among texts that hardly
// answer. So few candidates stay if one stands out, and many if none does.
func readGradient(p *Parameters) Stage {
	s := gradient{minK: p.Int("min_k", 7, 1, MaxDepth), fall: p.Choice("by", "ratio", "fall") == "fall", g: p.number("g", 0.3, 0, 1), score: p.Text("score", false),
		chance: p.Choice("scale", "raw", "probability") == "probability"}
	return s.stage()
}

func (s gradient) stage() Stage {
	return Stage{Fit: fitSelection, Reads: s.score, run: s.run, MinK: s.minK, withMinK: func(k int) Stage {
		s.minK = k
		return s.stage()
	}}
}

func (s gradient) run(_ context.Context, _ *Task, in Candidates) (outcome, error) {
	items, value, unscored := byScore(in.items, s.score)
	if len(items) == 0 {
		return keepAll(in, s.score), nil
	}
	if logit := value; s.chance {
		value = func(c item) float64 { return 1 / (1 + math.Exp(-logit(c))) }
	}
	n := selected(items, value, s.minK, s.share())
	why := fmt.Sprintf("no score falls below %.3g of the one before", s.share())
	if n < len(items) {
		why = fmt.Sprintf("after %d the score falls from %.3f to %.3f", n, value(items[n-1]), value(items[n]))
	}
	return outcome{unit: in.unit, items: mergeUnjudged(items[:n:n], unscored), dropped: drop(items[n:], "after the sharp fall"), why: join(why, unscoredNote(unscored, s.score))}, nil
}

// share returns the least ratio of a score to the one before.
func (s gradient) share() float64 {
	if s.fall {
		return 1 - s.g
	}
	return s.g
}

func selected(items []item, value func(item) float64, minK int, share float64) int {
	n := min(minK, len(items))
	for n < len(items) && value(items[n]) > 0 && value(items[n]) >= share*value(items[n-1]) {
		n++
	}
	return n
}
