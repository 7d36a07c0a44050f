package llm_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// scriptedopenai is a server of the chat completions API. It replies to each request with the next
// turn of its script; the last turn repeats.
type scriptedopenai struct {
	*httptest.Server
	mu       sync.Mutex
	turns    []turn
	requests []chat
	keys     []string
}

type turn struct {
	status  int
	after   string // Retry-After of a failure
	content string
	pieces  []string // of a streamed reply; nil: content in pieces of three characters
	finish  string   // finish reason; "stop" when empty
	hang    bool     // until the client gives up, after content was streamed
	silent  bool     // no token counts
	broken  bool     // the reply ends early
	whole   bool     // the reply is not streamed although a stream was requested
}

// parts returns the pieces of a reply as it is streamed.
func (t turn) parts() []string {
	if t.pieces != nil {
		return t.pieces
	}
	var out []string
	for s := []rune(t.content); len(s) > 0; s = s[min(3, len(s)):] {
		out = append(out, string(s[:min(3, len(s))]))
	}
	return out
}

// event writes one server-sent event.
func event(w http.ResponseWriter, name string, data any) {
	encoded, _ := json.Marshal(data)
	if name != "" {
		_, _ = fmt.Fprintf(w, "event: %s\n", name)
	}
	_, _ = fmt.Fprintf(w, "data: %s\n\n", encoded)
	w.(http.Flusher).Flush()
}

type chat struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	Stream         bool     `json:"stream"`
	Temperature    *float64 `json:"temperature"`
	MaxTokens      int      `json:"max_tokens"`
	ResponseFormat struct {
		Type   string `json:"type"`
		Schema struct {
			Name   string          `json:"name"`
			Strict bool            `json:"strict"`
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

func newScriptedOpenAI(t *testing.T, turns ...turn) *scriptedopenai {
	t.Helper()
	s := &scriptedopenai{turns: turns}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *scriptedopenai) serve(w http.ResponseWriter, r *http.Request) {
	var c chat
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.requests, s.keys = append(s.requests, c), append(s.keys, r.Header.Get("Authorization"))
	now := s.turns[0]
	if len(s.turns) > 1 {
		s.turns = s.turns[1:]
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case now.hang && (!c.Stream || now.content == ""):
		<-r.Context().Done()
	case now.status != 0:
		if now.after != "" {
			w.Header().Set("Retry-After", now.after)
		}
		w.WriteHeader(now.status)
		_, _ = w.Write([]byte(`{"error":{"message":"scripted failure","type":"x","code":"y","param":""}}`))
	case c.Stream && !now.whole:
		w.Header().Set("Content-Type", "text/event-stream")
		chunk := func(choices []any, usage any) {
			event(w, "", map[string]any{"id": "1", "object": "chat.completion.chunk", "model": c.Model, "choices": choices, "usage": usage})
		}
		for _, p := range now.parts() {
			chunk([]any{map[string]any{"index": 0, "delta": map[string]any{"content": p}}}, nil)
		}
		if now.hang {
			<-r.Context().Done()
		}
		if now.hang || now.broken {
			return
		}
		chunk([]any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": finish(now, "stop")}}, nil)
		if !now.silent {
			chunk([]any{}, map[string]any{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120})
		}
		_, _ = w.Write([]byte("data: [DONE]\n\n"))
	case now.broken:
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"id": "1", "cho`))
	default:
		reply := map[string]any{
			"id": "1", "object": "chat.completion", "created": 1, "model": c.Model,
			"choices": []any{map[string]any{"index": 0, "finish_reason": finish(now, "stop"), "message": map[string]any{"role": "assistant", "content": now.content}}},
		}
		if !now.silent {
			reply["usage"] = map[string]any{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
		}
		_ = json.NewEncoder(w).Encode(reply)
	}
}

func (s *scriptedopenai) seen() []chat {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]chat(nil), s.requests...)
}

func finish(t turn, otherwise string) string {
	if t.finish != "" {
		return t.finish
	}
	return otherwise
}
