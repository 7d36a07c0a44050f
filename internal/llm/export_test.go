package llm

import "github.com/sluice-rag/sluice/schema/wire"

// HearAnswer returns a function that takes the pieces of a reply. It calls say with the answer's
// text.
func HearAnswer(say func(string)) func(piece string) {
	v := answerStream{say: func(d wire.LLMDelta) { say(d.Text) }}
	v.begin()
	return v.add
}
