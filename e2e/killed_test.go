package e2e

// This file kills query workers and gateways during a hundred asynchronous questions. The language
// model is scripted: it answers from the passage that names the parcel of the question, when the
// test lets it.

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// scriptedOpenAI is a server of OpenAI's API for questions about parcels.
type scriptedOpenAI struct {
	*httptest.Server
	db      *pgxpool.Pool
	let     chan struct{} // one value for each answer that it may give; closed: all
	waiting atomic.Int32
	paid    atomic.Int32
	twice   atomic.Int32 // calls for which the ledger already has a reply
}

func newScriptedOpenAI(t *testing.T, databaseURL string) *scriptedOpenAI {
	t.Helper()
	db, err := pgxpool.New(t.Context(), databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	m := &scriptedOpenAI{db: db, let: make(chan struct{}, 1000)}
	m.Server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(m.Close)
	return m
}

var (
	askedAfter = regexp.MustCompile(`Question: (What is the number of parcel (\S+)\?)`)
	passages   = regexp.MustCompile(`(?m)^Passage (\d+)`)
)

func (m *scriptedOpenAI) serve(w http.ResponseWriter, r *http.Request) {
	var chat struct {
		Messages []struct{ Content string } `json:"messages"`
	}
	asked := []string(nil)
	if json.NewDecoder(r.Body).Decode(&chat) == nil && len(chat.Messages) > 1 {
		asked = askedAfter.FindStringSubmatch(chat.Messages[1].Content)
	}
	if asked == nil {
		http.Error(w, "this server answers after parcels alone", http.StatusBadRequest)
		return
	}
	recorded := false
	if err := m.db.QueryRow(r.Context(), `SELECT EXISTS (SELECT FROM llm_calls c JOIN questions q ON q.id = c.question_id
		WHERE q.question = $1 AND c.step = 'answer')`, asked[1]).Scan(&recorded); err == nil && recorded {
		m.twice.Add(1)
	}
	m.waiting.Add(1)
	defer m.waiting.Add(-1)
	select {
	case <-m.let:
	case <-r.Context().Done():
		return
	}
	m.paid.Add(1)
	reply := quoting(chat.Messages[1].Content, regexp.MustCompile(`Parcel `+regexp.QuoteMeta(asked[2])+` has the number \d+\.`))
	_ = complete(w, "scripted", reply, 100, 20)
}

// quoting returns an answer that quotes the first passage of a prompt with a matching sentence, or
// an empty answer if there is none.
func quoting(prompt string, sentence *regexp.Regexp) string {
	for _, part := range passages.FindAllStringSubmatchIndex(prompt, -1) {
		text := prompt[part[0]:]
		if next := passages.FindStringIndex(text[1:]); next != nil {
			text = text[:next[0]+1]
		}
		if said := sentence.FindString(text); said != "" {
			return fmt.Sprintf(`{"answer": %q, "citations": [{"passage": %s, "quote": %[1]q}]}`, said, prompt[part[2]:part[3]])
		}
	}
	return `{"answer": "", "citations": []}`
}

// complete writes a completion with its number of tokens, like a server that is compatible with
// OpenAI's.
func complete(w http.ResponseWriter, model, content string, input, output int64) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(map[string]any{"id": "1", "object": "chat.completion", "model": model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": content}}},
		"usage":   map[string]any{"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output}})
}

// killQuestions asks a hundred questions as jobs, and kills the worker and the gateway that answer
// them twice each. The test that calls it stops the other processes.
func killQuestions(t *testing.T, s *server, m *scriptedOpenAI, others map[string]*process, env map[string][]string) {
	const questions = 100
	for i := range questions {
		s.call(t, http.MethodPost, "/v1/jobs", api.Query{Collection: "workers", Query: fmt.Sprintf("What is the number of parcel workers-%03d?", i)}).want(t, http.StatusAccepted)
	}
	answered := func() (n int, jobs []schema.Job) {
		path := "/v1/jobs?limit=200"
		for _, j := range as[api.Page[schema.Job]](t, s.call(t, http.MethodGet, path, nil).want(t, http.StatusOK)).Items {
			if strings.HasPrefix(j.Question, "What is the number of parcel workers-") {
				jobs = append(jobs, j)
				if j.State.Final() {
					n++
				}
			}
		}
		return n, jobs
	}
	kill := func(name string) {
		others[name].kill()
		others[name] = s.start(t, env[name], name)
	}
	for round, name := range []string{"llm-gateway", "query-worker", "llm-gateway", "query-worker"} {
		waittest.Until(t, func() string {
			if n := m.waiting.Load(); n == 0 {
				return fmt.Sprintf("no call of %s is under way", name)
			}
			return ""
		})
		for range 10 {
			m.let <- struct{}{}
		}
		kill(name)
		if n, _ := answered(); n == questions {
			t.Fatalf("all ended before %s was killed for the time %d", name, round+1)
		}
	}
	close(m.let)
	start := time.Now()
	var jobs []schema.Job
	waittest.Until(t, func() string {
		n := 0
		if n, jobs = answered(); n < questions {
			return fmt.Sprintf("%d of %d questions have ended", n, questions)
		}
		return ""
	})
	states := map[schema.JobState]int{}
	for _, j := range jobs {
		states[j.State]++
		if j.State == schema.JobFailed && (j.Reason == nil || j.Reason.Message == "") || j.State == schema.JobCancelled {
			t.Errorf("%q ended as %s without a reason", j.Question, j.State)
		}
	}
	t.Logf("%v, the last %s after the last kill; the model was asked %d times", states, time.Since(start).Round(time.Second), m.paid.Load())
	if len(jobs) != questions || states[schema.JobAnswered] < questions*9/10 {
		t.Errorf("of %d questions %v", len(jobs), states)
	}
	if n := m.twice.Load(); n != 0 {
		t.Errorf("%d recorded replies were paid for again", n)
	}
}
