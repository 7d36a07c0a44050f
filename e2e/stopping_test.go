package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// testStopping stops a server whose language model hangs, with a job and a direct question in
// progress. The server ends in time and without an error, and the job is answered after the next
// start.
func testStopping(t *testing.T, p programs) {
	var hangs atomic.Bool
	hangs.Store(true)
	began, left := make(chan struct{}, 100), make(chan struct{}, 100)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var chat struct{ Stream bool }
		_ = json.NewDecoder(r.Body).Decode(&chat)
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(content, finish string) {
			_, _ = fmt.Fprintf(w, `data: {"id":"1","choices":[{"index":0,"delta":{"content":%q},"finish_reason":%q}]}`+"\n\n", content, finish)
			w.(http.Flusher).Flush()
		}
		say(`{"answer": "The gate opens `, "")
		began <- struct{}{}
		if hangs.Load() {
			<-r.Context().Done()
			left <- struct{}{}
			return
		}
		say(`at seven.", "citations": [{"sentence": 1, "passage": 1, "quote": "The gate opens at seven."}]}`, "stop")
	}))
	t.Cleanup(model.Close)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "gate.txt"), []byte("The gate opens at seven. It closes at nine."), 0o600); err != nil {
		t.Fatal(err)
	}
	data := localtest.Dir(t)
	settings := []string{"SLUICE_LLM_PROVIDER=openai", "SLUICE_LLM_BASE_URL=" + model.URL + "/v1", "SLUICE_LLM_API_KEY=scripted", "SLUICE_LLM_TIMEOUT=5m"}
	s := p.up(t, data, settings...)
	s.sluice(t, "ingest", folder, "-c", "gate", "--wait").ok(t)
	job := startJob(t, s, "gate", "When does the gate open?")
	<-began
	waiting := make(chan reply, 1)
	go func() {
		waiting <- s.call(t, http.MethodPost, "/v1/ask", api.Query{Collection: "gate", Query: "And when does the gate open?"})
	}()
	<-began
	s.stop(t)
	(<-waiting).want(t, http.StatusServiceUnavailable)
	<-left
	<-left
	hangs.Store(false)
	s = p.up(t, data, settings...)
	if done := awaitJob(t, s, job); done.State != schema.JobAnswered || done.Result == nil || done.Result.Answer != "The gate opens at seven." {
		t.Errorf("after a start the job is %+v", done)
	}
	s.stop(t)
}
