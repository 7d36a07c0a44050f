package llm

// This file judges an answer by reference answers: whether it says the same. docs/evaluation.md
// describes how the judgements are used.

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// checkCorrectness checks a request to judge an answer.
func checkCorrectness(r wire.LLMRequest) error {
	switch {
	case r.Step.Question != uuid.Nil:
		return schema.Invalid("step", "must not name a question: a judgement belongs to no stored one")
	case len(r.Passages) > 0:
		return schema.Invalid("passages", "must not be given: an answer is judged by its references")
	case r.Prompt != "":
		return schema.Invalid("prompt", "there is no prompt %q for %s", r.Prompt, r.Task)
	case r.Confidence != nil:
		return schema.Invalid("confidence", "is for feedback only")
	}
	return schema.AnswerToJudge{Question: r.Question, References: r.References, Answer: r.Answer}.Check()
}

// flexibleBool is a boolean, which some models write as text, or as 1 or 0.
type flexibleBool bool

func (v *flexibleBool) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = string(data)
	}
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "true", "1":
		*v = true
	case "false", "0":
		*v = false
	default:
		return fmt.Errorf("%.20s is neither true nor false", data)
	}
	return nil
}

// parseCorrectness parses the judgement whether an answer is right.
func parseCorrectness(content string) (*bool, bool) {
	type judged struct {
		Correct *flexibleBool `json:"correct"`
	}
	reply, ok := parseObject[judged](content, "correct")
	if !ok || reply.Correct == nil {
		return nil, false
	}
	correct := bool(*reply.Correct)
	return &correct, true
}
