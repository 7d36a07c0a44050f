package llm

// The provider "extractive" has no language model. It quotes the sentences of the passages that
// answer best. If the model pack can find answers, reader.go uses it. Otherwise this file scores
// every sentence against the question by the embeddings of the model server and by shared words.
// The provider answers when no key is set, and it cannot say anything that is not in the documents.

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Encoder makes vectors of texts. The model server implements it.
type Encoder interface {
	// EncodeQuery returns the unit vectors of a question and of the passages, in this order, and
	// the name of their space. A text without a word that the model knows has a zero vector.
	EncodeQuery(ctx context.Context, lane wire.Lane, question string, passages []string) (wire.Vectors, string, error)
}

const extractiveName = "extractive"

// Extractive is the provider "extractive".
type Extractive struct {
	encoder Encoder
	reader  Reader
}

// NewExtractive makes the provider; without a reader it scores sentences.
func NewExtractive(e Encoder, r Reader) *Extractive { return &Extractive{encoder: e, reader: r} }

// Name implements Provider.
func (*Extractive) Name() string { return extractiveName }

// The weights and the threshold were measured on 1,500 questions of SQuAD's training set, each
// against the ten nearest of 4,199 passages of 50 articles, with the shipped model pack. The best
// sentence contains the answer in 73 % of the cases (67 % by embeddings alone, 70 % by words
// alone). With the article removed, so that nothing fits, 82 % of the questions are refused; of
// those whose answer is among the passages 93 % are answered. The encoder was trained on such
// questions, so other text may do worse.
const (
	// lexicalWeight is the share of shared words in a sentence's score; the
	// rest is the embeddings' similarity.
	lexicalWeight = 0.35
	// rankBonus is added to the score of a sentence in the first passage, half of it in the second,
	// a third of it in the third, and so on: retrieval saw more than a sentence.
	rankBonus = 0.1
	// minScore is the score from which a sentence answers.
	minScore = 0.425
	// minRelativeScore is the share of the best score that a further sentence needs.
	minRelativeScore = 0.85
	// maxSentences bounds an answer, maxScored the sentences that are scored for it.
	maxSentences = 3
	maxScored    = 512
	// minNewWords is how many words that are not in the question a sentence needs: a heading that
	// repeats the question answers nothing.
	minNewWords = 1
)

// sentence is a sentence that may answer.
type sentence struct {
	quote wire.Quote
	body  string
	terms map[string]bool
	score float64
}

// Complete implements Provider.
func (p *Extractive) Complete(ctx context.Context, r wire.LLMRequest) (Completion, error) {
	switch {
	case r.Task == wire.TaskRewrite && r.Prompt == PromptAsk:
		return Completion{}, &schema.RemoteError{Code: schema.CodeInvalid, Field: "prompt", Message: "the provider extractive writes no questions"}
	case r.Task == wire.TaskRewrite: // it cannot rephrase
		return Completion{Model: "none", Text: r.Question}, nil
	case r.Task.Judges():
		return p.judge(ctx, r)
	case r.Task == wire.TaskRead:
		return p.readings(ctx, r)
	case r.Task == wire.TaskFeedback:
		return p.feedback(ctx, r)
	case r.Task == wire.TaskBackground:
		return p.background()
	case r.Task == wire.TaskCorrectness:
		return Completion{}, &schema.RemoteError{Code: schema.CodeInvalid, Field: "provider",
			Message: "the provider extractive has no language model, which judging an answer needs: set one up (SLUICE_LLM_BASE_URL or a key)"}
	}
	info, err := p.info(ctx)
	if err != nil {
		return Completion{}, err
	}
	graph := readerGraph(info, r.Question)
	switch {
	case len(r.Choices) > 0: // the weights were measured with the pair model
		return p.pickChoice(ctx, r, info, pairReads(info))
	case graph != "":
		return p.read(ctx, r, info, graph)
	}
	return p.quote(ctx, r, text.InScripts(r.Question, info.Scripts[wire.OpEncode]))
}

// info returns what the model pack can do: nothing if there is no reader.
func (p *Extractive) info(ctx context.Context) (wire.ModelInfo, error) {
	if p.reader == nil {
		return wire.ModelInfo{}, nil
	}
	info, err := p.reader.Info(ctx)
	if err != nil {
		return info, fmt.Errorf("ask what the model pack can do: %w", err)
	}
	return info, nil
}

