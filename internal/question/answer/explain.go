package answer

// This file explains an answer: the reports of the plan's stages, followed by what was generated
// and how it was judged.

import (
	"fmt"

	"github.com/sluice-rag/sluice/schema"
)

// traceOf returns the trace of all rounds.
func traceOf(rounds []answerRound, kept answerRound, citations int) []schema.StageReport {
	out := []schema.StageReport{}
	for i, m := range rounds {
		generated := schema.StageReport{Stage: StepGenerate, In: len(fitting(m.found.Candidates)), Out: len(m.reply.Quotes), Millis: m.reply.Usage.Millis, Why: explainRound(m), Features: m.reply.Features}
		if m.round == kept.round {
			generated.Out = citations
		}
		out = append(append(out, m.found.Trace...), generated)
		v := m.found.Verdict
		if v == nil || v.Why == "" {
			continue
		}
		text := fmt.Sprintf("round %d, min_k %d: %s", m.round, m.found.MinK, v.Why)
		if v.Again && i == len(rounds)-1 {
			text += "; that round failed, so what there is stays"
		}
		if m.round == kept.round && len(rounds) > 1 {
			text += "; this answer is kept"
		}
		out = append(out, schema.StageReport{Stage: stageFeedback, In: generated.In, Out: generated.In, Millis: v.Usage.Millis, Why: text})
	}
	return out
}

func explainRound(m answerRound) string {
	reply := m.reply
	switch {
	case reply.Usage.Provider == "":
		return "nothing was found to answer from"
	case m.found.Skipped:
		return fmt.Sprintf("answered by %s from what it knows, without documents", reply.Usage.Provider)
	case reply.Withheld != "":
		return fmt.Sprintf("the answer of %s is held back: %s", reply.Usage.Provider, reply.Withheld)
	case !reply.Supported:
		return fmt.Sprintf("%s found no answer in the passages", reply.Usage.Provider)
	}
	return fmt.Sprintf("answered by %s, quotes checked against the stored text", reply.Usage.Provider)
}
