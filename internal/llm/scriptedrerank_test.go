package llm_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// scriptedrerank is a server that reranks, with Cohere's API and that of Text Embeddings Inference.
// A text's score is a tenth of its length, and scores come best first. If body is set it is the
// reply.
type scriptedrerank struct {
	*httptest.Server
	body string

	mu    sync.Mutex
	asked []rerankAsked
}

type rerankAsked struct {
	Model, Query string
	Documents    []string
	TopN         int `json:"top_n"`
	Texts        []string
	Raw          bool `json:"raw_scores"`
	path, key    string
}

func newScriptedRerank(t *testing.T, body string) *scriptedrerank {
	t.Helper()
	s := &scriptedrerank{body: body}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *scriptedrerank) serve(w http.ResponseWriter, r *http.Request) {
	var asked rerankAsked
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	asked.path, asked.key = r.URL.Path, r.Header.Get("Authorization")
	s.mu.Lock()
	s.asked = append(s.asked, asked)
	s.mu.Unlock()
	if s.body != "" {
		_, _ = w.Write([]byte(s.body))
		return
	}
	name, texts := "relevance_score", asked.Documents
	if texts == nil {
		name, texts = "score", asked.Texts
	}
	var rows []string
	for i := len(texts) - 1; i >= 0; i-- {
		rows = append(rows, fmt.Sprintf(`{"index": %d, %q: %g}`, i, name, float64(len(texts[i]))/10))
	}
	list := "[" + strings.Join(rows, ",") + "]"
	if asked.Documents != nil {
		list = `{"results": ` + list + `, "usage": {"total_tokens": 10}}`
	}
	_, _ = w.Write([]byte(list))
}

func (s *scriptedrerank) seen() []rerankAsked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]rerankAsked(nil), s.asked...)
}
