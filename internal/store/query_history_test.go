package store_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// TestWhatWasAskedIsThereLater: askers and admins can read a question later, whether or not it was
// asked synchronously.
func TestWhatWasAskedIsThereLater(t *testing.T) {
	f := setUp(t, store.Options{})
	ctx := t.Context()
	asker := schema.Principal{Tenant: f.a.Tenant, Key: schema.NewID(), Scopes: []schema.Scope{schema.ScopeQuery}}
	now, waited := f.question(t, asker, false)
	later, _ := f.question(t, asker, true)
	others, _ := f.question(t, f.a, false)
	if _, err := f.Begin(ctx, waited); err != nil {
		t.Fatal(err)
	}
	if err := f.SaveAnswer(ctx, waited, schema.Answer{Answer: "Long.", Supported: true, Plan: "naive"}); err != nil {
		t.Fatal(err)
	}
	q, err := f.AskedQuestion(ctx, asker, now.ID)
	if err != nil || q.Async || q.State != schema.JobAnswered || q.Result == nil || q.Result.Answer != "Long." || q.Result.ID != now.ID ||
		q.K != 7 || len(q.Filter) != 1 || q.Filter[0].Key != "year" {
		t.Errorf("it is %+v, %v", q, err)
	}
	if q, err := f.AskedQuestion(ctx, asker, later.ID); err != nil || !q.Async || q.Result != nil {
		t.Errorf("the job is %+v, %v", q, err)
	}
	ids := func(p schema.Principal, collection uuid.UUID) (out []uuid.UUID) {
		t.Helper()
		page := schema.PageQuery{Limit: 1}
		for {
			items, next, err := f.AskedQuestions(ctx, p, collection, page)
			if err != nil || len(items) > 1 {
				t.Fatalf("%+v, %v", items, err)
			}
			for _, q := range items {
				out = append(out, q.ID)
			}
			if page.Cursor = next; next == "" {
				return out
			}
		}
	}
	want := func(what string, got []uuid.UUID, want ...uuid.UUID) {
		t.Helper()
		same := len(got) == len(want)
		for i := range got {
			same = same && got[i] == want[i]
		}
		if !same {
			t.Errorf("%s sees %v, want %v", what, got, want)
		}
	}
	want("the asker", ids(asker, uuid.Nil), later.ID, now.ID)
	want("an admin", ids(f.a, uuid.Nil), others.ID, later.ID, now.ID)
	want("an admin, of the collection,", ids(f.a, f.collection), others.ID, later.ID, now.ID)
	want("the asker, of another collection,", ids(asker, f.foreign))
	want("another tenant", ids(f.b, uuid.Nil))
	for _, p := range []schema.Principal{f.b, {Tenant: f.a.Tenant, Key: schema.NewID(), Scopes: []schema.Scope{schema.ScopeQuery}}} {
		if _, err := f.AskedQuestion(ctx, p, now.ID); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("another key reads it: %v", err)
		}
	}
}
