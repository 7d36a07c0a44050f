package stage

import (
	"context"
	"fmt"
	"math"
)

type gradient struct {
	minK  int
	g     float64
	score string
	// chance has the scores, as logits, compared as probabilities.
	chance bool
}

var gradientKind = Kind{
	Name:       "gradient",
	Parameters: "`min_k` (7), `g` (0.3), `score`, `scale` (`raw`, `probability`)",
	Does:       "selects: the first `min_k`, and on until a score falls below `g` times the one before (SAGE, Algorithm 2); with `scale: probability` scores are logits, and their probabilities are compared",
	Selects:    true,
	read:       readGradient,
}

// readGradient reads the stage "gradient":
//
//	gradient: {min_k: 7, g: 0.3, score: hybrid, scale: raw}
//
// SAGE's selection (Algorithm 2): the first min_k candidates by score, and then
// as long as a score has not fallen below g times the one before it. A score of
// zero or less ends the list. (The paper prints S[i] > score/g with a score that
// never changes; its prose and figures mean this.) score names the scorer whose
// scores count; by default those of the stage before.
//
// With scale: probability scores are logits, and what falls is the chance that they
// say: from one text that surely answers to one that may, at once; among texts that
// hardly do, slowly. So few are kept where one stands out, and many where none does.
func readGradient(p *Parameters) Stage {
	s := gradient{minK: p.Whole("min_k", 7, 1, MaxDepth), g: p.number("g", 0.3, 0, 1), score: p.Text("score", false),
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
	items, value := byScore(in.items, s.score)
	if logit := value; s.chance {
		value = func(c item) float64 { return 1 / (1 + math.Exp(-logit(c))) }
	}
	n := selected(items, value, s.minK, s.g)
	why := fmt.Sprintf("no score falls below %g of the one before", s.g)
	if n < len(items) {
		why = fmt.Sprintf("after %d the score falls from %.3f to %.3f", n, value(items[n-1]), value(items[n]))
	}
	return outcome{unit: in.unit, items: items[:n:n], dropped: drop(items[n:], "after the sharp fall"), why: why}, nil
}

func selected(items []item, value func(item) float64, minK int, g float64) int {
	n := min(minK, len(items))
	for n < len(items) && value(items[n]) > 0 && value(items[n]) >= g*value(items[n-1]) {
		n++
	}
	return n
}
