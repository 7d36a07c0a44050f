package answer

// Comparison of a sentence with the spans that an extractive reader finds in its quote: where two
// parts of a quote could be the answer, the reader says which one is. Only answers of language
// models are checked.

import (
	"context"
	"strings"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

// ReaderSpan is a part of a quote that may be the answer, with its logit.
type ReaderSpan struct {
	Text  string
	Score float64
}

// ReaderVerdict is the result of the comparison.
type ReaderVerdict int

// NoVerdict: the sentence adds nothing to the question, the reader found nothing, or the sentence's
// answer scores nearly as high as the best. SameAnswer: the sentence contains the best span.
// OtherAnswer: another part of the quote is the answer.
const (
	NoVerdict ReaderVerdict = iota
	SameAnswer
	OtherAnswer
)

// Thresholds on the sum of the logits of a span's first and last token, for the shipped pack's
// reranker; see docs/questions.md.
const (
	// minLead is by how much the score of another span must exceed that of the sentence's span.
	minLead = 4.0
	// minReaderLogit is the score below which a span is no answer.
	minReaderLogit = -2.0
	// minSameLogit is the minimum score of the best span for SameAnswer.
	minSameLogit = 0.0
)

// CompareWithReader compares what a sentence adds to its question with the spans of its quote.
func CompareWithReader(sentence, question string, read []ReaderSpan) ReaderVerdict {
	if len(read) == 0 || text.ExpectedAnswerType(question) == text.AnswerYesNo {
		return NoVerdict
	}
	adds := text.Adds(sentence, question)
	if adds.Words() == 0 {
		return NoVerdict
	}
	best, own, named := read[0].Score, 0.0, false
	for _, r := range read {
		best = max(best, r.Score)
		if adds.Is(r.Text) && (!named || r.Score > own) {
			own, named = r.Score, true
		}
	}
	switch {
	case named && own >= best && best >= minSameLogit:
		return SameAnswer
	case best >= minReaderLogit && (!named || own < best-minLead):
		return OtherAnswer
	}
	return NoVerdict
}

// combineVerdicts combines the verdicts of all citations of a sentence: SameAnswer if one has it,
// OtherAnswer if all have it. A sentence that a quote contains verbatim is no other answer.
func combineVerdicts(sentence, question string, cited []int, proofs map[int]Evidence) ReaderVerdict {
	others := 0
	for _, i := range cited {
		switch view := CompareWithReader(sentence, question, proofs[i].Read); {
		case view == SameAnswer:
			return SameAnswer
		case view == OtherAnswer && !strings.Contains(proofs[i].Quote, strings.TrimSpace(sentence)):
			others++
		}
	}
	if len(cited) > 0 && others == len(cited) {
		return OtherAnswer
	}
	return NoVerdict
}

// maxShortWords is the maximum number of content words that a sentence adds and still counts as the
// short answer that a reader finds.
const maxShortWords = 12

// answers reports whether a sentence is the answer, not a detail that follows it: it is the only
// sentence, or it repeats the question.
func answers(sentence, question string, alone bool) bool {
	adds := text.Adds(sentence, question)
	return adds.Words() <= maxShortWords && (alone || adds.Repeats >= 0.5)
}

// stepRead is the step of the call to the reader.
const stepRead = "read"

// read asks the model pack's reader, through the gateway's provider that has it, for the parts of
// the citations' quotes that answer the question. If there is no reader, or it fails, proofs stay
// as they are, and the rules decide.
func (a *Answerer) read(ctx context.Context, in wire.QuestionInput, q Question, m answerRound, proofs map[int]Evidence) {
	provider := m.reply.Usage.Provider
	if provider == "" || provider == extractive || m.found.Skipped || len(proofs) == 0 || len(q.Query.Choices) > 0 {
		return
	}
	ctx, cancel := reserveTime(ctx)
	defer cancel()
	request := wire.LLMRequest{Envelope: wire.Header(), Tenant: in.Tenant, Task: wire.TaskRead, Provider: extractive, Question: q.Query.Text,
		Step: wire.Step{Question: in.Question, Round: m.round, Step: stepRead}, Versions: versionsOf(fitting(m.found.Candidates))}
	for i := range len(proofs) {
		title, _, _ := strings.Cut(proofs[i].Context, "\n")
		request.Passages = append(request.Passages, wire.LLMPassage{Title: title, Text: proofs[i].Quote})
	}
	request.Deadline, _ = ctx.Deadline()
	reply, err := a.generator.Complete(ctx, request)
	if err != nil {
		return
	}
	for _, r := range reply.Readings {
		e, ok := proofs[r.Passage]
		if !ok || r.Start < 0 || r.End > len(e.Quote) || r.Start >= r.End {
			continue
		}
		e.Read = append(e.Read, ReaderSpan{Text: e.Quote[r.Start:r.End], Score: r.Score})
		proofs[r.Passage] = e
	}
}
