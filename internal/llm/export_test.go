package llm

import "github.com/sluice-rag/sluice/schema/wire"

// HearAnswer returns what takes the pieces of a reply and says its answer.
func HearAnswer(say func(string)) func(piece string) {
	v := answerStream{say: func(d wire.LLMDelta) { say(d.Text) }}
	v.begin()
	return v.add
}
