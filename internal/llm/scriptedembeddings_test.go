package llm_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// embeddingsTurn is the reply of a scriptedembeddings to one request.
type embeddingsTurn struct {
	status  int
	after   string // Retry-After
	body    string // in place of vectors
	hang    bool   // until the client gives up
	numbers int    // of each vector; 0: as many as requested
}

// scriptedembeddings is a server with OpenAI's embeddings. The vector of a text is (its length, 1,
// 0 ...), and vectors come in the reverse order of the texts. It replies to each request with the
// next turn of its script; the last turn repeats.
type scriptedembeddings struct {
	*httptest.Server
	mu       sync.Mutex
	turns    []embeddingsTurn
	requests []embeddingsRequest
	keys     []string
	began    chan struct{}
}

type embeddingsRequest struct {
	Model      string
	Input      []string
	Dimensions int
	Path       string
}

func newScriptedEmbeddings(t *testing.T, turns ...embeddingsTurn) *scriptedembeddings {
	t.Helper()
	s := &scriptedembeddings{turns: append(turns, embeddingsTurn{}), began: make(chan struct{}, 100)}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *scriptedembeddings) serve(w http.ResponseWriter, r *http.Request) {
	var asked embeddingsRequest
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	asked.Path = r.URL.Path
	s.mu.Lock()
	s.requests, s.keys = append(s.requests, asked), append(s.keys, r.Header.Get("Authorization"))
	now := s.turns[0]
	if len(s.turns) > 1 {
		s.turns = s.turns[1:]
	}
	s.mu.Unlock()
	s.began <- struct{}{}
	switch {
	case now.hang:
		<-r.Context().Done()
	case now.status != 0:
		w.Header().Set("Retry-After", now.after)
		w.WriteHeader(now.status)
		_, _ = w.Write([]byte(`{"error": {"message": "scripted failure"}}`))
	case now.body != "":
		_, _ = w.Write([]byte(now.body))
	default:
		type row struct {
			Index     int       `json:"index"`
			Embedding []float64 `json:"embedding"`
		}
		var data []row
		tokens := 0
		for i := len(asked.Input) - 1; i >= 0; i-- {
			v := make([]float64, max(now.numbers, 4))
			v[0], v[1] = float64(len(asked.Input[i])), 1
			if now.numbers != 0 {
				v = v[:now.numbers]
			}
			data = append(data, row{i, v})
			tokens += 10
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data, "usage": map[string]int{"prompt_tokens": tokens, "total_tokens": tokens}})
	}
}

func (s *scriptedembeddings) seen() []embeddingsRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]embeddingsRequest(nil), s.requests...)
}
