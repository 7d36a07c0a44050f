package llm

// The provider "extractive" finds the spans of passages that answer, to compare them with an answer
// that a language model made.

import (
	"context"
	"fmt"

	"github.com/sluice-rag/sluice/schema/wire"
)

// readings returns the parts of the passages that may answer: for each stretch the best span and
// the next best ones that the reranker finds. It returns none if the pack has no reranker that
// finds spans, or none that knows the question's script.
func (p *Extractive) readings(ctx context.Context, r wire.LLMRequest) (Completion, error) {
	info, err := p.info(ctx)
	if err != nil {
		return Completion{}, err
	}
	out := Completion{Model: "reranker/" + info.Pack}
	if readerGraph(info, r.Question) != wire.GraphReranker {
		out.Model = "none"
		return out, nil
	}
	chunks := splitChunks(r.Passages, info.Limits[wire.OpRerank])
	if len(chunks) == 0 {
		return out, nil
	}
	chunks = chunks[:min(len(chunks), maxReranked)]
	texts := inputs(r.Question, chunks, &out)
	scores, model, err := p.reader.Rerank(ctx, wire.LaneInteractive, r.Question, texts, true)
	if err != nil {
		return Completion{}, fmt.Errorf("read %d passages: %w", len(r.Passages), err)
	}
	if len(scores) != len(texts) {
		return Completion{}, fmt.Errorf("read %d passages: the model server gave %d scores for %d texts", len(r.Passages), len(scores), len(texts))
	}
	out.Model = "reranker/" + model
	for i, s := range chunks {
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
