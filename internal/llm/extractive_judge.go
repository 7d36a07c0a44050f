package llm

// Judgements of the provider "extractive": the heads of the pair model take the place of a language
// model's judgements, each as a probability.

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// pairModel returns the model pack that judges. It returns an error that names what would be judged
// if the pack has no pair graph.
func (p *Extractive) pairModel(ctx context.Context, what string) (info wire.ModelInfo, err error) {
	if info, err = p.info(ctx); err != nil {
		return info, err
	}
	if !slices.Contains(info.Operations, wire.OpScore) {
		return info, &schema.RemoteError{Code: schema.CodeUnavailable,
			Message: "cannot judge " + what + ": the model pack has no pair graph, and no language model is set (SLUICE_LLM_BASE_URL)"}
	}
	return info, nil
}

// judge scores each passage with the question. The task relevance uses the head of that name,
// reflect the head for whether the text has the answer, critic the head for whether our own reader
// answers better with it. filter returns 1 if the logit of has_answer reaches the threshold from
// which a passage answers. A passage that is read in pieces gets the score of its best piece.
func (p *Extractive) judge(ctx context.Context, r wire.LLMRequest) (Completion, error) {
	info, err := p.pairModel(ctx, "passages")
	if err != nil {
		return Completion{}, err
	}
	chunks := splitChunks(r.Passages, info.Limits[wire.OpScore])
	out := Completion{Model: "reader/" + info.Pack, Scores: make([]float64, len(r.Passages))}
	if len(chunks) == 0 {
		return out, nil
	}
	texts := inputs(r.Question, chunks, &out)
	scores, model, err := p.reader.Score(ctx, wire.LaneInteractive, r.Question, texts, false)
	if err != nil {
		return Completion{}, fmt.Errorf("judge %d passages: %w", len(r.Passages), err)
	}
	if len(scores) != len(texts) {
		return Completion{}, fmt.Errorf("judge %d passages: the model server gave %d scores for %d texts", len(r.Passages), len(scores), len(texts))
	}
	out.Model = "reader/" + model
	for i, s := range chunks {
		out.Scores[s.passage] = max(out.Scores[s.passage], judgement(r.Task, scores[i], answerable(info, wire.GraphPair)))
	}
	return out, nil
}

// judgement returns the score of a text for a task, from 0 to 1.
func judgement(task wire.LLMTask, x wire.PairScore, answers float64) float64 {
	logit := float64(x.Relevance)
	switch task {
	case wire.TaskReflect:
		logit = float64(x.HasAnswer)
	case wire.TaskCritic:
		logit = float64(x.LLMPrefer)
	case wire.TaskFilter:
		if float64(x.HasAnswer) >= answers {
			return 1
		}
		return 0
	}
	if math.IsNaN(logit) {
		return 0
	}
	return probability(logit)
}
