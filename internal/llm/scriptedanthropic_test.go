package llm_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/llm"
)

// scriptedanthropic is a server of the Messages API. It replies to each request with the next turn
// of its script; the last turn repeats.
type scriptedanthropic struct {
	*httptest.Server
	mu       sync.Mutex
	turns    []turn
	requests []letter
	headers  []http.Header
	paths    []string
}

type letter struct {
	Model       string   `json:"model"`
	MaxTokens   int      `json:"max_tokens"`
	System      string   `json:"system"`
	Stream      bool     `json:"stream"`
	Temperature *float64 `json:"temperature"`
	Messages    []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"messages"`
}

func newScriptedAnthropic(t *testing.T, turns ...turn) *scriptedanthropic {
	t.Helper()
	s := &scriptedanthropic{turns: turns}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *scriptedanthropic) provider(t *testing.T, o llm.AnthropicOptions) *llm.Anthropic {
	t.Helper()
	o.BaseURL, o.Model, o.Pause = s.URL, "test-model", time.Millisecond
	p, err := llm.NewAnthropic(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func (s *scriptedanthropic) serve(w http.ResponseWriter, r *http.Request) {
	var l letter
	if err := json.NewDecoder(r.Body).Decode(&l); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.requests, s.headers, s.paths = append(s.requests, l), append(s.headers, r.Header), append(s.paths, r.URL.Path)
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
		if now.after != "" {
			w.Header().Set("Retry-After", now.after)
		}
		w.WriteHeader(now.status)
		content := now.content
		if content == "" {
			content = "scripted failure"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "error", "error": map[string]any{"type": "x", "message": content}})
	case l.Stream:
		w.Header().Set("Content-Type", "text/event-stream")
		event(w, "message_start", map[string]any{"type": "message_start", "message": map[string]any{"usage": map[string]any{"input_tokens": 100, "output_tokens": 1}}})
		event(w, "ping", map[string]any{"type": "ping"})
		for _, p := range now.parts() {
			event(w, "content_block_delta", map[string]any{"type": "content_block_delta", "index": 0, "delta": map[string]any{"type": "text_delta", "text": p}})
		}
		if now.broken {
			return
		}
		event(w, "message_delta", map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": finish(now, "end_turn")}, "usage": map[string]any{"output_tokens": 20}})
		event(w, "message_stop", map[string]any{"type": "message_stop"})
	case now.broken:
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"id": "1", "cont`))
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "message", "role": "assistant", "stop_reason": finish(now, "end_turn"),
			"content": []any{map[string]any{"type": "text", "text": now.content}},
			"usage":   map[string]any{"input_tokens": 60, "cache_read_input_tokens": 40, "output_tokens": 20}})
	}
}

func (s *scriptedanthropic) seen() []letter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]letter(nil), s.requests...)
}
