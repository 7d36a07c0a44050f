package llm_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// partialReply is the beginning of a reply that never continues.
const partialReply = `{"answer": "You may carry over up to five`

// cancelsAt calls cancel after it received that many bytes of an answer.
type cancelsAt struct {
	bytes  int
	cancel func()
}

func (c *cancelsAt) Send(_ string, d wire.LLMDelta) {
	if c.bytes -= len(d.Text); c.bytes <= 0 {
		c.cancel()
	}
}

// A cancelled call ends at its provider. What it used is counted. It is no failure of the provider:
// no fallback answers, and no breaker opens.
func TestACancelledCallEndsAndCounts(t *testing.T) {
	server, other := newScriptedOpenAI(t, turn{content: partialReply, hang: true}), newScriptedOpenAI(t, turn{content: fiveDays})
	accounts := &scriptedaccounts{atOnce: 10}
	canceller := &cancelsAt{}
	g := gateway(t, llm.Options{Providers: []llm.Provider{provider(t, server, llm.OpenAIOptions{}), named{provider(t, other, llm.OpenAIOptions{}), "other"}},
		Fallback: []string{"other"}, Accounts: accounts, Deltas: canceller, Prices: map[string]llm.Price{"openai": {Input: 1, Output: 10}}})
	const calls = 7 // more than failures that open a breaker
	for range calls {
		ctx, cancel := context.WithCancelCause(t.Context())
		canceller.bytes, canceller.cancel = len("You may carry over up to"), func() { cancel(errors.New("the asker left")) }
		r := request(leave)
		r.Stream = "_INBOX.asker.text"
		if reply := g.Complete(ctx, r); reply.Error == nil || reply.Error.Code != schema.CodeUnavailable || reply.Error.Message != "the completion was cancelled: the asker left" {
			t.Fatalf("got %+v", reply)
		}
	}
	if len(server.seen()) != calls || len(other.seen()) != 0 {
		t.Errorf("%d calls, and %d of who stands in", len(server.seen()), len(other.seen()))
	}
	if len(accounts.cancelled) != calls || len(accounts.settled) != 0 || len(accounts.open) != 0 {
		t.Fatalf("%d given up, %d settled otherwise, %d still open", len(accounts.cancelled), len(accounts.settled), len(accounts.open))
	}
	u := accounts.cancelled[0]
	if u.Provider != "openai" || u.Model != "test-model" || u.InputTokens < 50 || u.OutputTokens < 6 || u.Cost <= 0 || u.Millis <= 0 {
		t.Errorf("counted %+v", u)
	}
}

// A call that is cancelled before its provider was called has used nothing, and is not recorded.
func TestACallThatNeverBeganCostsNothing(t *testing.T) {
	server, accounts := newScriptedOpenAI(t, turn{hang: true}), &scriptedaccounts{atOnce: 0}
	g := gateway(t, llm.Options{Providers: []llm.Provider{provider(t, server, llm.OpenAIOptions{})}, Accounts: accounts})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if reply := g.Complete(ctx, request(leave)); reply.Error == nil {
		t.Errorf("got %+v", reply)
	}
	if len(server.seen())+len(accounts.cancelled)+len(accounts.settled) != 0 {
		t.Errorf("asked %d times, counted %+v", len(server.seen()), accounts.cancelled)
	}
}

// named is a provider under another name.
type named struct {
	llm.Provider
	name string
}

func (n named) Name() string { return n.name }
