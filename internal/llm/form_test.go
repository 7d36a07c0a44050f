package llm_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestServersAreSentTheFormOfTheReply: the schema has the members that each task's prompt asks for,
// in the order of the prompt.
func TestServersAreSentTheFormOfTheReply(t *testing.T) {
	chosen := request(leave)
	chosen.Choices = []string{"Two days", "Five days"}
	feedback := taskRequest(wire.TaskFeedback)
	feedback.Answer = "Five."
	for name, c := range map[string]struct {
		request wire.LLMRequest
		reply   string
		form    []string // substrings of it, in this order
	}{
		"answer": {request(leave), `{"answer":"","citations":[]}`, []string{`"answer":{"type":"string"}`, `"citations"`, `"sentence"`, `"passage"`,
			`"maximum":2`, `"quote"`, `"required":["answer","citations"]`, `"additionalProperties":false`}},
		"choice":     {chosen, `{"answer":"","choice":"","citations":[]}`, []string{`"answer"`, `"enum":["","A","B"]`, `"citations"`}},
		"rewrite":    {taskRequest(wire.TaskRewrite), `{"question":"x"}`, []string{`"question"`}},
		"passage":    {passageFor(), `{"passage":"x"}`, []string{`"passage"`}},
		"critic":     {taskRequest(wire.TaskCritic), `{"scores":[0,1]}`, []string{`"minItems":2`, `"maxItems":2`, `"type":"number"`}},
		"filter":     {taskRequest(wire.TaskFilter), `{"scores":[0,1]}`, []string{`"minItems":2`, `"enum":[0,1]`}},
		"feedback":   {feedback, `{"score":3,"adjust":1}`, []string{`"score"`, `"adjust"`, `"enum":[1,-1]`}},
		"background": {taskRequest(wire.TaskBackground), `{"background":"","answer":""}`, []string{`"background"`, `"answer"`}},
	} {
		for _, format := range []string{llm.FormatSchema, llm.FormatObject, llm.FormatText, ""} {
			s := newScriptedOpenAI(t, turn{content: c.reply})
			if _, err := provider(t, s, llm.OpenAIOptions{Format: format}).Complete(t.Context(), c.request); err != nil {
				t.Fatalf("%s, %s: %v", name, format, err)
			}
			sent := s.seen()[0].ResponseFormat
			switch format {
			case llm.FormatText:
				if sent.Type != "" {
					t.Errorf("%s: sent %+v", name, sent)
				}
				continue
			case llm.FormatObject:
				if sent.Type != "json_object" || sent.Schema.Schema != nil {
					t.Errorf("%s: sent %+v", name, sent)
				}
				continue
			}
			form := string(sent.Schema.Schema)
			if sent.Type != "json_schema" || !sent.Schema.Strict || sent.Schema.Name == "" || !json.Valid(sent.Schema.Schema) {
				t.Errorf("%s: sent %+v", name, sent)
			}
			rest := form
			for _, piece := range c.form {
				_, after, found := strings.Cut(rest, piece)
				if !found {
					t.Errorf("%s: %s is not where it should be in %s", name, piece, form)
				}
				rest = after
			}
		}
	}
	if _, err := llm.NewOpenAI(llm.OpenAIOptions{Model: "m", Format: "yaml"}); err == nil || !strings.Contains(err.Error(), "SLUICE_LLM_FORMAT") {
		t.Errorf("an unknown format gave %v", err)
	}
}

// reserving are accounts that keep the tokens of the last reservation.
type reserving struct {
	scriptedaccounts
	tokens int64
}

func (a *reserving) Reserve(ctx context.Context, r llm.Reservation) (time.Duration, error) {
	a.tokens = r.Tokens
	return a.scriptedaccounts.Reserve(ctx, r)
}

// TestTheFormIsReservedFor: some servers count the schema as part of the prompt.
func TestTheFormIsReservedFor(t *testing.T) {
	reserved := map[string]int64{}
	for _, format := range []string{llm.FormatObject, llm.FormatSchema} {
		a := &reserving{scriptedaccounts: scriptedaccounts{atOnce: 1}}
		s := newScriptedOpenAI(t, turn{content: `{"scores":[0,1]}`})
		g := gateway(t, llm.Options{Providers: []llm.Provider{provider(t, s, llm.OpenAIOptions{Format: format})}, Accounts: a})
		if reply := g.Complete(t.Context(), search()); reply.Error != nil {
			t.Fatal(reply.Error)
		}
		reserved[format] = a.tokens
	}
	if reserved[llm.FormatObject] == 0 || reserved[llm.FormatSchema] < reserved[llm.FormatObject]+20 {
		t.Errorf("reserved %v tokens", reserved)
	}
}
