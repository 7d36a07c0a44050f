package llm_test

import (
	"net/http"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// trial returns a request that tries a model.
func trial(task wire.LLMTask) wire.LLMRequest {
	r := request(leave)
	r.Task, r.Step, r.Trial = task, wire.Step{Step: "trial"}, true
	if task == wire.TaskBackground {
		r.Passages = nil
	}
	return r
}

// TestTrialsAreKeptAsSearchesAre: a trial stays within the tenant's limits, belongs to no stored
// question, and has no fallback for the model that is tried.
func TestTrialsAreKeptAsSearchesAre(t *testing.T) {
	a := &scriptedaccounts{atOnce: 1}
	one, other := newScriptedOpenAI(t, turn{content: fiveDays}, turn{status: http.StatusServiceUnavailable}), newScriptedAnthropic(t, turn{content: fiveDays})
	g := gateway(t, llm.Options{Providers: []llm.Provider{provider(t, one, llm.OpenAIOptions{}), other.provider(t, llm.AnthropicOptions{})}, Fallback: []string{"anthropic"}, Accounts: a})
	reply := g.Complete(t.Context(), trial(wire.TaskAnswer))
	if reply.Error != nil || !reply.Supported || reply.Repeated || len(a.searches) != 1 || len(a.open) != 0 {
		t.Fatalf("got %+v, %d recorded", reply, len(a.searches))
	}
	if reply := g.Complete(t.Context(), trial(wire.TaskAnswer)); reply.Error == nil || len(other.seen()) != 0 {
		t.Errorf("got %+v; another provider was asked %d times", reply, len(other.seen()))
	}
	a.refusal = &schema.RemoteError{Code: schema.CodeQuota, Message: "used up"}
	if reply := g.Complete(t.Context(), trial(wire.TaskBackground)); reply.Error == nil || reply.Error.Code != schema.CodeQuota {
		t.Errorf("got %+v", reply)
	}
}

func TestTrialsAreOfNoQuestion(t *testing.T) {
	g := gateway(t, llm.Options{Providers: []llm.Provider{provider(t, newScriptedOpenAI(t, turn{content: fiveDays}), llm.OpenAIOptions{})}})
	for name, change := range map[string]func(*wire.LLMRequest){
		"a stored question": func(r *wire.LLMRequest) { r.Step.Question = uuid.New() },
		"another task":      func(r *wire.LLMRequest) { r.Task = wire.TaskFilter },
	} {
		r := trial(wire.TaskAnswer)
		change(&r)
		if reply := g.Complete(t.Context(), r); reply.Error == nil || reply.Error.Field != "trial" {
			t.Errorf("%s: got %+v", name, reply)
		}
	}
	r := trial(wire.TaskAnswer)
	r.Trial = false
	if reply := g.Complete(t.Context(), r); reply.Error == nil || reply.Error.Field != "step" {
		t.Errorf("an answer that is kept under nothing: %+v", reply)
	}
}

// TestWhoAnswersIsAskedOfNobody: the first provider of the chain is named without a call, at no
// cost.
func TestWhoAnswersIsAskedOfNobody(t *testing.T) {
	a := &scriptedaccounts{atOnce: 0}
	one := newScriptedOpenAI(t, turn{content: fiveDays})
	g := gateway(t, llm.Options{Providers: []llm.Provider{provider(t, one, llm.OpenAIOptions{}), llm.NewExtractive(nil, nil)}, Accounts: a})
	ask := wire.LLMRequest{Envelope: wire.Header(), Tenant: uuid.New(), Task: wire.TaskWho}
	if reply := g.Complete(t.Context(), ask); reply.Error != nil || reply.Usage.By() != "openai/test-model" || reply.Text != "" {
		t.Errorf("got %+v", reply)
	}
	ask.Provider = "extractive"
	if reply := g.Complete(t.Context(), ask); reply.Error != nil || reply.Usage.By() != "extractive" {
		t.Errorf("got %+v", reply)
	}
	ask.Provider = "nobody"
	if reply := g.Complete(t.Context(), ask); reply.Error == nil || reply.Error.Field != "provider" {
		t.Errorf("got %+v", reply)
	}
	if len(one.seen()) != 0 || len(a.searches) != 0 {
		t.Errorf("%d requests, %d recorded", len(one.seen()), len(a.searches))
	}
}

// TestAnUnreadableTrialIsNoAnswer: an unreadable reply is no answer. It is paid for all the same,
// and opens no breaker.
func TestAnUnreadableTrialIsNoAnswer(t *testing.T) {
	a := &scriptedaccounts{atOnce: 1}
	one := newScriptedOpenAI(t, turn{content: "Five days, I think."})
	g := gateway(t, llm.Options{Providers: []llm.Provider{provider(t, one, llm.OpenAIOptions{})}, Accounts: a})
	for range 8 { // more failures than open a breaker
		for _, task := range []wire.LLMTask{wire.TaskAnswer, wire.TaskBackground} {
			reply := g.Complete(t.Context(), trial(task))
			if reply.Error != nil || reply.Supported || len(reply.Quotes) != 0 || reply.Usage.InputTokens != 200 || task == wire.TaskBackground && reply.Text != "" {
				t.Fatalf("%s: got %+v", task, reply)
			}
		}
	}
	if len(a.searches) != 16 || len(a.open) != 0 {
		t.Errorf("%d recorded, %d open", len(a.searches), len(a.open))
	}
	if reply := g.Complete(t.Context(), request(leave)); reply.Error == nil || !reply.Error.OfProvider {
		t.Errorf("an answer that is no trial: %+v", reply)
	}
}
