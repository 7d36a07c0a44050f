package llm

// The tasks "feedback", which judges an answer that was made from passages (SAGE, section VI-A),
// and "background", which answers from a model's own knowledge (FIT-RAG, section 4.5): how their
// replies are parsed and checked.

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Prompts other than the default.
const (
	PromptExplain = "explain" // asks for an explanation of the answer (FIT-RAG)
	PromptShort   = "short"   // asks for the shortest words that answer, which EM and F1 compare
	// PromptPassage makes a rewrite a passage that would answer the question (HyDE).
	PromptPassage = "passage"
	// PromptAsk makes a rewrite a question that a text answers. The request's question is the text.
	PromptAsk = "ask"
)

// checkJudged checks the fields of a request that judging tasks and prompts use.
func checkJudged(r wire.LLMRequest) error {
	switch {
	case r.Task == wire.TaskFeedback && strings.TrimSpace(r.Answer) == "":
		return schema.Invalid("answer", "is missing: feedback needs the answer to judge")
	case r.Task == wire.TaskCorrectness:
		return checkCorrectness(r)
	case len(r.References) > 0:
		return schema.Invalid("references", "are for correctness only")
	case r.Task != wire.TaskFeedback && r.Answer != "":
		return schema.Invalid("answer", "is for feedback and correctness only")
	case r.Confidence != nil && !(*r.Confidence >= 0 && *r.Confidence <= 1):
		return schema.Invalid("confidence", "%g is not a probability from 0 to 1", *r.Confidence)
	case r.Task != wire.TaskFeedback && r.Confidence != nil:
		return schema.Invalid("confidence", "is for feedback only")
	case (r.Prompt == PromptPassage || r.Prompt == PromptAsk) && r.Task == wire.TaskRewrite:
		return nil
	case r.Prompt != "" && (r.Prompt != PromptExplain && r.Prompt != PromptShort || r.Task != wire.TaskAnswer):
		return schema.Invalid("prompt", "there is no prompt %q for %s; an answer may have: %s, %s; a rewrite: %s, %s", r.Prompt, r.Task, PromptExplain, PromptShort, PromptPassage, PromptAsk)
	}
	return nil
}

// parseFeedback parses a score from 1 to 10 and an adjustment of 1 or -1.
func parseFeedback(content string) (*wire.Feedback, bool) {
	type judged struct {
		Score  number `json:"score"`
		Adjust number `json:"adjust"`
	}
	reply, ok := parseObject[judged](content, "score")
	if !ok {
		return nil, false
	}
	f := &wire.Feedback{Score: int(reply.Score), Adjust: int(reply.Adjust)}
	return f, validFeedback(f)
}

func validFeedback(f *wire.Feedback) bool {
	return f != nil && f.Score >= 1 && f.Score <= 10 && (f.Adjust == 1 || f.Adjust == -1)
}

// parseBackground parses an answer from a model's own knowledge. It ignores the passage that the
// model writes first. An empty answer is valid.
func parseBackground(content string) (answer string, ok bool) {
	type known struct {
		Answer *string `json:"answer"`
	}
	reply, ok := parseObject[known](content, "answer")
	if !ok || reply.Answer == nil {
		return "", false
	}
	answer, _ = withoutMarks(text.Clean(*reply.Answer))
	return answer, true
}

// checkFeedback completes the reply with the judgement of an answer.
func checkFeedback(p Provider, c Completion, reply *wire.LLMReply) error {
	reply.Text = ""
	if !validFeedback(c.Feedback) {
		return fmt.Errorf("provider %s judged the answer by %+v", p.Name(), c.Feedback)
	}
	reply.Feedback = c.Feedback
	return nil
}

// checkBackground completes the reply with an answer that no document supports. It has no quotes
// and no links, and is empty if the model does not know the answer.
func checkBackground(reply *wire.LLMReply) {
	reply.Text = strings.TrimSpace(sanitize(reply.Text, nil))
}

// background refuses: a provider without a language model knows nothing by itself.
func (p *Extractive) background() (Completion, error) {
	return Completion{}, &schema.RemoteError{Code: schema.CodeInvalid, Field: "task",
		Message: "the provider extractive knows nothing by itself, so it answers from passages only"}
}

// feedback judges an answer. If the answer was read from the passages its confidence is known and
// determines the judgement: scoring the passages again would say no more, and cost as much as the
// answer. More passages are asked for if the confidence is below 0.5.
//
// Any other answer is judged by the pair model's has_answer, of the passages and of the answer's
// own text. The score is the mean of both probabilities, mapped to 1 to 10. More passages are asked
// for if no passage has an answer or at least half of them have one; fewer otherwise.
func (p *Extractive) feedback(ctx context.Context, r wire.LLMRequest) (Completion, error) {
	info, err := p.pairModel(ctx, "answers")
	if err != nil {
		return Completion{}, err
	}
	if r.Confidence != nil {
		f := wire.Feedback{Score: scoreOf(*r.Confidence), Adjust: -1}
		if *r.Confidence < 0.5 {
			f.Adjust = 1
		}
		return Completion{Model: "confidence/" + info.Pack, Feedback: &f}, nil
	}
	read := slices.Clone(r.Passages)
	refused := strings.TrimSpace(r.Answer) == schema.NoAnswer
	if !refused {
		read = append(read, wire.LLMPassage{Text: r.Answer})
	}
	chunks := splitChunks(read, info.Limits[wire.OpScore])
	out := Completion{}
	texts := inputs(r.Question, chunks, &out)
	scores, model, err := p.reader.Score(ctx, wire.LaneInteractive, r.Question, texts, false)
	if err != nil {
		return Completion{}, fmt.Errorf("judge an answer: %w", err)
	}
	if len(scores) != len(texts) {
		return Completion{}, fmt.Errorf("judge an answer: the model server gave %d scores for %d texts", len(scores), len(texts))
	}
	out.Model = "reader/" + model
	best := make([]float64, len(read))
	for i := range best {
		best[i] = math.Inf(-1)
	}
	for i, s := range chunks {
		if x := float64(scores[i].HasAnswer); !math.IsNaN(x) {
			best[s.passage] = max(best[s.passage], x)
		}
	}
	own := 0.0
	if !refused {
		own = probability(best[len(r.Passages)])
	}
	best = best[:len(r.Passages)]
	holding := 0
	for _, x := range best {
		if x >= answerable(info, wire.GraphPair) {
			holding++
		}
	}
	adjust := 1
	if holding > 0 && 2*holding < len(best) {
		adjust = -1
	}
	out.Feedback = &wire.Feedback{Score: scoreOf((probability(slices.Max(best)) + own) / 2), Adjust: adjust}
	return out, nil
}

// scoreOf maps a probability to a score from 1 to 10.
func scoreOf(chance float64) int { return 1 + int(math.Round(9*chance)) }
