package llm_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// scriptedopenai is a server that speaks the chat completions API and replies
// as its script says, one turn per request; the last turn repeats.
type scriptedopenai struct {
	*httptest.Server
	mu       sync.Mutex
	turns    []turn
	requests []chat
	keys     []string
}

type turn struct {
	status  int
	content string
	hang    bool // until the client gives up
	silent  bool // about tokens
}

type chat struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
	MaxTokens      int `json:"max_tokens"`
	ResponseFormat struct {
		Type string `json:"type"`
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
	case now.hang:
		<-r.Context().Done()
	case now.status != 0:
		w.WriteHeader(now.status)
		_, _ = w.Write([]byte(`{"error":{"message":"scripted failure","type":"x","code":"y","param":""}}`))
	default:
		reply := map[string]any{
			"id": "1", "object": "chat.completion", "created": 1, "model": c.Model,
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": now.content}}},
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
