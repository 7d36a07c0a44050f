package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// The use of Sluice's own models is recorded, and counts for no budget; their calls have limits of
// their own, with the same values.
func TestOwnModelsCountApart(t *testing.T) {
	f := setUp(t, store.Options{})
	f.limit(t, f.a, schema.LLMLimits{TokensPerDay: new(int64(100)), DollarsPerMonth: new(0.0000001), CallsAtOnce: new(1), CallsPerMinute: new(4)})
	accounts := f
	own := func() llm.Reservation {
		return llm.Reservation{Tenant: f.a.Tenant, ID: uuid.New(), TTL: time.Minute, Own: true}
	}
	paid := reservation(f.a, 60, 60)
	mine := own()
	for _, r := range []llm.Reservation{mine, paid} {
		if _, err := accounts.Reserve(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []llm.Reservation{own(), reservation(f.a, 1, 1)} {
		if _, err := accounts.Reserve(t.Context(), r); !errors.Is(err, schema.ErrOverloaded) {
			t.Errorf("a second call at once, own %t: %v", r.Own, err)
		}
	}
	if u := f.usage(t, f.a); u.InProgress != 1 || u.ReservedTokens != 60 {
		t.Errorf("in progress is %+v", u)
	}
	question := wire.QuestionInput{Tenant: f.a.Tenant, Question: uuid.New()}
	for step, u := range map[string]schema.Usage{
		"judge":  {Provider: "extractive", InputTokens: 5000, OutputTokens: 9, Millis: 2, Cost: 0.5, Own: schema.OwnUsage{InputTokens: 5000, OutputTokens: 9, Cost: 0.5}},
		"answer": {Provider: "openai", InputTokens: 40, OutputTokens: 10, Millis: 3, Cost: 0.00000005},
		// One for which another provider was paid, too.
		"feedback": {Provider: "extractive", InputTokens: 307, OutputTokens: 1, Cost: 0.25000001, Own: schema.OwnUsage{InputTokens: 300, OutputTokens: 1, Cost: 0.25}},
	} {
		id := map[string]uuid.UUID{"judge": mine.ID, "answer": paid.ID}[step]
		call := llm.Call{ID: id, Tenant: f.a.Tenant, Step: wire.Step{Question: question.Question, Round: 1, Step: step}, Task: wire.TaskAnswer}
		if _, err := f.LedgerStore.Once(t.Context(), call, func(context.Context) (wire.LLMReply, error) { return wire.LLMReply{Usage: u}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	search := llm.Call{ID: uuid.New(), Tenant: f.a.Tenant, Step: wire.Step{Step: "stage 1"}, Task: wire.TaskFilter}
	if err := accounts.Record(t.Context(), search, wire.LLMReply{Usage: schema.Usage{InputTokens: 3, Cost: 1, Own: schema.OwnUsage{InputTokens: 3, Cost: 1}}}); err != nil {
		t.Fatal(err)
	}
	u := f.usage(t, f.a)
	if u.InProgress != 0 || u.Day.Calls != 4 || u.Day.InputTokens != 47 || u.Day.OutputTokens != 10 || u.Day.Dollars != 0.00000006 {
		t.Errorf("used %+v", u)
	}
	if got := one[string](t, f, f.a, `SELECT concat_ws(' ', input_tokens, nanos, own_input_tokens, own_output_tokens, own_nanos) FROM llm_search_calls`); got != "3 1000000000 3 0 1000000000" {
		t.Errorf("the search's call is %s", got)
	}
	spent, err := f.Spent(t.Context(), question)
	want := schema.Usage{InputTokens: 5347, OutputTokens: 20, Millis: 5, Cost: 0.75000006, Own: schema.OwnUsage{InputTokens: 5300, OutputTokens: 10, Cost: 0.75}}
	if err != nil || spent != want {
		t.Errorf("the question cost %+v, %v; want %+v", spent, err, want)
	}
	// No budget is left, but own models continue; the limit of four calls a minute applies to each
	// kind.
	if _, err := accounts.Reserve(t.Context(), reservation(f.a, 60, 0)); !errors.Is(err, schema.ErrQuota) {
		t.Errorf("sixty tokens of forty-three: %v", err)
	}
	for range 3 {
		r := own()
		if _, err := accounts.Reserve(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := accounts.Settle(t.Context(), f.a.Tenant, r.ID, schema.Usage{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := accounts.Reserve(t.Context(), own()); !errors.Is(err, schema.ErrOverloaded) {
		t.Errorf("a fifth own call in a minute: %v", err)
	}
	if _, err := accounts.Reserve(t.Context(), reservation(f.a, 1, 0)); err != nil {
		t.Errorf("a second call to a language model in a minute: %v", err)
	}
}
