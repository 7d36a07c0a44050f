package llm_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func gateway(t *testing.T, o llm.Options) *llm.Gateway {
	t.Helper()
	if o.Ledger == nil {
		o.Ledger = book{}
	}
	g, err := llm.NewGateway(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestExtractiveStandsInForNobodyWhoWritesQuestions: extractive writes no questions, and its error
// would hide that of the language model.
func TestExtractiveStandsInForNobodyWhoWritesQuestions(t *testing.T) {
	s := newScriptedOpenAI(t, turn{status: http.StatusUnauthorized})
	g := gateway(t, llm.Options{Providers: []llm.Provider{provider(t, s, llm.OpenAIOptions{}), llm.NewExtractive(nil, nil)}, Fallback: []string{"extractive"}})
	r := taskRequest(wire.TaskRewrite)
	r.Prompt = llm.PromptAsk
	if reply := g.Complete(t.Context(), r); reply.Error == nil || !strings.Contains(reply.Error.Message, "SLUICE_LLM_API_KEY") || strings.Contains(reply.Error.Message, "extractive") {
		t.Errorf("got %+v", reply)
	}
	r.Prompt = ""
	if reply := g.Complete(t.Context(), r); reply.Error != nil || reply.Usage.Provider != "extractive" {
		t.Errorf("other words of a question: %+v", reply)
	}
}

func TestAnotherProviderStandsIn(t *testing.T) {
	for _, c := range []struct {
		name  string
		first turn
		asked int
		by    string // provider that answers; empty: none
	}{
		{"healthy", turn{content: fiveDays}, 1, "openai"},
		{"down", turn{status: http.StatusServiceUnavailable}, 3, "anthropic"},
		{"busy for long", turn{status: http.StatusTooManyRequests, after: "600"}, 1, "anthropic"},
		{"a bad key", turn{status: http.StatusUnauthorized}, 1, "anthropic"},
		{"no JSON, twice", turn{content: "Five days, I think."}, 2, "anthropic"},
	} {
		one, other := newScriptedOpenAI(t, c.first), newScriptedAnthropic(t, turn{content: fiveDays})
		g := gateway(t, llm.Options{Providers: []llm.Provider{provider(t, one, llm.OpenAIOptions{}), other.provider(t, llm.AnthropicOptions{})},
			Fallback: []string{"anthropic"}, Prices: map[string]llm.Price{"openai": {Input: 1, Output: 2}, "anthropic": {Input: 10, Output: 20}}})
		reply := g.Complete(t.Context(), request(leave))
		if reply.Error != nil || reply.Usage.Provider != c.by || len(one.seen()) != c.asked {
			t.Errorf("%s: got %+v after %d requests", c.name, reply, len(one.seen()))
		}
		want := schema.Usage{InputTokens: 100, OutputTokens: 20, Cost: 0.00014}
		switch {
		case c.first.status != 0:
			want.Cost = 0.0014
		case c.by == "anthropic": // the first provider was paid, too
			want = schema.Usage{InputTokens: 300, OutputTokens: 60, Cost: 0.00168}
		}
		if u := reply.Usage; u.InputTokens != want.InputTokens || u.OutputTokens != want.OutputTokens || u.Cost != want.Cost {
			t.Errorf("%s: used %+v, want %+v", c.name, u, want)
		}
	}
	// A request that names a provider has no fallback.
	one, other := newScriptedOpenAI(t, turn{status: http.StatusUnauthorized}), newScriptedAnthropic(t, turn{content: fiveDays})
	g := gateway(t, llm.Options{Providers: []llm.Provider{provider(t, one, llm.OpenAIOptions{}), other.provider(t, llm.AnthropicOptions{})}, Fallback: []string{"anthropic"}})
	r := request(leave)
	r.Provider = "openai"
	if reply := g.Complete(t.Context(), r); reply.Error == nil || !strings.Contains(reply.Error.Message, "SLUICE_LLM_API_KEY") || len(other.seen()) != 0 {
		t.Errorf("got %+v", reply)
	}
	// If no provider can answer, the error has the reasons of all, and the code of the first.
	other.mu.Lock()
	other.turns = []turn{{status: http.StatusUnauthorized}}
	other.mu.Unlock()
	reply := g.Complete(t.Context(), request(leave))
	if reply.Error == nil || reply.Error.Code != schema.CodeInternal || !strings.Contains(reply.Error.Message, "SLUICE_LLM_API_KEY") || !strings.Contains(reply.Error.Message, "SLUICE_LLM_ANTHROPIC_API_KEY") {
		t.Errorf("got %+v", reply)
	}
	if _, err := llm.NewGateway(llm.Options{Providers: []llm.Provider{fixedProvider{}}, Fallback: []string{"nobody"}}); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("got %v", err)
	}
}

// faulty is a model behind an API that fails until repaired is set.
type faulty struct {
	asked    atomic.Int32
	repaired atomic.Bool
}

func (*faulty) Name() string  { return "faulty" }
func (*faulty) Model() string { return "m" }

func (p *faulty) Complete(context.Context, wire.LLMRequest) (llm.Completion, error) {
	p.asked.Add(1)
	if !p.repaired.Load() {
		return llm.Completion{}, &schema.RemoteError{Code: schema.CodeUnavailable, Message: "out of order"}
	}
	return llm.Completion{Text: "Five days.", Quotes: []wire.Quote{{End: 5}}}, nil
}

func TestWhatKeepsFailingIsLeftAloneManyAtOnce(t *testing.T) {
	p := &faulty{}
	g := gateway(t, llm.Options{Providers: []llm.Provider{p}, BreakerPause: time.Hour, Ledger: noopLedger{}})
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { g.Complete(context.Background(), request(leave)) })
	}
	all.Wait()
	asked := p.asked.Load()
	if asked < 5 || asked > 50 {
		t.Errorf("asked %d times", asked)
	}
	reply := g.Complete(t.Context(), request(leave))
	if reply.Error == nil || reply.Error.Code != schema.CodeUnavailable || !strings.Contains(reply.Error.Message, "not called for") || p.asked.Load() != asked {
		t.Errorf("got %+v", reply.Error)
	}
}

func TestWhatWasMendedIsAskedAgain(t *testing.T) {
	p := &faulty{}
	g := gateway(t, llm.Options{Providers: []llm.Provider{p}, BreakerPause: time.Nanosecond})
	for range 5 {
		g.Complete(t.Context(), request(leave))
	}
	p.repaired.Store(true)
	if reply := g.Complete(t.Context(), request(leave)); reply.Error != nil || reply.Text != "Five days." {
		t.Errorf("got %+v", reply)
	}
}

// An error that a person must fix is returned each time: it opens no breaker.
func TestABadKeyIsToldEachTime(t *testing.T) {
	s := newScriptedOpenAI(t, turn{status: http.StatusUnauthorized})
	g := gateway(t, llm.Options{Providers: []llm.Provider{provider(t, s, llm.OpenAIOptions{})}, BreakerPause: time.Hour})
	for range 8 {
		if reply := g.Complete(t.Context(), request(leave)); reply.Error == nil || !strings.Contains(reply.Error.Message, "SLUICE_LLM_API_KEY") {
			t.Fatalf("got %+v", reply)
		}
	}
	if n := len(s.seen()); n != 8 {
		t.Errorf("asked %d times", n)
	}
}

// noopLedger is a ledger that stores nothing.
type noopLedger struct{}

func (noopLedger) Once(ctx context.Context, _ llm.Call, complete func(context.Context) (wire.LLMReply, error)) (wire.LLMReply, error) {
	return complete(ctx)
}
