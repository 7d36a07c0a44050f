package answer

// This file compares a sentence with what a model reads in a quote: where two parts of a quote could answer, words do not
// tell which of them is the question's answer, and a reader does. It is asked only of answers that a language model made.

import (
	"context"
	"strings"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Reading is a part of a quote that may answer, with its logit.
type Reading struct {
	Text  string
	Score float64
}

// View is what a reading says of a sentence.
type View int

// NoView says nothing: there is nothing that the sentence adds, nothing was read, or the sentence's answer is nearly as good as the
// best. SameAnswer says that the sentence gives what reads best, OtherAnswer that another part of the quote is the answer.
const (
	NoView View = iota
	SameAnswer
	OtherAnswer
)

// On the scale of logits (of an answer's first and last token, added up), by the shipped pack's reranker; docs/questions.md
// has what they do.
const (
	// aheadLogit is how far ahead of a sentence's answer another must be.
	aheadLogit = 4.0
	// leastLogit is the score below which what was read is no answer.
	leastLogit = -2.0
	// sameLogit is the score from which the best reading speaks for a sentence that gives it.
	sameLogit = 0.0
)

// ViewOf compares what a sentence adds to its question with what was read in a quote.
func ViewOf(sentence, question string, read []Reading) View {
	if len(read) == 0 || text.AskedFor(question) == text.AskedYesNo {
		return NoView
	}
	adds := text.Adds(sentence, question)
	if adds.Words() == 0 {
		return NoView
	}
	best, own, named := read[0].Score, 0.0, false
	for _, r := range read {
		best = max(best, r.Score)
		if adds.Is(r.Text) && (!named || r.Score > own) {
			own, named = r.Score, true
		}
	}
	switch {
	case named && own >= best && best >= sameLogit:
		return SameAnswer
	case best >= leastLogit && (!named || own < best-aheadLogit):
		return OtherAnswer
	}
	return NoView
}

// viewOfAll is the view of all that a sentence cites: SameAnswer where one has it, OtherAnswer where all do. A sentence that
// stands in a quote as it is is no other answer.
func viewOfAll(sentence, question string, cited []int, proofs map[int]Evidence) View {
	others := 0
	for _, i := range cited {
		switch view := ViewOf(sentence, question, proofs[i].Read); {
		case view == SameAnswer:
			return SameAnswer
		case view == OtherAnswer && !strings.Contains(proofs[i].Quote, strings.TrimSpace(sentence)):
			others++
		}
	}
	if len(cited) > 0 && others == len(cited) {
		return OtherAnswer
	}
	return NoView
}

// longAnswer is how many content words a sentence may add and still be the short answer that a reader finds.
const longAnswer = 12

// answers reports whether a sentence is meant as the answer, not as a detail that follows it: it is alone, or says the question again.
func answers(sentence, question string, alone bool) bool {
	adds := text.Adds(sentence, question)
	return adds.Words() <= longAnswer && (alone || adds.Repeats >= 0.5)
}

// stepRead names the call that has the quotes read.
const stepRead = "read"

// read asks the model pack's reader, through the gateway's provider that has it, for the parts of the citations' quotes that
// answer. Where there is none, or it does not answer, nothing was read, and the rules decide.
func (a *Answerer) read(ctx context.Context, in wire.QuestionInput, q Question, m made, proofs map[int]Evidence) {
	provider := m.reply.Usage.Provider
	if provider == "" || provider == extractive || m.found.Skipped || len(proofs) == 0 || len(q.Query.Choices) > 0 {
		return
	}
	ctx, cancel := leavingTime(ctx)
	defer cancel()
	request := wire.LLMRequest{Envelope: wire.Header(), Tenant: in.Tenant, Task: wire.TaskRead, Provider: extractive, Question: q.Query.Text,
		Step: wire.Step{Question: in.Question, Round: m.round, Step: stepRead}, Versions: versionsOf(sent(m.found.Candidates))}
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
		e.Read = append(e.Read, Reading{Text: e.Quote[r.Start:r.End], Score: r.Score})
		proofs[r.Passage] = e
	}
}
