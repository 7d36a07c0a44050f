//go:build llm

package e2e

// This file ends calls to a real language model early: by a budget, by a cancelled job or a client
// that disconnects, and by the end of the model's server.

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// testModelBudget asks until a tenant's token budget is used up.
func testModelBudget(t *testing.T, s talk) {
	const tokens = 2500
	made := into[api.TenantCreated](t, s.sluice(t, "tenants", "create", "thrifty", "--json").ok(t))
	own := talk{s.withKey(made.APIKey), s.model}
	own.sluice(t, "ingest", write(t, grindle), "-c", "grindle", "--wait").ok(t)
	s.sluice(t, "tenants", "limits", made.ID.String(), "--tokens-per-day", fmt.Sprint(tokens)).ok(t)
	asked := 0
	for ; ; asked++ {
		before := s.model.count()
		question := fmt.Sprintf("What is sold at the market of Grindle on day %d?", asked)
		got := own.call(t, http.MethodPost, "/v1/ask", api.Query{Collection: "grindle", Query: question, Plan: "naive"})
		spent := own.spent(t)
		if used := spent.InputTokens + spent.OutputTokens; used > tokens || asked > 20 {
			t.Fatalf("%d questions have used %d tokens of %d", asked, used, tokens)
		}
		if got.status == http.StatusTooManyRequests {
			got.problem(t, http.StatusTooManyRequests, "")
			for _, words := range []string{fmt.Sprintf("%d tokens a day", tokens), "resets at"} {
				if !strings.Contains(string(got.body), words) {
					t.Errorf("the refusal does not say %q: %s", words, got.body)
				}
			}
			// The budget may have allowed the first call of a question, but not the repair of its
			// reply.
			if calls := s.model.since(before); len(calls) > 1 {
				t.Errorf("the model was asked %d times beyond the budget", len(calls))
			}
			t.Logf("after %d questions: %s", asked, got.body)
			break
		}
		new(outcome).read(t, got)
	}
	if asked == 0 {
		t.Error("no question had room")
	}
	before := s.model.count()
	job := awaitJob(t, own.server, own.asks(t, "What crosses the Loom?"))
	refused := job.State == schema.JobFailed && job.Reason != nil && job.Reason.Code == string(schema.CodeQuota)
	if !refused || s.model.count() != before {
		t.Errorf("the job ended as %+v", job)
	}
	// With a larger budget the same question is asked.
	s.sluice(t, "tenants", "limits", made.ID.String(), "--tokens-per-day", "100000").ok(t)
	own.put(t, api.Query{Collection: "grindle", Query: "What crosses the Loom?", Plan: "naive"})
}

// asks asks a question as a job.
func (s talk) asks(t *testing.T, question string) schema.Job {
	t.Helper()
	return into[schema.Job](t, s.sluice(t, "ask", question, "-c", "grindle", "--plan", "naive", "--async", "--json").ok(t))
}

// testModelCancel ends a question during the model's reply: by cancelling the job, or by
// disconnecting the client.
func testModelCancel(t *testing.T, s talk) {
	s.model.long.Store(true)
	for _, c := range []struct {
		name string
		ask  func(t *testing.T) (leave func())
	}{
		{"Job", func(t *testing.T) func() {
			job := s.asks(t, "When does the bell of Grindle ring?")
			return func() { s.sluice(t, "jobs", "cancel", job.ID.String()).ok(t) }
		}},
		{"Client", func(t *testing.T) func() {
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan struct{})
			body := `{"collection": "grindle", "query": "When is the market of Grindle held?", "plan": "naive"}`
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/ask", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Accept", "text/event-stream")
			request.Header.Set("Authorization", "Bearer "+s.key)
			go func() {
				defer close(gone)
				client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				if reply, err := client.Do(request); err == nil {
					<-ctx.Done()
					_ = reply.Body.Close()
				}
			}()
			return func() { cancel(); <-gone }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for len(s.model.begun) > 0 {
				<-s.model.begun
			}
			before, cancelled := s.model.count(), s.cancelled(t)
			leave := c.ask(t)
			waittest.Receive(t, s.model.begun, "a piece of the reply")
			leave()
			waittest.Until(t, func() string {
				if s.model.count() == before {
					return "the model's reply goes on"
				}
				return ""
			})
			call := s.model.since(before)[0]
			if !call.left || call.finish != "" {
				t.Errorf("the reply ended by itself: %+v", call)
			}
			s.model.idle(t)
			waittest.Until(t, func() string {
				if len(s.cancelled(t)) == len(cancelled) {
					return "the ledger does not have the cancelled call"
				}
				return ""
			})
			row := s.cancelled(t)[len(cancelled)]
			t.Logf("after %d bytes of the reply; the ledger has %d + %d tokens", len(call.reply), row[0], row[1])
			if row[0] < 100 || row[1] < 1 {
				t.Errorf("the cancelled call is counted with %v tokens", row)
			}
			waittest.Until(t, func() string {
				u := as[schema.LLMUsage](t, s.call(t, http.MethodGet, "/v1/usage", nil).want(t, http.StatusOK))
				if u.InProgress != 0 {
					return fmt.Sprintf("%d calls are still reserved for", u.InProgress)
				}
				return ""
			})
		})
	}
	s.model.long.Store(false)
	s.put(t, api.Query{Collection: "grindle", Query: "When is cheese sold at Grindle?", Plan: "naive"})
}

// cancelled returns the tokens of the cancelled calls in the ledger, oldest first.
func (s talk) cancelled(t *testing.T) (rows [][2]int) {
	t.Helper()
	db := connect(t, s.superuserURL(t))
	defer db.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // it only read
	found, err := db.Query(t.Context(),
		`SELECT input_tokens, output_tokens FROM llm_calls WHERE outcome = 'cancelled' ORDER BY created_at`)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	for found.Next() {
		var row [2]int
		if err := found.Scan(&row[0], &row[1]); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
	if err := found.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// testModelGone kills the model's server during a reply. The client receives an error.
func testModelGone(t *testing.T, s talk) {
	s.model.long.Store(true)
	s.model.dies.Store(true)
	query := api.Query{Collection: "grindle", Query: "What does crossing the bridge cost?", Plan: "naive"}
	got := s.call(t, http.MethodPost, "/v1/ask", query, "Accept", "text/event-stream")
	waittest.Receive(t, s.model.process.done, "the end of llama-server in the middle of its reply")
	for _, words := range []string{api.EventError, `"status":503`, s.model.URL} {
		if !strings.Contains(string(got.body), words) {
			t.Errorf("the stream does not say %q: %s", words, got.body)
		}
	}
	query.Query = "What does one pay at the bridge?"
	again := s.call(t, http.MethodPost, "/v1/ask", query)
	again.problem(t, http.StatusServiceUnavailable, "")
	t.Logf("in the middle of a reply: %s; then: %s", got.body, again.body)
	// Requests that need no language model still work.
	if found := search(t, s.server, "grindle", "toll of the bridge"); len(found) == 0 {
		t.Error("nothing is found")
	}
}
