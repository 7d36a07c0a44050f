package llm

// Judgements of the provider "extractive": the pair model's heads stand in for
// what a language model would say, each as a probability.

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// pairModel says which model pack judges what is named; one without a pair graph
// judges nothing.
func (p *Extractive) pairModel(ctx context.Context, what string) (info wire.ModelInfo, err error) {
	if info, err = p.info(ctx); err != nil {
		return info, err
	}
	if !slices.Contains(info.Operations, wire.OpScore) {
		return info, &schema.RemoteError{Code: schema.CodeUnavailable,
			Message: "nothing judges " + what + " here: the model pack has no pair graph, and no language model is set (SLUICE_LLM_BASE_URL)"}
	}
	return info, nil
}

// judge reads each passage with the question: relevance is the head of that name,
// reflect the one that says whether the answer is in the text, critic the one that
// says whether our own reader answers better with it. A passage that is
// read in pieces counts as its best one. filter says 1 from the has_answer on from
// which a passage answers.
func (p *Extractive) judge(ctx context.Context, r wire.LLMRequest) (Completion, error) {
	info, err := p.pairModel(ctx, "passages")
	if err != nil {
		return Completion{}, err
	}
	stretches := stretchesOf(r.Passages, info.Limits[wire.OpScore])
	out := Completion{Model: "reader/" + info.Pack, Scores: make([]float64, len(r.Passages))}
	if len(stretches) == 0 {
		return out, nil
	}
	texts := inputs(r.Question, stretches, &out)
	scores, model, err := p.reader.Score(ctx, wire.LaneInteractive, r.Question, texts, false)
	if err != nil {
		return Completion{}, fmt.Errorf("judge %d passages: %w", len(r.Passages), err)
	}
	if len(scores) != len(texts) {
		return Completion{}, fmt.Errorf("judge %d passages: the model server gave %d scores for %d texts", len(r.Passages), len(scores), len(texts))
	}
	out.Model = "reader/" + model
	for i, s := range stretches {
		out.Scores[s.passage] = max(out.Scores[s.passage], judgement(r.Task, scores[i], answerable(info, wire.GraphPair)))
	}
	return out, nil
}

// judgement is what a text's scores say for a task, from 0 to 1.
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
