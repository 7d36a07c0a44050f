package llmgateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/cmd/internal/llmgateway"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestMain(m *testing.M) {
	if runIfGatewayChild() {
		return
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
	localtest.Main(m, localtest.Need{Postgres: true, Migrate: store.Migrate})
}

// scriptedopenai answers every question with the same text, whole or streamed, for 100 tokens in
// and 20 out.
type scriptedopenai struct {
	*httptest.Server
	asked atomic.Int32
}

func newScriptedOpenAI(t *testing.T) *scriptedopenai {
	t.Helper()
	const content = `{"answer": "Five days.", "citations": [{"sentence": 1, "passage": 1, "quote": "You may carry over five days."}]}`
	usage := map[string]any{"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
	s := &scriptedopenai{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		var c struct {
			Stream bool `json:"stream"`
		}
		_ = json.NewDecoder(r.Body).Decode(&c)
		if !c.Stream {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]any{"id": "1", "object": "chat.completion", "model": "m", "usage": usage,
				"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": content}}}})
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		event := func(data map[string]any) {
			encoded, _ := json.Marshal(data)
			_, _ = fmt.Fprintf(w, "data: %s\n\n", encoded)
			w.(http.Flusher).Flush()
		}
		for i := 0; i < len(content); i += 5 {
			event(map[string]any{"id": "1", "choices": []any{map[string]any{"index": 0, "delta": map[string]any{"content": content[i:min(i+5, len(content))]}}}})
		}
		event(map[string]any{"id": "1", "choices": []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": "stop"}}})
		event(map[string]any{"id": "1", "choices": []any{}, "usage": usage})
	}))
	t.Cleanup(s.Close)
	return s
}

