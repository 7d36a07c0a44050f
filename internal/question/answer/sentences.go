package answer

// This file finds, for each sentence of an answer, the citations that support it. The provider may
// claim which quote supports which sentence. A claim is checked, too, but with lower thresholds; a
// sentence without a claim is compared with all citations.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-rag/sluice/internal/tabular"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// StageSupport is the name of this check in traces.
const StageSupport = "support"

// prove completes an answer that was made of m: its choice, its sentences, and whether any of them
// is supported. at holds, for each of the reply's quotes, the index of its citation in out, or -1.
func (a *Answerer) prove(ctx context.Context, out *schema.Answer, in wire.QuestionInput, q Question, m answerRound, at []int) {
	reply, second := m.reply, a.askPairModel(ctx, in, q, m)
	if reply.Choice >= 1 && reply.Choice <= len(q.Query.Choices) {
		out.Choice = reply.Choice
	}
	if out.Uncited {
		out.Sentences = uncitedSentences(out.Answer)
		return
	}
	report, others := schema.StageReport{Stage: StageSupport}, 0
	if out.Supported {
		proofs := proofsOf(fitting(m.found.Candidates), reply, at)
		a.read(ctx, in, q, m, proofs)
		out.Sentences, others = sentencesOf(q, reply, at, proofs, second)
		report.In = len(out.Sentences)
		for _, s := range out.Sentences {
			if s.Supported {
				report.Out++
			}
		}
		out.Supported = report.Out > 0
	}
	if report.Why = explain(report, reply, second, others); report.Why != "" {
		out.Trace = append(out.Trace, report)
	}
}

// proofsOf returns, for each citation, the evidence that sentences are compared with.
func proofsOf(passages []schema.Candidate, reply wire.LLMReply, at []int) map[int]Evidence {
	proofs := map[int]Evidence{}
	for i, quote := range reply.Quotes {
		if at[i] >= 0 {
			proofs[at[i]] = evidenceOf(passages[quote.Passage], quote)
		}
	}
	return proofs
}

// sentencesOf compares the sentences of a reply with its citations. others counts those that would
// be supported if the reader had not found another answer in the quotes.
func sentencesOf(q Question, reply wire.LLMReply, at []int, proofs map[int]Evidence, second pairVerdict) (out []schema.Sentence, others int) {
	claims := reply.Sentences
	if len(claims) == 0 {
		for _, r := range text.Sentences(reply.Text) {
			claims = append(claims, wire.ReplySentence{Start: r.Start, End: r.End})
		}
	}
	out = make([]schema.Sentence, 0, len(claims))
	var refused []int // sentences with another answer than the reader's; refused unless some sentence has the reader's
	read := false
	for _, c := range claims {
		s := schema.Sentence{Start: c.Start, End: c.End, Citations: []int{}}
		if c.Start < 0 || c.End > len(reply.Text) || c.Start >= c.End {
			continue
		}
		var claimed []int
		for _, i := range c.Quotes {
			if i >= 0 && i < len(at) && at[i] >= 0 && !slices.Contains(claimed, at[i]) {
				claimed = append(claimed, at[i])
			}
		}
		body := withoutComputed(reply.Text[c.Start:c.End], c.Computed)
		s.Citations = supporting(body, q.Query.Text, proofs, claimed, second)
		s.Supported = len(s.Citations) > 0
		switch view := combineVerdicts(body, q.Query.Text, s.Citations, proofs); {
		case view == SameAnswer:
			read = true
		case view == OtherAnswer && answers(body, q.Query.Text, len(claims) == 1):
			refused = append(refused, len(out))
		}
		out = append(out, s)
	}
	if read {
		return out, 0
	}
	for _, i := range refused {
		out[i].Supported, out[i].Citations = false, []int{}
	}
	return out, len(refused)
}

// supporting returns the citations that support a sentence: the claimed ones that do, alone or
// together; if there are none, any that do.
func supporting(sentence, question string, proofs map[int]Evidence, claimed []int, second pairVerdict) []int {
	trust := Claimed
	if second == against {
		trust = Unclaimed
	}
	out := []int{}
	for _, i := range claimed {
		if Supports(sentence, question, proofs[i], trust) {
			out = append(out, i)
		}
	}
	if len(out) > 0 {
		return out
	}
	if len(claimed) > 1 {
		var together Evidence
		for _, i := range claimed {
			together.Quote += proofs[i].Quote + "\n"
			together.Context += proofs[i].Context + "\n"
			together.Passage += proofs[i].Passage + "\n"
		}
		if Supports(sentence, question, together, Unclaimed) {
			return claimed
		}
	}
	for i := range len(proofs) {
		if Supports(sentence, question, proofs[i], Unclaimed) {
			out = append(out, i)
		}
	}
	return out
}

