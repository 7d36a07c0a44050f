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
	empty   bool // it may drop all candidates
}

var thresholdKind = Kind{
	Name:       "threshold",
	Parameters: "`score`, `epsilon` (0.0001), or `at`; `empty` (false)",
	Does:       "selects: what scores at least the mean of all, or one standard deviation more where their variance is under `epsilon` (ChunkRAG, Algorithm 1); or at least `at`. The best one stays unless `empty`, and so does what has no such score",
	Selects:    true,
	read:       readThreshold,
}

// readThreshold reads the stage "threshold":
//
//	threshold: {score: relevance, epsilon: 0.0001}
//	threshold: {score: relevance, at: 0.5}
//
// Keeps the candidates with a score of at least at, if it is given, or else of ChunkRAG's dynamic
// threshold (Algorithm 1, lines 19 to 22): the mean of the scores, or one standard deviation more
// if their variance is below epsilon. If no score reaches it, the best candidate stays, except with
// empty: true, as in SAKI-RAG, where an empty result is valid. score names the scorer whose scores
// count; by default those of the previous stage. A candidate without that score is kept: a failed
// judgement drops nothing.
func readThreshold(p *Parameters) Stage {
	s := dynamicThreshold{score: p.Text("score", false), empty: p.bool("empty")}
	if _, s.fixed = p.values["at"]; s.fixed {
		s.at = p.number("at", 0, -1e6, 1e6)
	} else {
		s.epsilon = p.number("epsilon", 1e-4, 0, 1e6)
	}
	return Stage{Fit: fitSelection, Reads: s.score, run: s.run}
}

func (s dynamicThreshold) run(_ context.Context, _ *Task, in Candidates) (outcome, error) {
	items, value, unscored := byScore(in.items, s.score)
	if len(items) == 0 {
		return keepAll(in, s.score), nil
	}
	minimum, why := s.at, "as the plan says"
	if !s.fixed {
		values := make([]float64, len(items))
		for i, c := range items {
			values[i] = value(c)
		}
		minimum, why = dynamic(values, s.epsilon)
	}
	n, rounding := 0, 1e-12*math.Abs(minimum) // with tolerance, since equal scores must all reach their mean
	for n < len(items) && value(items[n]) >= minimum-rounding {
		n++
	}
	why = fmt.Sprintf("a score of at least %.4g, %s", minimum, why)
	if n == 0 && !s.empty {
		n, why = 1, why+"; none has that, so the best one stays"
	}
	return outcome{unit: in.unit, items: mergeUnjudged(items[:n:n], unscored), dropped: drop(items[n:], fmt.Sprintf("scores less than %.4g", minimum)),
		why: join(why, unscoredNote(unscored, s.score))}, nil
}

// dynamic returns ChunkRAG's threshold for some scores, and a description of it.
func dynamic(scores []float64, epsilon float64) (minimum float64, why string) {
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

// byScore returns the candidates ranked by a scorer's scores, ties in their previous order, and a
// function that returns that score; without a name it is their current score. Candidates without
// the named score, because a judgement failed or the scorer knows no word of the question, are
// returned in unscored by their index.
func byScore(items []item, name string) (ranked []item, value func(item) float64, unscored map[int]item) {
	if name == "" {
		return slices.Clone(items), func(c item) float64 { return c.score }, nil
	}
	value, unscored = func(c item) float64 { x, _ := c.scores.of(name); return x }, map[int]item{}
	for i, c := range items {
		if _, has := c.scores.of(name); !has {
			unscored[i] = c
			continue
		}
		c.score = value(c)
		ranked = append(ranked, c)
	}
	slices.SortStableFunc(ranked, func(a, b item) int { return cmp.Compare(b.score, a.score) })
	return ranked, value, unscored
}

// keepAll returns all candidates: the outcome of selecting by a score that none of them has.
func keepAll(in Candidates, name string) outcome {
	out := outcome{unit: in.unit, items: in.items}
	if len(in.items) > 0 {
		out.why = fmt.Sprintf("no candidate has a score of %s, so nothing is cut", name)
	}
	return out
}

// unscoredNote says in a report how many candidates are kept because they have no score.
func unscoredNote(unscored map[int]item, name string) string {
	if len(unscored) == 0 {
		return ""
	}
	return fmt.Sprintf("%d have no score of %s and pass", len(unscored), name)
}