func open(t *testing.T, url string) stores.All {
	t.Helper()
	s, err := store.Open(t.Context(), url, store.Options{MaxConns: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return stores.Of(s)
}

func tenant(t *testing.T, s stores.All, name string) uuid.UUID {
	t.Helper()
	made, err := s.CreateTenant(t.Context(), schema.Principal{}, schema.NewTenant{Name: name}, schema.SealedKey{
		NewKey: schema.NewKey{Name: "admin", Scopes: []schema.Scope{schema.ScopeAdmin}}, Prefix: "slu_test", Hash: []byte(name)})
	if err != nil {
		t.Fatal(err)
	}
	return made.ID
}

// question is a new question's request; its passage is of version, if there is one.
func question(tenant uuid.UUID, versions ...uuid.UUID) wire.LLMRequest {
	return wire.LLMRequest{Envelope: wire.Header(), Tenant: tenant, Step: wire.Step{Question: uuid.New(), Round: 1, Step: "answer"}, Task: wire.TaskAnswer,
		Question: "How many days can I carry over?", Versions: versions,
		Passages: []wire.LLMPassage{{Title: "Leave", Text: "You may carry over five days. " + strings.Repeat("It ends in March. ", 40)}}}
}

// version stores a version of a document.
func version(t *testing.T, s stores.All, tenant uuid.UUID) uuid.UUID {
	t.Helper()
	p := schema.Principal{Tenant: tenant, Key: schema.NewID(), Scopes: []schema.Scope{schema.ScopeAdmin}}
	c, err := s.CreateCollection(t.Context(), p, schema.NewCollection{Name: "handbook"})
	if err != nil {
		t.Fatal(err)
	}
	up, err := documents.New(s, documents.Options{}).Upload(t.Context(), p, c.ID, []schema.Upload{{ExternalID: "a.txt", MediaType: "text/plain", FileName: "a.txt", Content: strings.NewReader("hello")}})
	if err != nil {
		t.Fatal(err)
	}
	return up[0].Version
}

var numbers = regexp.MustCompile(`of (\d+) tokens a day .*: (\d+) tokens used, up to (\d+) tokens more by calls in progress, and up to (\d+) tokens by this one`)

// 60 questions arrive at once, at two gateways with separate connections and a budget for some of
// the questions.
func TestBudgetsHoldForManyQuestionsAtOnce(t *testing.T) {
	const limit = 5000
	url, server := localtest.Database(t), newScriptedOpenAI(t)
	var gateways []*llm.Gateway
	var db stores.All
	for range 2 {
		db = open(t, url)
		p, err := llm.NewOpenAI(llm.OpenAIOptions{BaseURL: server.URL + "/v1/", Model: "m", MaxTokens: 50})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		g, err := llm.NewGateway(llm.Options{Ledger: db.LedgerStore, Accounts: db.LedgerStore, Providers: []llm.Provider{p}, MaxWait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		gateways = append(gateways, g)
	}
	one := tenant(t, db, "one")
	if _, err := db.SetLLMLimits(t.Context(), schema.Principal{Tenant: one}, one, schema.LLMLimits{TokensPerDay: new(int64(limit))}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var answered, refused atomic.Int32
	for i := range 60 {
		all.Go(func() {
			reply := gateways[i%2].Complete(context.Background(), question(one))
			if reply.Error == nil {
				answered.Add(1)
				return
			}
			refused.Add(1)
			m := numbers.FindStringSubmatch(reply.Error.Message)
			if reply.Error.Code != schema.CodeQuota || m == nil {
				t.Errorf("refused with %+v", reply.Error)
				return
			}
			used, _ := strconv.Atoi(m[2])
			needs, _ := strconv.Atoi(m[4])
			if used+needs <= limit {
				t.Errorf("refused although it fits: %s", reply.Error.Message)
			}
		})
	}
	all.Wait()
	u, err := db.LLMUsage(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	tokens := u.Day.InputTokens + u.Day.OutputTokens
	if tokens > limit || tokens != int64(answered.Load())*120 || answered.Load() == 0 || refused.Load() == 0 || u.ReservedTokens != 0 || u.InProgress != 0 || server.asked.Load() != answered.Load() {
		t.Errorf("%d answered, %d refused, %d asked, used %+v", answered.Load(), refused.Load(), server.asked.Load(), u)
	}
	t.Logf("%d answered, %d refused, %d of %d tokens used", answered.Load(), refused.Load(), tokens, limit)
}

// serve runs the gateway as a program has it and returns how to ask it.
func serve(t *testing.T, db stores.All, settings config.LLM) (ask func(wire.LLMRequest) wire.LLMReply, nc *nats.Conn) {
	t.Helper()
	nc, err := bus.Connect(t.Context(), bus.Options{URL: localtest.NATS(t).URL(), Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	g, err := llmgateway.New(settings, llmgateway.Deps{Store: db.Store, NATS: nc})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return func(r wire.LLMRequest) wire.LLMReply {
		t.Helper()
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		msg, err := nc.Request(wire.LLMSubject, data, waittest.Left(t))
		if err != nil {
			t.Fatal(err)
		}
		reply, err := wire.Decode[wire.LLMReply](msg.Data)
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}, nc
}

func TestAnswersAreStreamedOverNATS(t *testing.T) {
	db, server := open(t, localtest.Database(t)), newScriptedOpenAI(t)
	ask, nc := serve(t, db, config.LLM{LLMProvider: "openai", LLMBaseURL: server.URL + "/v1/", LLMModel: "m", LLMTimeout: waittest.Left(t),
		LLMPrice: config.LLMPrice{Input: 1, Output: 10}, LLMCacheAge: time.Hour})
	one, other := tenant(t, db, "one"), tenant(t, db, "other")
	stream := func(r wire.LLMRequest) (wire.LLMReply, []string) {
		t.Helper()
		sub, err := nc.SubscribeSync(nc.NewInbox())
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Unsubscribe() //nolint:errcheck // a test's
		r.Stream = sub.Subject
		reply := ask(r)
		if reply.Error != nil {
			t.Fatal(reply.Error)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		var texts []string
		for n, _, _ := sub.Pending(); n > 0; n-- {
			msg, err := sub.NextMsgWithContext(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			d, err := wire.Decode[wire.LLMDelta](msg.Data)
			if err != nil || d.Restart {
				t.Errorf("heard %+v, %v", d, err)
			}
			texts = append(texts, d.Text)
		}
		return reply, texts
	}
	first := question(one, version(t, db, one))
	for _, c := range []struct {
		name    string
		request wire.LLMRequest
		asked   int32
		pieces  int // at least
		cached  bool
		again   bool
		cost    float64
	}{
		{"new", first, 1, 2, false, false, 0.0003},
		{"the same step", first, 1, 1, false, true, 0.0003},
		{"the same words in another question", func() wire.LLMRequest { r := first; r.Step.Question = uuid.New(); return r }(), 1, 1, true, false, 0},
		{"the same words of another tenant", question(other, version(t, db, other)), 2, 2, false, false, 0.0003},
		{"from versions that are not known", question(one), 3, 2, false, false, 0.0003},
	} {
		reply, texts := stream(c.request)
		if reply.Text != "Five days." || strings.Join(texts, "") != reply.Text || len(texts) < c.pieces || c.pieces == 1 && len(texts) != 1 {
			t.Errorf("%s: got %q, heard %q", c.name, reply.Text, texts)
		}
		if n := server.asked.Load(); n != c.asked || reply.Usage.Cached != c.cached || reply.Repeated != c.again || reply.Usage.Cost != c.cost {
			t.Errorf("%s: the model was asked %d times, want %d; got %+v", c.name, n, c.asked, reply)
		}
	}
	u, err := db.LLMUsage(t.Context(), one)
	if err != nil || u.Day.Calls != 3 || u.Day.Cached != 1 || u.Day.InputTokens != 200 || u.Day.Dollars != 0.0006 {
		t.Errorf("used %+v, %v", u, err)
	}
	// A search's calls belong to no question.
	search := question(one, first.Versions...)
	search.Step, search.Task = wire.Step{Step: "stage 1 filter"}, wire.TaskFilter
	if reply := ask(search); reply.Error == nil || !strings.Contains(reply.Error.Message, "JSON form") {
		t.Errorf("got %+v", reply)
	}
	if u, err = db.LLMUsage(t.Context(), one); err != nil || u.Day.Calls != 4 || u.Day.InputTokens != 400 || u.InProgress != 0 {
		t.Errorf("a reply that is none was paid twice all the same: %+v, %v", u, err)
	}
}

func TestProvidersAreChosenBySettings(t *testing.T) {
	for want, s := range map[string]config.LLM{
		"extractive": {LLMProvider: "auto"}, "openai": {LLMProvider: "auto", LLMAPIKey: "k", AnthropicAPIKey: "k"}, "anthropic": {AnthropicAPIKey: "k"},
	} {
		if got := llmgateway.Provider(s); got != want {
			t.Errorf("%+v: %s answers", s, got)
		}
	}
	db := open(t, localtest.Database(t))
	_, err := llmgateway.New(config.LLM{LLMProvider: "extractive", LLMFallback: []string{"nobody"}}, llmgateway.Deps{Store: db.Store})
	if !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("got %v", err)
	}
	server := newScriptedOpenAI(t)
	gone := httptest.NewServer(nil)
	gone.Close()
	ask, _ := serve(t, db, config.LLM{LLMProvider: "anthropic", AnthropicBaseURL: gone.URL, AnthropicAPIKey: "k", AnthropicModel: "a", LLMFallback: []string{"openai", "extractive"},
		LLMBaseURL: server.URL + "/v1/", LLMModel: "m"})
	one := tenant(t, db, "one")
	if reply := ask(question(one)); reply.Error != nil || reply.Usage.Provider != "openai" || reply.Text != "Five days." {
		t.Errorf("got %+v", reply)
	}
	var kept string
	if err := db.AsTenant(t.Context(), one, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT provider FROM llm_calls`).Scan(&kept)
	}); err != nil || kept != "openai" {
		t.Errorf("the ledger names %q, %v", kept, err)
	}
}

// TestAGatewayForgetsOldReplies: also those of tenants who make no calls.
func TestAGatewayForgetsOldReplies(t *testing.T) {
	url := localtest.Database(t)
	db := open(t, url)
	idle := tenant(t, db, "idle")
	count := func() (n int) {
		err := db.AsTenant(t.Context(), idle, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, `SELECT count(*) FROM llm_cache`).Scan(&n)
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := db.AsTenant(t.Context(), idle, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO llm_cache (tenant_id, key, reply, created_at) SELECT $1, sha256(i::text::bytea), '{}', now() - make_interval(hours => i)
			FROM generate_series(1, 1200) i`, idle)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	serve(t, db, config.LLM{LLMProvider: "extractive", LLMCacheAge: 90 * time.Minute})
	waittest.Until(t, func() string {
		if n := count(); n != 1 {
			return fmt.Sprintf("%d are left", n)
		}
		return ""
	})
}
