package stage

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

type dynamicThreshold struct {
	score   string
	at      float64
	fixed   bool
	epsilon float64
}

var thresholdKind = Kind{
	Name:       "threshold",
	Parameters: "`score`, `epsilon` (0.0001), or `at`",
	Does:       "selects: what scores at least the mean of all, or one standard deviation more where their variance is under `epsilon` (ChunkRAG, Algorithm 1); or at least `at`. The best one always stays",
	Selects:    true,
	read:       readThreshold,
}

// readThreshold reads the stage "threshold":
//
//	threshold: {score: relevance, epsilon: 0.0001}
//	threshold: {score: relevance, at: 0.5}
//
// The candidates with at least a score: at, or else ChunkRAG's dynamic threshold
// (Algorithm 1, lines 19 to 22), the mean of their scores, and one standard
// deviation more where these hardly differ, their variance being under epsilon.
// That can leave nothing, so the best candidate always stays. score names the
// scorer whose scores count; by default those of the stage before.
func readThreshold(p *Parameters) Stage {
	s := dynamicThreshold{score: p.Text("score", false)}
	if _, s.fixed = p.values["at"]; s.fixed {
		s.at = p.number("at", 0, -1e6, 1e6)
	} else {
		s.epsilon = p.number("epsilon", 1e-4, 0, 1e6)
	}
	return Stage{Fit: fitSelection, Reads: s.score, run: s.run}
}

func (s dynamicThreshold) run(_ context.Context, _ *Task, in Candidates) (outcome, error) {
	items, value := byScore(in.items, s.score)
	if len(items) == 0 {
		return outcome{unit: in.unit, items: items}, nil
	}
	least, why := s.at, "as the plan says"
	if !s.fixed {
		values := make([]float64, len(items))
		for i, c := range items {
			values[i] = value(c)
		}
		least, why = dynamic(values, s.epsilon)
	}
	n, rounding := 0, 1e-12*math.Abs(least) // equal scores are all at their mean
	for n < len(items) && value(items[n]) >= least-rounding {
		n++
	}
	why = fmt.Sprintf("a score of at least %.4g, %s", least, why)
	if n == 0 {
		n, why = 1, why+"; none has that, so the best one stays"
	}
	return outcome{unit: in.unit, items: items[:n:n], dropped: drop(items[n:], fmt.Sprintf("scores less than %.4g", least)), why: why}, nil
}

// dynamic is ChunkRAG's threshold of some scores, and what it is.
func dynamic(scores []float64, epsilon float64) (least float64, why string) {
	mean, variance := 0.0, 0.0
	for _, x := range scores {
		mean += x / float64(len(scores))
	}
	for _, x := range scores {
		variance += (x - mean) * (x - mean) / float64(len(scores))
	}
	if variance < epsilon {
		return mean + math.Sqrt(variance), "their mean and one standard deviation: they hardly differ"
	}
	return mean, "their mean"
}

// byScore returns the candidates by a scorer's scores, best first and equal ones in the
// order that they had, and how to read these; without a name by their own. Where no candidate has the named score, which
// is when the question has no word that the scorer knows, their own count, too.
func byScore(items []item, name string) ([]item, func(item) float64) {
	items = slices.Clone(items)
	value := func(c item) float64 { return c.score }
	if slices.ContainsFunc(items, func(c item) bool { _, ok := c.scores[name]; return ok }) {
		value = func(c item) float64 { return c.scores[name] }
		for i := range items {
			items[i].score = value(items[i])
		}
		slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(b.score, a.score) })
	}
	return items, value
}
