//go:build cgo

package queryworker

// Answers when the language model and the reader of the model pack (has_answer) agree, and when
// they do not. The language model is scripted, the gateway and the reader are real; questions are
// asked directly and as jobs.

import (
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/schema"
)

func TestTheLanguageModelAndTheReader(t *testing.T) {
	const (
		unknown    = "How do I bake a sourdough loaf with rye flour?"
		known      = "How are short journeys made?"
		secondRate = "Journeys under four hours are made by train in second class."
		howMany    = "How much annual leave does every employee have?"
		leaves     = "Every employee has 25 days of annual leave a year. Part-time employees have a proportionate share. " +
			"Leave is requested from the line manager at least two weeks ahead."
		// Three quarters of its words are in the quote. That is enough if the reader finds an
		// answer too, and not otherwise.
		inOwnWords = "All staff make their journeys under four hours by train in second class."
	)
	for _, x := range []struct {
		name      string
		question  string
		reply     string // the language model; empty: that the passages do not answer
		quote     string
		supported bool
		why       string // in the trace of the support stage
	}{
		{"both find an answer", carryOver, "You may carry over five days.", fiveDays, true, "all of 1 sentences are in what they cite"},
		{"neither finds one", unknown, "", "", false, "the pair model finds no answer in the passages either"},
		{"only the reader finds one", carryOver, "", "", false, "the pair model finds an answer in the passages, but without a quote there is none"},
		{"only the language model finds one, and its quote says just that", unknown, secondRate, secondRate, true,
			"the checked quotes decide, and claims count for nothing"},
		{"both find an answer, in the model's own words", known, inOwnWords, secondRate, true, "all of 1 sentences are in what they cite"},
		{"the language model gives what reads best in its quote", howMany, "Every employee has 25 days of leave.", leaves, true, "all of 1 sentences are in what they cite"},
		{"the language model gives another answer of its quote", howMany, "Every employee has two weeks of annual leave.", leaves, false,
			"1 would be, but the model pack's reader finds another answer in the quotes"},
		{"only the language model finds one, in its own words", unknown, inOwnWords, secondRate, false,
			"none of 1 sentences is in what is cited, so the documents do not say; the pair model finds no answer in the passages: the checked quotes decide"},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newWorld(t)
			w.handbook()
			w.scriptedReply(x.reply, x.quote)
			w.startAll()
			now, failure := w.requestAnswer(w.context(), w.ask(w.context(), x.question, false))
			if failure != nil {
				t.Fatal(failure)
			}
			job := w.await(w.ask(w.context(), x.question, true).Question, schema.JobAnswered)
			w.checkCitations(*job.Result)
			for how, a := range map[string]schema.Answer{"at once": now, "as a job": *job.Result} {
				reasons := ""
				for _, r := range a.Trace {
					if r.Stage == answer.StageSupport {
						reasons += r.Why
					}
				}
				want, cited := schema.NoAnswer, 0
				if x.supported {
					want, cited = x.reply, 1
				}
				if a.Supported != x.supported || a.Answer != want || len(a.Citations) != cited || a.Usage.Provider != "openai" {
					t.Errorf("%s: got %q, supported %t, %d citations, by %s", how, a.Answer, a.Supported, len(a.Citations), a.Usage.Provider)
				}
				if !strings.Contains(reasons, x.why) || strings.Contains(reasons, "claims count for nothing") != strings.HasPrefix(x.name, "only the language model") {
					t.Errorf("%s: the support stage says %q", how, reasons)
				}
			}
			if calls := scalar[string](w, `SELECT string_agg(step || ' ' || provider, ', ' ORDER BY step DESC) FROM llm_calls WHERE question_id = $1 AND step IN ('answer', 'answerable')`, job.ID); calls != "answerable extractive, answer openai" {
				t.Errorf("the ledger has %q", calls)
			}
		})
	}
}
