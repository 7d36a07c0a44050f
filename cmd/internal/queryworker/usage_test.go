//go:build cgo

package queryworker

import (
	"testing"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const spentSQL = `SELECT coalesce(sum(input_tokens), 0)::int FROM llm_calls WHERE question_id = $1 AND task = ANY ($2)`

// An answer's usage includes all model calls of its plan, for rewriting, judging and answering, in
// both ways of asking.
func TestAnAnswersUsageHasThePlansCalls(t *testing.T) {
	w := newWorld(t)
	w.library()
	w.startAll()
	for _, async := range []bool{false, true} {
		in := w.storeQuestionFor("chunkrag", async)
		var a schema.Answer
		if async {
			a = *w.await(in.Question, schema.JobAnswered).Result
		} else {
			var failure *schema.RemoteError
			if a, failure = w.requestAnswer(w.context(), in); failure != nil {
				t.Fatal(failure)
			}
		}
		judged := scalar[int](w, spentSQL, in.Question, []wire.LLMTask{wire.TaskRelevance, wire.TaskReflect, wire.TaskCritic})
		answered := scalar[int](w, spentSQL, in.Question, []wire.LLMTask{wire.TaskAnswer})
		all := scalar[int](w, `SELECT sum(input_tokens)::int FROM llm_calls WHERE question_id = $1`, in.Question)
		if judged == 0 || answered == 0 || a.Usage.InputTokens != all || all < judged+answered {
			t.Errorf("async %t: judging took %d input tokens, answering %d, all %d, and the answer says %+v", async, judged, answered, all, a.Usage)
		}
		if a.Usage.Cost <= 0 || a.Usage.Own.InputTokens != all || a.Usage.Own.Cost != a.Usage.Cost || a.Usage.Provider != "extractive" {
			t.Errorf("async %t: nobody was paid, and the answer says %+v", async, a.Usage)
		}
	}
	if u, err := w.store.LLMUsage(w.context(), w.principal.Tenant); err != nil || u.Month.Calls == 0 || u.Month.InputTokens != 0 || u.Month.Dollars != 0 {
		t.Errorf("used %+v, %v", u, err)
	}
}

// If a language model answers, the check by the pair model costs nothing.
func TestOwnModelsChecksCostNothing(t *testing.T) {
	w := newWorld(t)
	w.library()
	w.critic(fiveDays, wire.Feedback{Score: 9, Adjust: 1})
	w.llm.LLMPrice = config.LLMPrice{Input: 1, Output: 2}
	w.startAll()
	in := w.storeQuestionFor("sage", false)
	a, failure := w.requestAnswer(w.context(), in)
	if failure != nil {
		t.Fatal(failure)
	}
	if checked := scalar[int](w, spentSQL, in.Question, []wire.LLMTask{wire.TaskFilter}); checked == 0 {
		t.Error("the pair model did not check the answer")
	}
	if a.Usage.InputTokens != 2*11 || a.Usage.OutputTokens != 2*7 || a.Usage.Own.InputTokens != 0 || a.Usage.Provider != "openai" || a.Usage.Cost <= 0 {
		t.Errorf("an answer and its judgement cost %+v", a.Usage)
	}
	if u, err := w.store.LLMUsage(w.context(), w.principal.Tenant); err != nil || u.Month.InputTokens != 2*11 || u.Month.Dollars != a.Usage.Cost {
		t.Errorf("used %+v, %v, and the answer cost %g", u, err, a.Usage.Cost)
	}
}
