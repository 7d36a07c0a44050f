package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/plans"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestPlansAreKeptByTenant(t *testing.T) {
	f := setUp(t, store.Options{})
	ctx := t.Context()
	put := func(p schema.Principal, name, text string) plans.StoredPlan {
		t.Helper()
		s, err := f.PutPlan(ctx, p, name, text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := put(f.a, "mine", "name: mine")
	put(f.a, "also", "name: also")
	put(f.b, "mine", "of b")
	if again := put(f.a, "mine", "name: mine # anew"); !again.UpdatedAt.After(first.UpdatedAt) {
		t.Errorf("stored anew at %v, before at %v", again.UpdatedAt, first.UpdatedAt)
	}
	list, err := f.StoredPlans(ctx, f.a, "", 10)
	if err != nil || len(list) != 2 || list[0].Name != "also" || list[1].Text != "name: mine # anew" {
		t.Errorf("A has %+v, %v", list, err)
	}
	if list, err = f.StoredPlans(ctx, f.a, "also", 10); err != nil || len(list) != 1 {
		t.Errorf("after also comes %+v, %v", list, err)
	}
	if err := f.DeletePlan(ctx, f.a, "mine"); err != nil {
		t.Fatal(err)
	}
	if err := f.DeletePlan(ctx, f.a, "mine"); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if _, err := f.StoredPlan(ctx, f.a.Tenant, "mine"); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("read after deletion: %v", err)
	}
	if s, err := f.StoredPlan(ctx, f.b.Tenant, "mine"); err != nil || s.Text != "of b" {
		t.Errorf("B's is %+v, %v", s, err)
	}
	for name, text := range map[string]string{"": "x", "Mine": "x", "a b": "x", "../x": "x", "nothing": "", "long": strings.Repeat("x", 1<<16+1), "nul": "a\x00b"} {
		if _, err := f.PutPlan(ctx, f.a, name, text); !errors.Is(err, schema.ErrInvalid) {
			t.Errorf("a plan %q: %v", name, err)
		}
	}
	execAs(t, f, f.a, `INSERT INTO plans (tenant_id, name, body) SELECT $1, 'p' || i, 'x' FROM generate_series(1, 199) AS i`, f.a.Tenant)
	if _, err := f.PutPlan(ctx, f.a, "one-more", "x"); !errors.Is(err, schema.ErrQuota) {
		t.Errorf("one too many: %v", err)
	}
	if _, err := f.PutPlan(ctx, f.a, "p7", "y"); err != nil {
		t.Errorf("one of the many, anew: %v", err)
	}
}

// A question keeps the text of its plan, whatever happens to the plan.
func TestAQuestionKeepsItsPlan(t *testing.T) {
	f := setUp(t, store.Options{})
	for _, text := range []string{"", "name: mine\nstages: [dense]"} {
		j, err := f.CreateQuestion(t.Context(), f.a, questions.NewQuestion{Query: schema.Query{Collection: f.collection, Text: fmt.Sprintf("By %q?", text), Plan: "mine", PlanText: text}})
		if err != nil {
			t.Fatal(err)
		}
		q, err := f.Question(t.Context(), wire.QuestionInput{Tenant: f.a.Tenant, Question: j.ID, Attempt: 1})
		if err != nil || q.Query.Plan != "mine" || q.Query.PlanText != text {
			t.Errorf("it has %+v, %v", q.Query, err)
		}
	}
}
