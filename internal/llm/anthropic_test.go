package llm_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const fiveDays = `{"answer":"Five days.","citations":[{"sentence":1,"passage":1,"quote":"It ends on 31 March."}]}`

func TestAnthropicIsAskedAsItsAPIHasIt(t *testing.T) {
	s := newScriptedAnthropic(t, turn{content: "Here it is:\n" + fiveDays})
	c, err := s.provider(t, llm.AnthropicOptions{Key: "secret", MaxTokens: 77}).Complete(t.Context(), request(leave))
	if err != nil || c.Text != "Five days." || len(c.Quotes) != 1 || c.InputTokens != 100 || c.OutputTokens != 20 || c.Model != "test-model" {
		t.Fatalf("got %+v, %v", c, err)
	}
	r, h := s.seen()[0], s.headers[0]
	if s.paths[0] != "/v1/messages" || h.Get("X-Api-Key") != "secret" || h.Get("Anthropic-Version") != "2023-06-01" || h.Get("Content-Type") != "application/json" {
		t.Errorf("asked %s with %v", s.paths[0], h)
	}
	if r.Model != "test-model" || r.MaxTokens != 77 || r.Stream || r.Temperature == nil || *r.Temperature != 0 || len(r.Messages) != 1 || r.Messages[0].Role != "user" {
		t.Errorf("the request is %+v", r)
	}
	if !strings.Contains(r.System, "using only passages") || strings.Contains(r.System, leave[0].Text) || !strings.Contains(r.Messages[0].Content, leave[0].Text) {
		t.Errorf("the prompts are %s\n%s", r.System, r.Messages[0].Content)
	}
}

// Both providers send the same prompts for each task.
func TestAnthropicGetsTheSamePrompts(t *testing.T) {
	for task, reply := range map[wire.LLMTask]string{
		wire.TaskAnswer: fiveDays, wire.TaskRewrite: `{"question": "x"}`, wire.TaskFilter: `{"scores": [0, 1]}`,
		wire.TaskRelevance: `{"scores": [0, 1]}`, wire.TaskReflect: `{"scores": [0, 1]}`, wire.TaskCritic: `{"scores": [0, 1]}`,
	} {
		one, other := newScriptedOpenAI(t, turn{content: reply}), newScriptedAnthropic(t, turn{content: reply})
		r := taskRequest(task)
		_, err := provider(t, one, llm.OpenAIOptions{}).Complete(t.Context(), r)
		_, err2 := other.provider(t, llm.AnthropicOptions{}).Complete(t.Context(), r)
		if err != nil || err2 != nil {
			t.Errorf("%s: %v, %v", task, err, err2)
			continue
		}
		// The fences' marks are random.
		words := func(s string) string {
			if _, after, ok := strings.Cut(s, "--- begin "); ok {
				mark, _, _ := strings.Cut(after, " ")
				s = strings.ReplaceAll(s, mark, "MARK")
			}
			return s
		}
		a, b := one.seen()[0], other.seen()[0]
		if a.Messages[0].Content != b.System || words(a.Messages[1].Content) != words(b.Messages[0].Content) {
			t.Errorf("%s: the prompts differ:\n%s\n%s", task, a.Messages[1].Content, b.Messages[0].Content)
		}
	}
}

func TestAnthropicAsksOnceMoreForJSON(t *testing.T) {
	s := newScriptedAnthropic(t, turn{content: ""}, turn{content: fiveDays})
	c, err := s.provider(t, llm.AnthropicOptions{}).Complete(t.Context(), request(leave))
	if err != nil || c.Text != "Five days." || c.InputTokens != 200 {
		t.Fatalf("got %+v, %v", c, err)
	}
	if m := s.seen()[1].Messages; len(m) != 3 || m[1].Role != "assistant" || m[1].Content == "" || !strings.Contains(m[2].Content, "JSON object") {
		t.Errorf("asked again with %+v", m)
	}
	s = newScriptedAnthropic(t, turn{content: `{"answer": "Fi`, finish: "max_tokens"})
	_, err = s.provider(t, llm.AnthropicOptions{}).Complete(t.Context(), request(leave))
	wantError(t, err, schema.CodeInternal, "SLUICE_LLM_MAX_TOKENS")
	if n := len(s.seen()); n != 1 {
		t.Errorf("a reply that was cut was asked for %d times", n)
	}
}

