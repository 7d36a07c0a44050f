package calibrate

// This file finds the thresholds of the has_answer logits of the pair model and of the reranker.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// rerankDepth is how many passages the reranker gets, the best by the pair model.
	rerankDepth = 8
	// answerDepth is how many of a question's passages an answer comes from.
	answerDepth = 10
	// maxUnanswered is the share of the answerable questions that may stay unanswered.
	maxUnanswered = 0.1
	// minArea is the area under the ROC curve from which scores are informative.
	minArea = 0.6
)

// PairThresholds are the thresholds of a pair model's or a reranker's logits.
type PairThresholds struct {
	// HasAnswer is the logit from which a text among BM25's best 50 (for a reranker: among the pair
	// model's best 8) contains the answer more likely than not: the equivalent of FIT-RAG's delta.
	HasAnswer float64 `json:"has_answer"`
	// Answerable is the value that the highest logit of ten passages (for a reranker: of eight)
	// reaches for nine of ten questions that they answer.
	Answerable float64 `json:"answerable"`
	// Refused is the share of questions below Answerable when the passages with the answer are
	// removed.
	Refused float64 `json:"refused"`
	// Area is the area under the ROC curve over the texts.
	Area  float64 `json:"area"`
	Texts int     `json:"texts"`
}

// read is a logit, and whether its text contains an answer.
type read struct {
	logit float64
	holds bool
}

// thresholds computes the thresholds from the logits of each question's texts.
func thresholds(all [][]read, best int) (PairThresholds, error) {
	var logits, with, without []float64
	var holds []bool
	for _, q := range all {
		highest, other := math.Inf(-1), math.Inf(-1)
		answers, others := false, false
		for i, x := range q {
			logits, holds = append(logits, x.logit), append(holds, x.holds)
			if i >= best {
				continue
			}
			highest = max(highest, x.logit)
			if x.holds {
				answers = true
			} else {
				others, other = true, max(other, x.logit)
			}
		}
		if answers {
			with = append(with, highest)
		}
		if answers && others {
			without = append(without, other)
		}
	}
	if len(with) == 0 {
		return PairThresholds{}, schema.Invalid("dataset", "BM25 finds no passage with an answer for any of the questions")
	}
	line, err := platt(logits, holds)
	if err != nil {
		return PairThresholds{}, err
	}
	out := PairThresholds{HasAnswer: line.at(0.5), Answerable: quantile(with, maxUnanswered), Area: area(logits, holds), Texts: len(logits)}
	for _, x := range without {
		if x < out.Answerable {
			out.Refused += 1 / float64(len(without))
		}
	}
	return out, nil
}

// usable drops thresholds of uninformative scores, with a note.
func (r *run) usable(t PairThresholds, err error, what string) (*PairThresholds, error) {
	switch {
	case errors.Is(err, errNotFitted):
		r.found.note("%s: its scores are the same whether a text holds an answer or not; it keeps its thresholds", what)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("calibrate %s: %w", what, err)
	case t.Area < minArea:
		r.found.note("%s: its scores hardly tell texts with an answer from others (area under the ROC curve %.2f); it keeps its thresholds", what, t.Area)
		return nil, nil
	}
	return &t, nil
}

// pair scores every candidate with the pair model.
func (r *run) pair(ctx context.Context) error {
	if !r.has(wire.OpScore, "the pair model") {
		return nil
	}
	var all [][]read
	err := r.each(ctx, "pair model", func(q *question) error {
		positions := indices(len(q.best))
		scores, err := r.scores(ctx, r.models.Score, q, positions)
		if err != nil {
			return err
		}
		var texts []read
		q.ranked = positions
		for i, s := range scores {
			texts = append(texts, read{float64(s.HasAnswer), q.holds[i]})
		}
		slices.SortStableFunc(q.ranked, func(a, b int) int { return cmp.Compare(scores[b].Relevance, scores[a].Relevance) })
		all = append(all, texts)
		return nil
	})
	if err != nil {
		return err
	}
	t, err := thresholds(all, answerDepth)
	r.found.Pair, err = r.usable(t, err, "the pair model")
	return err
}

// reranker scores the best candidates with the reranker.
func (r *run) reranker(ctx context.Context) error {
	if !r.has(wire.OpRerank, "the reranker") {
		return nil
	}
	var all [][]read
	err := r.each(ctx, "reranker", func(q *question) error {
		positions := q.bestPositions(rerankDepth)
		scores, err := r.scores(ctx, r.models.Rerank, q, positions)
		if err != nil {
			return err
		}
		var texts []read
		for i, s := range scores {
			texts = append(texts, read{float64(s.HasAnswer), q.holds[positions[i]]})
		}
		all = append(all, texts)
		return nil
	})
	if err != nil {
		return err
	}
	t, err := thresholds(all, rerankDepth)
	r.found.Reranker, err = r.usable(t, err, "the reranker")
	return err
}

// bestPositions returns the positions of a question's n best candidates, by the pair model or else
// BM25.
func (q *question) bestPositions(n int) []int {
	best := q.ranked
	if best == nil {
		best = indices(len(q.best))
	}
	return best[:min(n, len(best))]
}

// scores returns the scores of some of a question's candidates.
func (r *run) scores(ctx context.Context, by func(context.Context, wire.Lane, string, []string, bool) ([]wire.PairScore, string, error),
	q *question, positions []int) ([]wire.PairScore, error) {
	return scoreTexts(ctx, by, q.text, r.sample.inputs(q, positions))
}

func scoreTexts(ctx context.Context, by func(context.Context, wire.Lane, string, []string, bool) ([]wire.PairScore, string, error),
	question string, texts []string) ([]wire.PairScore, error) {
	// With spans, as answers are read: without them a reranker may estimate the scores.
	scores, _, err := by(ctx, wire.LaneBulk, question, texts, true)
	if err == nil && len(scores) != len(texts) {
		err = fmt.Errorf("the model server gave %d scores for %d texts", len(scores), len(texts))
	}
	return scores, err
}

// indices returns the numbers from 0 to n-1.
func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}
