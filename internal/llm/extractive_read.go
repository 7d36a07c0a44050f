package llm

// What the provider "extractive" reads in passages for others: an answer that a language
// model made is compared with it.

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/schema/wire"
)

// readings names the parts of the passages that may answer: of each stretch the best and the next
// best that the reranker finds. A pack without a reranker that reads, or one that does not know the
// question's script, reads nothing.
func (p *Extractive) readings(ctx context.Context, r wire.LLMRequest) (Completion, error) {
	info, err := p.info(ctx)
	if err != nil {
		return Completion{}, err
	}
	out := Completion{Model: "reranker/" + info.Pack}
	if readsBy(info, r.Question) != wire.GraphReranker {
		out.Model = "none"
		return out, nil
	}
	stretches := stretchesOf(r.Passages, info.Limits[wire.OpRerank])
	if len(stretches) == 0 {
		return out, nil
	}
	stretches = stretches[:min(len(stretches), maxReranked)]
	texts := inputs(r.Question, stretches, &out)
	scores, model, err := p.reader.Rerank(ctx, wire.LaneInteractive, r.Question, texts, true)
	if err != nil {
		return Completion{}, fmt.Errorf("read %d passages: %w", len(r.Passages), err)
	}
	if len(scores) != len(texts) {
		return Completion{}, fmt.Errorf("read %d passages: the model server gave %d scores for %d texts", len(r.Passages), len(scores), len(texts))
	}
	out.Model = "reranker/" + model
	for i, s := range stretches {
		if scores[i].Answer == nil {
			continue
		}
		body := r.Passages[s.passage].Text
		for _, a := range append([]wire.AnswerSpan{*scores[i].Answer}, scores[i].Others...) {
			if at := s.rangeInPassage(body, a); at.Start < at.End {
				out.Readings = append(out.Readings, wire.Reading{Passage: s.passage, Start: at.Start, End: at.End, Score: float64(a.Score)})
			}
		}
	}
	return out, nil
}