// maxWiden is the maximum number of bytes by which a quote is widened on either side: text without
// full stops has sentences of any length.
const maxWiden = 400

// evidenceOf widens a quote to whole sentences, so that words that were cut off ("it is not true
// that") count.
func evidenceOf(c schema.Candidate, quote wire.Quote) Evidence {
	start, end := quote.Start, quote.End
	for _, r := range text.Sentences(c.Text) {
		if r.Start < quote.End && quote.Start < r.End {
			start, end = min(start, r.Start), max(end, r.End)
		}
	}
	for start = max(start, quote.Start-maxWiden); start < quote.Start && !utf8.RuneStart(c.Text[start]); start++ {
	}
	for end = min(end, quote.End+maxWiden); end > quote.End && end < len(c.Text) && !utf8.RuneStart(c.Text[end]); end-- {
	}
	return Evidence{Quote: c.Text[start:end], Context: strings.Join(append([]string{c.Title, c.Location}, c.HeadingPath...), "\n"), Passage: c.Text}
}

// uncitedSentences returns the sentences of a text without citations.
func uncitedSentences(body string) []schema.Sentence {
	var out []schema.Sentence
	for _, r := range text.Sentences(body) {
		out = append(out, schema.Sentence{Start: r.Start, End: r.End, Citations: []int{}})
	}
	return out
}

// explain describes the result of the check.
func explain(r schema.StageReport, reply wire.LLMReply, second pairVerdict, others int) string {
	var stated []string
	switch {
	case r.In == 0:
	case r.Out == r.In:
		stated = append(stated, fmt.Sprintf("all of %d sentences are in what they cite", r.In))
	case r.Out == 0:
		stated = append(stated, fmt.Sprintf("none of %d sentences is in what is cited, so the documents do not say", r.In))
	default:
		stated = append(stated, fmt.Sprintf("%d of %d sentences are in what they cite, the others are marked", r.Out, r.In))
	}
	if others > 0 {
		stated = append(stated, fmt.Sprintf("%d would be, but the model pack's reader finds another answer in the quotes", others))
	}
	switch {
	case second == agrees && !reply.Supported:
		stated = append(stated, "the pair model finds no answer in the passages either")
	case second == against && !reply.Supported:
		stated = append(stated, "the pair model finds an answer in the passages, but without a quote there is none")
	case second == against:
		stated = append(stated, "the pair model finds no answer in the passages: the checked quotes decide, and claims count for nothing")
	}
	return strings.Join(stated, "; ")
}

// pairVerdict says whether the pair model agrees with an answer, or with the reply that there is
// none.
type pairVerdict int

const (
	notCompared pairVerdict = iota
	agrees
	against
)

// extractive is the provider whose answers come from the pair model itself.
const extractive = "extractive"

// stepAnswerable is the step of the call that asks whether the passages answer the question.
const stepAnswerable = "answerable"

// askPairModel asks the pair model, through the gateway's provider that has it, whether a passage
// has the answer. If there is no such model, or it fails, the verdict is notCompared, and the
// quotes decide.
func (a *Answerer) askPairModel(ctx context.Context, in wire.QuestionInput, q Question, m answerRound) pairVerdict {
	provider := m.reply.Usage.Provider
	if provider == "" || provider == extractive || m.found.Skipped || len(m.found.Candidates) == 0 {
		return notCompared
	}
	ctx, cancel := reserveTime(ctx)
	defer cancel()
	request := wire.LLMRequest{Envelope: wire.Header(), Tenant: in.Tenant, Task: wire.TaskFilter, Provider: extractive, Question: q.Query.Text,
		Step: wire.Step{Question: in.Question, Round: m.round, Step: stepAnswerable}, Passages: passagesOf(fitting(m.found.Candidates)),
		Versions: versionsOf(fitting(m.found.Candidates))}
	request.Deadline, _ = ctx.Deadline()
	reply, err := a.generator.Complete(ctx, request)
	if err != nil || len(reply.Scores) != len(request.Passages) {
		return notCompared
	}
	if slices.Max(reply.Scores) >= 1 == m.reply.Supported {
		return agrees
	}
	return against
}

// withoutComputed returns a sentence without the computed number at its start, if that follows from
// the figures that the rest of the sentence names: the rest has to be in the quotes. A number that
// does not follow from the figures stays, and needs support like any other.
func withoutComputed(sentence string, c *wire.Computed) string {
	if c == nil {
		return sentence
	}
	rest, ok := strings.CutPrefix(sentence, c.Text())
	if !ok || !tabular.Gives(tabular.Operation(c.Operation), c.Figures, c.Value) {
		return sentence
	}
	for _, f := range c.Figures {
		if !strings.Contains(rest, f) {
			return sentence
		}
	}
	return rest
}
