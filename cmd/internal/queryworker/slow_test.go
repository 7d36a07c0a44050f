//go:build cgo

package queryworker

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/plans"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestWhatWasSlowIsKept: a search that succeeded and one that failed, a direct question, and a job
// are stored with their traces. Quick ones are not.
func TestWhatWasSlowIsKept(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.settings.SlowSearch, w.settings.SlowQuestion = time.Nanosecond, time.Nanosecond
	w.startAll()
	if reply := w.search(wire.SearchQuery{Query: schema.Query{Text: carryOver}}); reply.Error != nil {
		t.Fatal(reply.Error)
	}
	if reply := w.search(wire.SearchQuery{Query: schema.Query{Text: carryOver, Plan: "no-such-plan"}}); reply.Error == nil {
		t.Fatal("an unknown plan was run")
	}
	if _, failure := w.askSync(w.context(), carryOver); failure != nil {
		t.Fatal(failure)
	}
	in := w.ask(w.context(), carryOver, true)
	w.await(in.Question, schema.JobAnswered)
	// The job is stored after it ends, and before its workflow ends.
	w.ok(w.client.GetWorkflow(w.context(), wire.QuestionWorkflowID(in.Question, in.Attempt), "").Get(w.context(), nil))

	kept, err := w.questions.SlowQueries(w.context(), w.principal)
	w.ok(err)
	found := map[schema.SlowKind][]schema.SlowQuery{}
	for _, q := range kept {
		found[q.Kind] = append(found[q.Kind], q)
		if q.Question != carryOver || q.Collection != w.collection || q.Millis <= 0 {
			t.Errorf("kept %+v", q)
		}
	}
	if len(found[schema.SlowSearch]) != 2 || len(found[schema.SlowAsk]) != 1 || len(found[schema.SlowJob]) != 1 {
		t.Fatalf("kept %+v", kept)
	}
	for _, q := range found[schema.SlowSearch] {
		if len(q.Trace) != 32 || (q.Code == "") != (q.Plan == plans.Default) || (q.Code == "") != (len(q.Stages) > 1) {
			t.Errorf("the search is %+v", q)
		}
	}
	if q := found[schema.SlowJob][0]; q.ID != in.Question || !slices.ContainsFunc(q.Stages, func(s schema.StageTime) bool { return s.Stage == "generate" }) {
		t.Errorf("the job is %+v", q)
	}

	w.settings.SlowSearch, w.settings.SlowQuestion = time.Hour, time.Hour
	quick := w.worker(nil)
	quick.jobs.Slow.KeepSearch(w.context(), wire.SearchQuery{Principal: w.principal, Query: schema.Query{Text: "quick"}}, schema.SearchResult{}, time.Second, nil)
	quick.jobs.Slow.KeepQuestion(w.context(), in)
	if after, err := w.questions.SlowQueries(w.context(), w.principal); err != nil || len(after) != len(kept) {
		t.Errorf("of what was quick is kept %+v (%v)", after, err)
	}
}