// quote answers by the best sentences. scriptShare is how well the encoder knows the question's
// script, from 0 to 1, and scales the weight of the vectors.
func (p *Extractive) quote(ctx context.Context, r wire.LLMRequest, scriptShare float64) (Completion, error) {
	out := Completion{Model: "sentences"}
	question := text.ContentWords(r.Question)
	found := candidates(r.Passages, question)
	if len(found) == 0 {
		return out, nil
	}
	texts := make([]string, 0, len(found)+1)
	texts = append(texts, r.Question)
	for _, s := range found {
		texts = append(texts, s.body)
	}
	vectors, space, err := p.encoder.EncodeQuery(ctx, wire.LaneInteractive, texts[0], texts[1:])
	if err != nil {
		return Completion{}, fmt.Errorf("encode the passages' sentences: %w", err)
	}
	if vectors.Len() != len(texts) {
		return Completion{}, fmt.Errorf("encode the passages' sentences: %d vectors for %d texts", vectors.Len(), len(texts))
	}
	out.Model = "sentences/" + space
	for _, t := range texts {
		out.InputTokens += text.CountTokens(t)
	}
	share := sharedWords(question, found)
	for i := range found {
		found[i].score = (1-lexicalWeight)*scriptShare*max(0, dot(vectors.Row(0), vectors.Row(i+1))) + lexicalWeight*share[i] +
			rankBonus/float64(1+found[i].quote.Passage)
	}
	best := pick(found)
	bodies := make([]string, len(best))
	for i, s := range best {
		out.Quotes = append(out.Quotes, s.quote)
		bodies[i] = s.body
	}
	out.Text, out.Sentences = quotedText(bodies)
	out.OutputTokens = text.CountTokens(out.Text)
	return out, nil
}

// quotedText joins quotes to an answer, of which each sentence is proved by its own quote.
func quotedText(bodies []string) (string, []wire.ReplySentence) {
	out := strings.Join(bodies, " ")
	var sentences []wire.ReplySentence
	start := 0
	for i, body := range bodies {
		end := min(start+len(body)+1, len(out)) // with the space after it
		sentences = append(sentences, wire.ReplySentence{Start: start, End: end, Quotes: []int{i}})
		start = end
	}
	return out, sentences
}

// candidates returns the sentences that may answer, equal texts once.
func candidates(passages []wire.LLMPassage, question map[string]bool) []sentence {
	var out []sentence
	seen := map[string]bool{}
	for i, p := range passages {
		for _, r := range text.Sentences(p.Text) {
			r = text.Trim(p.Text, r)
			body := r.Of(p.Text)
			words := text.ContentWords(body)
			// The number of a heading or a list item does not count as a word.
			if content := text.ContentWords(strings.TrimLeft(body, "0123456789.-# ")); seen[body] || len(content)-common(content, question) < minNewWords {
				continue
			}
			seen[body] = true
			out = append(out, sentence{quote: wire.Quote{Passage: i, Start: r.Start, End: r.End}, body: body, terms: words})
			if len(out) == maxScored {
				return out
			}
		}
	}
	return out
}

func common(a, b map[string]bool) int {
	n := 0
	for w := range a {
		if b[w] {
			n++
		}
	}
	return n
}

// sharedWords returns, for each sentence, the weighted share of the question's words that it
// contains. Rarer words weigh more. A word that no sentence contains weighs most, so that passages
// about something else score low.
func sharedWords(question map[string]bool, found []sentence) []float64 {
	weights, total := map[string]float64{}, 0.0
	n := float64(len(found))
	for w := range question {
		df := 0.0
		for _, s := range found {
			if s.terms[w] {
				df++
			}
		}
		weights[w] = math.Log(1 + (n-df+0.5)/(df+0.5))
		total += weights[w]
	}
	out := make([]float64, len(found))
	if total == 0 {
		return out
	}
	for i, s := range found {
		for w := range question {
			if s.terms[w] {
				out[i] += weights[w]
			}
		}
		out[i] /= total
	}
	return out
}

// pick returns the best sentences, best first, or none if the best score is below minScore.
func pick(found []sentence) []sentence {
	ranked := slices.Clone(found)
	slices.SortStableFunc(ranked, func(a, b sentence) int { return cmp.Compare(b.score, a.score) })
	if ranked[0].score < minScore {
		return nil
	}
	n := 1
	for n < min(len(ranked), maxSentences) && ranked[n].score >= max(minScore, minRelativeScore*ranked[0].score) {
		n++
	}
	return ranked[:n]
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}
