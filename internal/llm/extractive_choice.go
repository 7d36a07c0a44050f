package llm

// The provider "extractive" on questions with choices. The evidence for a choice comes from the
// pair model, which scores the passages for the question alone and for the question followed by the
// choice, and from the sentences that contain the choice's words. Without a pair model the vectors
// of the question with the choice take its place.

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Weights of the evidence for a choice, measured by `bench answers`; see docs/questions.md.
const (
	// spanChoiceWeight: the words of the choice overlap the span that answers the question.
	spanChoiceWeight = 2.0
	// readChoiceWeight: a passage answers the question followed by the choice; a logit.
	readChoiceWeight = 0.25
	// wordsChoiceWeight: a sentence of a passage that answers has the words of the choice and of
	// the question.
	wordsChoiceWeight = 3.0
)

// choiceText is a choice with the evidence for it.
type choiceText struct {
	body  string
	words map[string]bool
	value float64
	best  float64 // of the sentence to quote
	quote wire.Quote
	found bool
}

// pickChoice answers by the choice with the most evidence, and quotes the best sentence for it.
func (p *Extractive) pickChoice(ctx context.Context, r wire.LLMRequest, info wire.ModelInfo, reads bool) (Completion, error) {
	chunks := splitChunks(r.Passages, info.Limits[wire.OpScore])
	out := Completion{Model: "choices/" + info.Pack}
	if len(chunks) == 0 {
		return out, nil
	}
	choices := make([]choiceText, len(r.Choices))
	for i, c := range r.Choices {
		choices[i] = choiceText{body: strings.TrimSpace(c), words: text.ContentWords(c)}
	}
	texts := inputs(r.Question, chunks, &out)
	var answers []float64 // of each chunk, how likely it answers the question
	var err error
	if reads {
		answers, err = p.readChoices(ctx, r, choices, chunks, texts, &out)
	} else {
		answers, err = p.encodeChoices(ctx, r, choices, chunks, &out)
	}
	if err != nil {
		return Completion{}, fmt.Errorf("weigh %d choices against %d passages: %w", len(choices), len(r.Passages), err)
	}
	weighSentences(r, choices, chunks, answers)
	best := 0
	for i := range choices {
		if choices[i].value > choices[best].value {
			best = i
		}
	}
	c := choices[best]
	if !c.found { // no sentence has a word of the choice
		return out, nil
	}
	out.Choice, out.Text, out.Quotes = best+1, c.body, []wire.Quote{c.quote}
	out.Sentences = []wire.ReplySentence{{End: len(c.body), Quotes: []int{0}}}
	out.OutputTokens = text.CountTokens(out.Text)
	return out, nil
}

// readChoices weighs choices by the pair model. It returns the probability that each chunk answers
// the question.
func (p *Extractive) readChoices(ctx context.Context, r wire.LLMRequest, choices []choiceText, chunks []chunk, texts []string, out *Completion) ([]float64, error) {
	scores, model, err := p.reader.Score(ctx, wire.LaneInteractive, r.Question, texts, true)
	if err == nil && len(scores) != len(texts) {
		err = fmt.Errorf("the model server gave %d scores for %d texts", len(scores), len(texts))
	}
	if err != nil {
		return nil, err
	}
	out.Model = "choices/" + model
	chances := make([]float64, len(chunks))
	for i, s := range scores {
		chances[i] = probability(finite(float64(s.HasAnswer)))
		if s.Answer == nil || s.Answer.Start < 0 || s.Answer.End > len(texts[i]) || s.Answer.Start >= s.Answer.End {
			continue
		}
		span := text.ContentWords(texts[i][s.Answer.Start:s.Answer.End])
		for j := range choices {
			choices[j].value = max(choices[j].value, spanChoiceWeight*chances[i]*overlap(span, choices[j].words))
		}
	}
	for j := range choices {
		asked := r.Question + " " + choices[j].body
		with, _, err := p.reader.Score(ctx, wire.LaneInteractive, asked, texts, false)
		if err == nil && len(with) != len(texts) {
			err = fmt.Errorf("the model server gave %d scores for %d texts", len(with), len(texts))
		}
		if err != nil {
			return nil, err
		}
		best := math.Inf(-1)
		for _, s := range with {
			best = max(best, finite(float64(s.Relevance)))
		}
		choices[j].value += readChoiceWeight * best
		out.InputTokens += len(texts) * text.CountTokens(choices[j].body)
	}
	return chances, nil
}

// encodeChoices weighs choices by vectors. It returns the similarity of each chunk to the question.
func (p *Extractive) encodeChoices(ctx context.Context, r wire.LLMRequest, choices []choiceText, chunks []chunk, out *Completion) ([]float64, error) {
	texts := []string{r.Question}
	for _, c := range choices {
		texts = append(texts, r.Question+" "+c.body)
	}
	for _, s := range chunks {
		texts = append(texts, s.piece.Of(r.Passages[s.passage].Text))
	}
	vectors, space, err := p.encoder.EncodeQuery(ctx, wire.LaneInteractive, texts[0], texts[1:])
	if err == nil && vectors.Len() != len(texts) {
		err = fmt.Errorf("%d vectors for %d texts", vectors.Len(), len(texts))
	}
	if err != nil {
		return nil, err
	}
	out.Model = "choices/" + space
	near := make([]float64, len(chunks))
	for i := range chunks {
		row := vectors.Row(1 + len(choices) + i)
		near[i] = max(0, dot(vectors.Row(0), row))
		for j := range choices {
			choices[j].value = max(choices[j].value, dot(vectors.Row(1+j), row))
		}
	}
	return near, nil
}

// weighSentences weighs choices by the sentences that contain their words, and finds the sentence
// to quote for each.
func weighSentences(r wire.LLMRequest, choices []choiceText, chunks []chunk, answers []float64) {
	question := text.ContentWords(r.Question)
	words := make([]float64, len(choices))
	for i, s := range chunks {
		body := r.Passages[s.passage].Text
		for _, sentence := range text.Sentences(s.piece.Of(body)) {
			sentence = text.Trim(body, text.Range{Start: s.piece.Start + sentence.Start, End: s.piece.Start + sentence.End})
			if sentence.Start >= sentence.End {
				continue
			}
			has := text.ContentWords(sentence.Of(body))
			asked := share(question, has)
			for j := range choices {
				overlap := share(choices[j].words, has)
				if len(choices[j].words) == 0 && strings.Contains(sentence.Of(body), choices[j].body) {
					overlap = 1
				}
				value := answers[i] * overlap * (0.25 + 0.75*asked)
				words[j] = max(words[j], value)
				if overlap > 0 && value > choices[j].best {
					choices[j].best, choices[j].found = value, true
					choices[j].quote = wire.Quote{Passage: s.passage, Start: sentence.Start, End: sentence.End}
					if at := strings.Index(sentence.Of(body), choices[j].body); at >= 0 {
						choices[j].quote.Answer = wire.QuoteAnswer{Start: sentence.Start + at, End: sentence.Start + at + len(choices[j].body), Confidence: answers[i]}
					}
				}
			}
		}
	}
	for j := range choices {
		choices[j].value += wordsChoiceWeight * words[j]
	}
}

// share returns the part of a that is in b.
func share(a, b map[string]bool) float64 {
	if len(a) == 0 {
		return 0
	}
	return float64(common(a, b)) / float64(len(a))
}

// finite returns a logit, or -100 if x is not finite.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return -100
	}
	return x
}
