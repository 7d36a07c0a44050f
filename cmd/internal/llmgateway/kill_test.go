package llmgateway_test

// Gateways that are killed while they generate answers.

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/cmd/internal/llmgateway"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// gatewayVariable has the childSettings of a test binary that is to run as a gateway.
const gatewayVariable = "SLUICE_TEST_GATEWAY"

type childSettings struct{ Database, NATS, Model string }

// runIfGatewayChild makes this process a gateway if a test started it as one.
func runIfGatewayChild() bool {
	encoded := os.Getenv(gatewayVariable)
	if encoded == "" {
		return false
	}
	if err := runGatewayChild([]byte(encoded)); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
	return true
}

func runGatewayChild(encoded []byte) error {
	var c childSettings
	if err := json.Unmarshal(encoded, &c); err != nil {
		return err
	}
	// It ends with the test that started it, because the pipe closes then.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	db, err := store.Open(ctx, c.Database, store.Options{MaxConns: 26})
	if err != nil {
		return err
	}
	nc, err := bus.Connect(ctx, bus.Options{URL: c.NATS, Name: "child"})
	if err != nil {
		return err
	}
	g, err := llmgateway.New(config.LLM{LLMProvider: "openai", LLMBaseURL: c.Model, LLMModel: "m", LLMTimeout: 20 * time.Second, LLMMaxTokens: 50},
		llmgateway.Deps{Store: db, NATS: nc})
	if err != nil {
		return err
	}
	if err := g.Start(ctx); err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	return ctx.Err()
}

// slowmodel answers like scriptedopenai when the test allows it, and records calls whose reply is
// in the ledger already.
type slowmodel struct {
	*httptest.Server
	db        stores.All
	tenant    uuid.UUID
	ids       map[string]uuid.UUID // of questions, by text
	asked     atomic.Int32
	paidTwice atomic.Int32  // calls that were paid again although recorded
	waiting   chan struct{} // one value for each waiting call
	release   chan struct{}
}

var asksNumber = regexp.MustCompile(`Question: (number \d+\?)`)

func (s *slowmodel) serve(w http.ResponseWriter, r *http.Request) {
	var c struct {
		Messages []struct{ Content string } `json:"messages"`
	}
	_ = json.NewDecoder(r.Body).Decode(&c)
	s.asked.Add(1)
	m := asksNumber.FindStringSubmatch(c.Messages[1].Content)
	if _, err := s.db.Reply(r.Context(), s.tenant, wire.Step{Question: s.ids[m[1]], Round: 1, Step: "answer"}); err == nil {
		s.paidTwice.Add(1)
	}
	s.waiting <- struct{}{}
	select {
	case <-s.release:
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"id": "1", "object": "chat.completion", "model": "m",
		"usage": map[string]any{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant",
			"content": `{"answer": "Five days.", "citations": [{"sentence": 1, "passage": 1, "quote": "You may carry over five days."}]}`}}}})
}

// A hundred steps are requested until each has a reply, while two gateways are killed in turn,
// three times, with calls to the model in progress.
func TestNoRecordedReplyIsPaidAgainThoughGatewaysAreKilled(t *testing.T) {
	const steps = 100
	url := localtest.Database(t)
	db := open(t, url)
	server := localtest.NATS(t)
	nc, err := bus.Connect(t.Context(), bus.Options{URL: server.URL(), Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	one := tenant(t, db, "one")
	if _, err := db.SetLLMLimits(t.Context(), schema.Principal{Tenant: one}, one, schema.LLMLimits{TokensPerDay: new(int64(1_000_000))}); err != nil {
		t.Fatal(err)
	}
	model := &slowmodel{db: db, tenant: one, ids: map[string]uuid.UUID{}, waiting: make(chan struct{}, 10*steps), release: make(chan struct{}, 10*steps)}
	requests := make([]wire.LLMRequest, steps)
	for i := range requests {
		requests[i] = question(one)
		requests[i].Question = fmt.Sprintf("number %d?", i)
		model.ids[requests[i].Question] = requests[i].Step.Question
	}
	model.Server = httptest.NewServer(http.HandlerFunc(model.serve))
	t.Cleanup(model.Close)

	settings, err := json.Marshal(childSettings{url, server.URL(), model.URL + "/v1/"})
	if err != nil {
		t.Fatal(err)
	}
	start := func() *exec.Cmd {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), gatewayVariable+"="+string(settings))
		child.Stderr = os.Stderr
		if _, err := child.StdinPipe(); err != nil { // closed by Wait
			t.Fatal(err)
		}
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("a gateway said %q, %v", line, err)
		}
		return child
	}
	kill := func(child *exec.Cmd) {
		_ = child.Process.Kill()
		_ = child.Wait()
	}
	gateways := []*exec.Cmd{start(), start()}
	defer func() {
		for _, g := range gateways {
			kill(g)
		}
	}()

	var all sync.WaitGroup
	var answered atomic.Int32
	for i := range requests {
		all.Go(func() {
			data, err := json.Marshal(requests[i])
			if err != nil {
				t.Error(err)
				return
			}
			for t.Context().Err() == nil {
				//house:clock a gateway that was killed never answers: the step is asked for again
				msg, err := nc.Request(wire.LLMSubject, data, 3*time.Second)
				if err != nil {
					continue
				}
				reply, err := wire.Decode[wire.LLMReply](msg.Data)
				switch {
				case err != nil:
					t.Error(err)
					return
				case reply.Error == nil:
					if reply.Text != "Five days." || reply.Usage.InputTokens != 100 {
						t.Errorf("got %+v", reply)
					}
					answered.Add(1)
					return
				case reply.Error.Code != schema.CodeOverloaded && reply.Error.Code != schema.CodeUnavailable:
					t.Errorf("step %d: %+v", i, reply.Error)
					return
				}
			}
		})
	}
	kills := 0
	for n := 0; answered.Load() < steps && kills < 3; n++ {
		<-model.waiting
		model.release <- struct{}{}
		if n%20 == 19 { // with its other calls in progress
			kill(gateways[kills%2])
			gateways[kills%2] = start()
			kills++
		}
	}
	for range steps * 5 {
		model.release <- struct{}{}
	}
	all.Wait()
	var kept, tokens int
	if err := db.AsTenant(t.Context(), one, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT count(*), (SELECT sum(input_tokens + output_tokens) FROM llm_days) FROM llm_calls`).Scan(&kept, &tokens)
	}); err != nil {
		t.Fatal(err)
	}
	if answered.Load() != steps || kept != steps || tokens != 120*steps || model.paidTwice.Load() != 0 || kills != 3 {
		t.Errorf("%d answered, %d kept, %d tokens, %d paid though recorded, %d kills", answered.Load(), kept, tokens, model.paidTwice.Load(), kills)
	}
	t.Logf("%d steps, %d kills, the model was asked %d times, none of them for a recorded step", steps, kills, model.asked.Load())
}
