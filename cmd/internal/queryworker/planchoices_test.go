//go:build cgo

package queryworker

// Choices of plans with real parts. These tests record the histories of their workflow, as in
// jobs_test.go:
//
//	go test ./cmd/internal/queryworker -run Choice -record NAME

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/evaluate/choose"
	"github.com/sluice-rag/sluice/internal/evaluate/planchoice"
	"github.com/sluice-rag/sluice/internal/store/choices"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func (w *world) choose(n choices.NewChoice) schema.PlanChoice {
	w.t.Helper()
	n.Collection, n.Alpha = w.collection, choose.Alpha
	if n.Plans == nil {
		n.Plans = []planchoice.PlanText{{Name: "bm25"}, {Name: "naive"}}
	}
	var err error
	n.Request, err = n.Request.Complete()
	w.ok(err)
	made, err := w.store.StartChoice(w.context(), w.principal, n)
	w.ok(err)
	return made
}

func (w *world) chosen(id uuid.UUID) schema.PlanChoice {
	w.t.Helper()
	var out schema.PlanChoice
	waittest.Until(w.t, func() string {
		var err error
		out, err = w.store.Choice(w.context(), w.principal, w.collection, id)
		w.ok(err)
		if !out.State.Final() {
			return fmt.Sprintf("the choice is %+v", out)
		}
		return ""
	})
	return out
}

// saveChoiceHistory waits for the end of a choice's workflow, and keeps its history if asked to.
func (w *world) saveChoiceHistory(name string, id uuid.UUID) {
	w.t.Helper()
	ctx, workflow := w.context(), wire.ChoiceWorkflowID(id)
	w.ok(w.client.GetWorkflow(ctx, workflow, "").Get(ctx, nil))
	w.keepHistory(workflow, "choose_plan", name)
}

var known = []schema.LabelledQuestion{
	{Question: "How many days of leave can be carried over?", Documents: []string{"leave.md"}},
	{Question: "Until when must carried over leave be taken?", Documents: []string{"leave.md"}},
	{Question: "Who approves leave?", Documents: []string{"leave.md"}},
	{Question: "Where is it?", Documents: []string{"gone.md"}},
}

// TestChoiceOfLabelledQuestions measures plans to the end, keeps the questions for the next choice,
// and repeats the choice when it is due.
func TestChoiceOfLabelledQuestions(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.run(w.worker(nil).service())
	made := w.choose(choices.NewChoice{Current: "naive", Request: schema.NewPlanChoice{Questions: known, Limit: 4, Every: 7}})
	if _, err := w.store.StartChoice(w.context(), w.principal, choices.NewChoice{Collection: w.collection, Plans: []planchoice.PlanText{{Name: "bm25"}}}); err == nil || !strings.Contains(err.Error(), "under way") {
		t.Errorf("a second choice at the same time: %v", err)
	}
	got := w.chosen(made.ID)
	w.saveChoiceHistory("done", made.ID)
	if got.State != schema.ChoiceDone || got.Result == nil || len(got.Result.Plans) != 2 || got.NextAt == nil {
		t.Fatalf("got %+v", got)
	}
	if got.Asked != got.Questions || got.Questions < 3 || got.Sources[0] != (schema.SourceCount{Source: schema.QuestionLabelled, Questions: 3}) {
		t.Errorf("%d of %d questions were asked: %+v", got.Asked, got.Questions, got.Sources)
	}
	if !slices.ContainsFunc(got.Notes, func(n string) bool { return strings.Contains(n, "gone.md") }) {
		t.Errorf("it doesn't say that a document is missing: %q", got.Notes)
	}
	for _, p := range got.Result.Plans {
		if p.Quality <= 0 || p.NDCG == nil || p.Tokens <= 0 || p.Millis <= 0 || p.Questions != got.Questions || p.Current != (p.Plan == "naive") {
			t.Errorf("got %+v", p)
		}
	}
	if got.Result.Sure {
		t.Error("it is sure of few questions")
	}
	// The next choice uses the stored labelled questions.
	w.ok(w.store.AsTenant(w.context(), w.principal.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE plan_choices SET recheck_at = now() - interval '1 minute' WHERE recheck_at IS NOT NULL`)
		return err
	}))
	var again schema.PlanChoice
	waittest.Until(t, func() string {
		all, _, err := w.store.Choices(w.context(), w.principal, w.collection, schema.PageQuery{})
		w.ok(err)
		if again = all[0]; len(all) != 2 || !again.State.Final() {
			return fmt.Sprintf("there are %+v", all)
		}
		return ""
	})
	if again.State != schema.ChoiceDone || again.Recheck != 1 || again.Every != 7 || again.NextAt == nil || again.Sources[0] != got.Sources[0] {
		t.Errorf("the repetition is %+v", again)
	}
	first, err := w.store.Choice(w.context(), w.principal, w.collection, made.ID)
	w.ok(err)
	if first.NextAt != nil {
		t.Error("the first one is repeated again, beside the repetition")
	}
	stopped, err := w.store.ScheduleChoice(w.context(), w.principal, w.collection, 0)
	w.ok(err)
	if stopped.ID != again.ID || stopped.NextAt != nil || stopped.Every != 0 {
		t.Errorf("it goes on: %+v", stopped)
	}
}

// TestChoiceFailsWithoutQuestions: the error says what to do.
func TestChoiceFailsWithoutQuestions(t *testing.T) {
	w := newWorld(t)
	w.run(w.worker(nil).service())
	made := w.choose(choices.NewChoice{})
	got := w.chosen(made.ID)
	w.saveChoiceHistory("failed", made.ID)
	if got.State != schema.ChoiceFailed || !strings.Contains(got.Reason, "bring labelled ones") {
		t.Errorf("got %+v", got)
	}
	if _, err := w.store.ApplyChoice(w.context(), w.principal, w.collection, made.ID, "bm25"); err == nil || !strings.Contains(err.Error(), "proposes nothing") {
		t.Errorf("it was applied: %v", err)
	}
}

// TestChoiceIsCancelled: a choice that is cancelled before its start is never started, and stays
// cancelled.
func TestChoiceIsCancelled(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	made := w.choose(choices.NewChoice{Request: schema.NewPlanChoice{Questions: known[:3], Limit: 3}})
	for range 2 {
		got, err := w.store.CancelChoice(w.context(), w.principal, w.collection, made.ID)
		w.ok(err)
		if got.State != schema.ChoiceCancelled {
			t.Fatalf("got %+v", got)
		}
	}
	more, err := w.worker(nil).chooser().Step(w.context(), wire.PlanChoice{Tenant: w.principal.Tenant, Choice: made.ID})
	if err != nil || more {
		t.Errorf("%v, %v", more, err)
	}
	// Another choice may start immediately. A plan that cannot be run is left out of it.
	other := w.choose(choices.NewChoice{Plans: []planchoice.PlanText{{Name: "bm25"}, {Name: "no-such-plan"}}, Request: schema.NewPlanChoice{Questions: known[:3], Limit: 3}})
	w.run(w.worker(nil).service())
	got := w.chosen(other.ID)
	if got.State != schema.ChoiceDone || got.Result.Plan != "bm25" || len(got.LeftOut) != 1 || got.LeftOut[0].Plan != "no-such-plan" {
		t.Errorf("got %+v", got)
	}
}
