package llm

// The form of each reply as a JSON Schema, for servers that can constrain a model to one. The
// prompts say the same in words.

import (
	"fmt"
	"strings"

	"github.com/sluice-rag/sluice/schema/wire"
)

// formOf returns the JSON Schema of the reply to a request. The members are in the order in which
// the model is to write them. An answer comes first, because it is streamed.
func formOf(r wire.LLMRequest) string {
	const text = `{"type":"string"}`
	switch {
	case r.Task == wire.TaskFilter:
		return scoresForm(len(r.Passages), `{"type":"integer","enum":[0,1]}`)
	case r.Task.Judges():
		return scoresForm(len(r.Passages), `{"type":"number","minimum":0,"maximum":1}`)
	case r.Task == wire.TaskFeedback:
		return objectForm("score", `{"type":"integer","minimum":1,"maximum":10}`,
			"adjust", `{"type":"integer","enum":[1,-1]}`)
	case r.Task == wire.TaskCorrectness:
		return objectForm("correct", `{"type":"boolean"}`)
	case r.Task == wire.TaskBackground:
		return objectForm("background", text, "answer", text)
	case r.Task == wire.TaskRewrite && r.Prompt == PromptPassage:
		return objectForm(PromptPassage, text)
	case r.Task == wire.TaskRewrite:
		return objectForm("question", text)
	}
	citation := objectForm("sentence", `{"type":"integer","minimum":1}`,
		"passage", fmt.Sprintf(`{"type":"integer","minimum":1,"maximum":%d}`, len(r.Passages)), "quote", text)
	citations := fmt.Sprintf(`{"type":"array","maxItems":%d,"items":%s}`, maxCitations, citation)
	if len(r.Choices) == 0 {
		return objectForm("answer", text, "citations", citations)
	}
	letters := []string{`""`}
	for i := range r.Choices {
		letters = append(letters, `"`+letter(i)+`"`)
	}
	choice := `{"type":"string","enum":[` + strings.Join(letters, ",") + `]}`
	return objectForm("answer", text, "choice", choice, "citations", citations)
}

// maxCitations is how many citations the prompts ask for.
const maxCitations = 5

func scoresForm(n int, score string) string {
	return objectForm("scores", fmt.Sprintf(`{"type":"array","minItems":%d,"maxItems":%[1]d,"items":%s}`, n, score))
}

// objectForm returns the schema of an object with exactly these members. members has a name and a
// schema for each.
func objectForm(members ...string) string {
	var properties, names []string
	for i := 0; i < len(members); i += 2 {
		properties = append(properties, fmt.Sprintf("%q:%s", members[i], members[i+1]))
		names = append(names, fmt.Sprintf("%q", members[i]))
	}
	return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false}`,
		strings.Join(properties, ","), strings.Join(names, ","))
}
