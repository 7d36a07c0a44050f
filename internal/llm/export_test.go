package llm

import "github.com/sluice-rag/sluice/schema/wire"

// StreamAnswer returns a function that takes the pieces of a reply. It calls onText with the
// answer's text.
func StreamAnswer(onText func(string)) func(piece string) {
	v := answerStream{onDelta: func(d wire.LLMDelta) { onText(d.Text) }}
	v.begin()
	return v.add
}
