package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestACancelledCallIsInTheLedger: it has no reply, so the step may be requested again; the row
// then becomes the reply's, with the sum of what was used.
func TestACancelledCallIsInTheLedger(t *testing.T) {
	f := setUp(t, store.Options{})
	step := wire.Step{Question: uuid.New(), Round: 1, Step: "answer"}
	row := func() string {
		return one[string](t, f, f.a, `SELECT concat_ws(' ', outcome, provider, input_tokens, output_tokens, own_input_tokens, nanos, reply->>'text') FROM llm_calls`)
	}
	cancelled := func(tokens int) {
		t.Helper()
		r := reservation(f.a, 100, 100)
		if _, err := f.Reserve(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		call := llm.Call{ID: r.ID, Tenant: f.a.Tenant, Step: step, Task: wire.TaskAnswer}
		if err := f.RecordCancelled(t.Context(), call, schema.Usage{Provider: "openai", Model: "m", InputTokens: tokens, OutputTokens: 3, Cost: 0.00000001}); err != nil {
			t.Fatal(err)
		}
	}
	cancelled(40)
	if got := row(); got != "cancelled openai 40 3 0 10" {
		t.Errorf("the ledger has %q", got)
	}
	if _, err := f.Reply(t.Context(), f.a.Tenant, step); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("a cancelled call has a reply: %v", err)
	}
	cancelled(50)
	asked := 0
	for range 2 {
		reply, err := f.LedgerStore.Once(t.Context(), llm.Call{ID: uuid.New(), Tenant: f.a.Tenant, Step: step, Task: wire.TaskAnswer, RequestHash: [32]byte{7}},
			func(context.Context) (wire.LLMReply, error) {
				asked++
				return wire.LLMReply{Text: "five", Usage: schema.Usage{Provider: "anthropic", InputTokens: 7, OutputTokens: 2, Cost: 0.00000005}}, nil
			})
		if err != nil || reply.Text != "five" || reply.Usage.InputTokens != 7 {
			t.Errorf("got %+v, %v", reply, err)
		}
	}
	if got := row(); got != "answered anthropic 97 8 0 70 five" || asked != 1 {
		t.Errorf("asked %d times, the ledger has %q", asked, got)
	}
	// A call that was cancelled beside the reply adds what it used.
	cancelled(1)
	if got := row(); got != "answered anthropic 98 11 0 80 five" {
		t.Errorf("the ledger has %q", got)
	}
	search := llm.Call{ID: uuid.New(), Tenant: f.a.Tenant, Step: wire.Step{Step: "stage 1 rewrite"}, Task: wire.TaskRewrite}
	if err := f.RecordCancelled(t.Context(), search, schema.Usage{Provider: "openai", InputTokens: 2}); err != nil {
		t.Fatal(err)
	}
	if got := one[string](t, f, f.a, `SELECT concat_ws(' ', outcome, provider, input_tokens) FROM llm_search_calls`); got != "cancelled openai 2" {
		t.Errorf("the ledger of searches has %q", got)
	}
	if u := f.usage(t, f.a); u.InProgress != 0 || u.ReservedTokens != 0 || u.Day.Calls != 5 || u.Day.InputTokens != 100 || u.Day.OutputTokens != 11 {
		t.Errorf("used %+v", u)
	}
}