func TestAnthropicThatTakesNoTemperature(t *testing.T) {
	s := newScriptedAnthropic(t, turn{status: http.StatusBadRequest, content: "`temperature` is deprecated for this model."}, turn{content: fiveDays})
	p := s.provider(t, llm.AnthropicOptions{})
	for range 2 {
		if _, err := p.Complete(t.Context(), request(leave)); err != nil {
			t.Fatal(err)
		}
	}
	if seen := s.seen(); len(seen) != 3 || seen[0].Temperature == nil || seen[1].Temperature != nil || seen[2].Temperature != nil {
		t.Errorf("asked %+v", seen)
	}
}

func TestAnthropicErrorsSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		turn     turn
		code     schema.Code
		message  string
		requests int
	}{
		{turn{status: http.StatusUnauthorized}, schema.CodeInternal, "SLUICE_LLM_ANTHROPIC_API_KEY", 1},
		{turn{status: http.StatusNotFound}, schema.CodeInternal, "SLUICE_LLM_ANTHROPIC_MODEL", 1},
		{turn{status: http.StatusBadRequest}, schema.CodeInternal, "scripted failure", 1},
		{turn{status: http.StatusTooManyRequests}, schema.CodeOverloaded, "429", 3},
		{turn{status: http.StatusTooManyRequests, after: "3600"}, schema.CodeOverloaded, "wait 1h0m0s", 1},
		{turn{status: 529}, schema.CodeUnavailable, "try again later", 3},
		{turn{broken: true}, schema.CodeUnavailable, "broke off its reply", 3},
	} {
		s := newScriptedAnthropic(t, c.turn)
		_, err := s.provider(t, llm.AnthropicOptions{Key: "secret"}).Complete(t.Context(), request(leave))
		wantError(t, err, c.code, c.message)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: the key is in the error: %v", c.turn, err)
		}
		if n := len(s.seen()); n != c.requests {
			t.Errorf("%+v: asked %d times, want %d", c.turn, n, c.requests)
		}
	}
	s := newScriptedAnthropic(t, turn{hang: true})
	_, err := s.provider(t, llm.AnthropicOptions{Timeout: 100 * time.Millisecond}).Complete(t.Context(), request(leave))
	wantError(t, err, schema.CodeDeadline, "SLUICE_LLM_TIMEOUT")
	for field, o := range map[string]llm.AnthropicOptions{
		"SLUICE_LLM_ANTHROPIC_BASE_URL": {BaseURL: "localhost", Model: "m"},
		"SLUICE_LLM_ANTHROPIC_MODEL":    {Key: "k"},
		"SLUICE_LLM_ANTHROPIC_API_KEY":  {Model: "m"},
	} {
		_, err := llm.NewAnthropic(o)
		var wrong *schema.FieldError
		if !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("got %v, want a FieldError on %s", err, field)
		}
	}
}

// A call that broke off or took too long may have to be paid.
func TestWhatBreaksOffIsCounted(t *testing.T) {
	s := newScriptedAnthropic(t, turn{status: 529}, turn{broken: true}, turn{content: fiveDays})
	c, err := s.provider(t, llm.AnthropicOptions{}).Complete(t.Context(), request(leave))
	if err != nil || c.InputTokens < 100+200 || c.InputTokens > 100+600 || c.OutputTokens != 20 {
		t.Errorf("got %+v, %v", c, err)
	}
	s = newScriptedAnthropic(t, turn{hang: true})
	c, err = s.provider(t, llm.AnthropicOptions{Timeout: 100 * time.Millisecond}).Complete(t.Context(), request(leave))
	if err == nil || c.InputTokens < 200 || c.InputTokens > 600 {
		t.Errorf("got %+v, %v", c, err)
	}
	s = newScriptedAnthropic(t, turn{status: http.StatusUnauthorized})
	if c, err = s.provider(t, llm.AnthropicOptions{}).Complete(t.Context(), request(leave)); err == nil || c.InputTokens != 0 {
		t.Errorf("got %+v, %v", c, err)
	}
}

// The wait that a server asks for takes precedence over our own pause, which is a millisecond here.
func TestRetryAfterIsKept(t *testing.T) {
	s := newScriptedOpenAI(t, turn{status: http.StatusTooManyRequests, after: "0.05"}, turn{status: http.StatusServiceUnavailable}, turn{content: fiveDays})
	start := time.Now()
	c, err := provider(t, s, llm.OpenAIOptions{}).Complete(t.Context(), request(leave))
	took := time.Since(start) //house:clock it waits for at least as long as it was told to
	if err != nil || c.Text != "Five days." || len(s.seen()) != 3 || took < 40*time.Millisecond {
		t.Errorf("got %+v, %v after %s and %d requests", c, err, took, len(s.seen()))
	}
}
