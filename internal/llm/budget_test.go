package llm_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// scriptedaccounts admit atOnce calls at once, and keep what is recorded.
type scriptedaccounts struct {
	atOnce    int
	mu        sync.Mutex
	open      map[uuid.UUID]llm.Reservation
	maxOpen   int
	settled   []schema.Usage
	cancelled []schema.Usage // of calls that were cancelled
	searches  []schema.Usage
	refusal   error // of every reservation
}

func (a *scriptedaccounts) Reserve(_ context.Context, r llm.Reservation) (time.Duration, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refusal != nil {
		return 0, a.refusal
	}
	if a.open == nil {
		a.open = map[uuid.UUID]llm.Reservation{}
	}
	if had, ok := a.open[r.ID]; ok != r.More {
		return 0, &schema.RemoteError{Code: schema.CodeInternal, Message: "no such reservation"}
	} else if ok {
		r.Tokens += had.Tokens
		r.Nanos += had.Nanos
	} else if len(a.open) >= a.atOnce {
		return time.Millisecond, &schema.RemoteError{Code: schema.CodeOverloaded, Message: "too many at once"}
	}
	a.open[r.ID] = r
	a.maxOpen = max(a.maxOpen, len(a.open))
	return 0, nil
}

func (a *scriptedaccounts) RecordCancelled(_ context.Context, call llm.Call, u schema.Usage) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, call.ID)
	a.cancelled = append(a.cancelled, u)
	return nil
}

func (a *scriptedaccounts) Settle(_ context.Context, _, id uuid.UUID, u schema.Usage) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, id)
	a.settled = append(a.settled, u)
	return nil
}

func (a *scriptedaccounts) Record(_ context.Context, c llm.Call, reply wire.LLMReply) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, c.ID)
	a.searches = append(a.searches, reply.Usage)
	return nil
}

// search is a request of a search. Its reply goes to Accounts.Record, so no ledger is needed.
func search() wire.LLMRequest {
	r := taskRequest(wire.TaskFilter)
	r.Step.Question = uuid.Nil
	return r
}

func TestCallsWaitAtLimitsManyAtOnce(t *testing.T) {
	a := &scriptedaccounts{atOnce: 2}
	g := gateway(t, llm.Options{Providers: []llm.Provider{fixedProvider{Completion: llm.Completion{Scores: []float64{0, 1}}}}, Accounts: a, MaxWait: time.Minute})
	var all sync.WaitGroup
	var answered atomic.Int32
	r := search()
	for range 50 {
		all.Go(func() {
			if reply := g.Complete(context.Background(), r); reply.Error == nil {
				answered.Add(1)
			}
		})
	}
	all.Wait()
	if answered.Load() != 50 || a.maxOpen > 2 || len(a.open) != 0 || len(a.searches) != 50 {
		t.Errorf("%d answered, %d at once, %d open, %d recorded", answered.Load(), a.maxOpen, len(a.open), len(a.searches))
	}
}

func TestImpatienceIsOverloaded(t *testing.T) {
	a := &scriptedaccounts{atOnce: 0}
	p := &faulty{}
	p.repaired.Store(true)
	g := gateway(t, llm.Options{Providers: []llm.Provider{provider(t, newScriptedOpenAI(t, turn{content: fiveDays}), llm.OpenAIOptions{}), p}, Fallback: []string{"faulty"},
		Accounts: a, MaxWait: 5 * time.Millisecond})
	for range 8 { // more failures than open a breaker
		reply := g.Complete(t.Context(), request(leave))
		if reply.Error == nil || reply.Error.Code != schema.CodeOverloaded || !strings.Contains(reply.Error.Message, "too many at once") {
			t.Fatalf("got %+v", reply)
		}
	}
	if p.asked.Load() != 0 {
		t.Error("another provider stood in for a tenant's limit")
	}
	a.refusal = &schema.RemoteError{Code: schema.CodeQuota, Message: "used up"}
	if reply := g.Complete(t.Context(), request(leave)); reply.Error == nil || reply.Error.Code != schema.CodeQuota || reply.Error.Message != "used up" {
		t.Errorf("got %+v", reply)
	}
}

// The reservation covers every call for one reply, and calls that failed are paid for, too.
func TestEveryCallIsReserved(t *testing.T) {
	a := &scriptedaccounts{atOnce: 1}
	one := newScriptedOpenAI(t, turn{content: "Five days, I think."})
	other := newScriptedAnthropic(t, turn{status: http.StatusUnauthorized})
	g := gateway(t, llm.Options{Providers: []llm.Provider{provider(t, one, llm.OpenAIOptions{MaxTokens: 300}), other.provider(t, llm.AnthropicOptions{MaxTokens: 300})},
		Fallback: []string{"anthropic"}, Prices: map[string]llm.Price{"openai": {Input: 1, Output: 10}}, Accounts: a, Ledger: hookLedger{func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			for _, r := range a.open { // three calls, of 300 tokens out and some in
				if r.Tokens < 3*(300+100) || r.Tokens > 3*(300+1200) || r.Nanos < 2*(300*10+100)*1000 || r.TTL < time.Minute {
					t.Errorf("reserved %+v", r)
				}
			}
			if len(a.open) != 1 {
				t.Errorf("%d reservations", len(a.open))
			}
		}}})
	if reply := g.Complete(t.Context(), request(leave)); reply.Error == nil {
		t.Errorf("got %+v", reply)
	}
	if len(a.open) != 0 || len(a.settled) != 1 || a.settled[0].InputTokens != 200 || a.settled[0].OutputTokens != 40 || a.settled[0].Cost != 0.0006 {
		t.Errorf("settled %+v, open %+v", a.settled, a.open)
	}
}

// hookLedger is a ledger that stores nothing and calls a function after each call.
type hookLedger struct{ after func() }

func (w hookLedger) Once(ctx context.Context, _ llm.Call, complete func(context.Context) (wire.LLMReply, error)) (wire.LLMReply, error) {
	defer w.after()
	return complete(ctx)
}
