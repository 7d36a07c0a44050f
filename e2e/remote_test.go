package e2e

// This file uses a model pack whose encoder and reranker are behind an API. A scripted server
// replaces the remote one.

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// scriptedTokens is the number of tokens that the scripted server reports for each text.
const scriptedTokens = 10

// scriptedRemoteModels embeds a text as its hashed bag of words, and scores a text by the number of
// the query's words in it.
type scriptedRemoteModels struct {
	*httptest.Server
	mu               sync.Mutex
	embedded, ranked int // texts
	calls            map[string]int
}

func newScriptedRemoteModels(t *testing.T, dimension int) *scriptedRemoteModels {
	s := &scriptedRemoteModels{calls: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Input     []string
			Query     string
			Documents []string
		}
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.mu.Lock()
		s.embedded, s.ranked = s.embedded+len(asked.Input), s.ranked+len(asked.Documents)
		s.calls[r.URL.Path]++
		s.mu.Unlock()
		var rows []map[string]any
		for i, text := range asked.Input {
			v := make([]float64, dimension)
			for _, word := range strings.Fields(strings.ToLower(text)) {
				h := fnv.New32a()
				_, _ = h.Write([]byte(strings.Trim(word, ".,?")))
				v[h.Sum32()%uint32(dimension)]++
			}
			rows = append(rows, map[string]any{"index": i, "embedding": v})
		}
		for i, text := range asked.Documents {
			shared := 0.0
			for _, word := range strings.Fields(asked.Query) {
				if strings.Contains(text, strings.Trim(word, "?")) {
					shared++
				}
			}
			rows = append(rows, map[string]any{"index": i, "relevance_score": shared / (1 + float64(len(strings.Fields(asked.Query))))})
		}
		tokens := scriptedTokens * (len(asked.Input) + len(asked.Documents))
		_ = json.NewEncoder(w).Encode(map[string]any{"data": rows, "results": rows, "usage": map[string]int{"prompt_tokens": tokens, "total_tokens": tokens}})
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *scriptedRemoteModels) texts() (embedded, ranked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.embedded, s.ranked
}

func (s *scriptedRemoteModels) called(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[path]
}

// testRemoteModels ingests and searches with a remote encoder and a remote reranker. The ledger has
// every call, and a budget stops them.
func testRemoteModels(t *testing.T, p programs) {
	const dimension, price = 256, 20.0 // dollars per million tokens
	models := newScriptedRemoteModels(t, dimension)
	data := localtest.Dir(t)
	env := []string{"SLUICE_DATA=" + data}
	p.run(t, env, "sluice", "models", "add", "remote:openai/scripted-embedder", "--dimension", fmt.Sprint(dimension), "--max-tokens", "512", "--name", "far").ok(t)
	p.run(t, env, "sluice", "models", "add", "--reranker", "remote:cohere/scripted-reranker", "--max-tokens", "1024", "--onto", "far", "--name", "farther").ok(t)
	s := p.up(t, data, "SLUICE_MODEL_PACK=farther", "SLUICE_EMBED_URL="+models.URL, "SLUICE_EMBED_KEY=secret", "SLUICE_EMBED_PRICE="+fmt.Sprint(price),
		"SLUICE_RERANK_URL="+models.URL, "SLUICE_RERANK_KEY=secret", "SLUICE_RERANK_PRICE="+fmt.Sprint(price))
	made := into[api.TenantCreated](t, s.sluice(t, "tenants", "create", "remote", "--json").ok(t))
	own := s.withKey(made.APIKey)
	files := map[string]string{}
	for i := range 6 {
		files[fmt.Sprintf("town%d.md", i)] = fmt.Sprintf("# Town %d\n\nThe mayor of town%dville is called person%dson.\n\nThe bridge of town%dville is %d metres long.\n", i, i, i, i, 100+i)
	}
	own.sluice(t, "ingest", write(t, files), "-c", "towns", "--wait").ok(t)
	found, err := own.find(t.Context(), api.Query{Collection: "towns", Query: "How long is the bridge of town3ville?", K: 3})
	if err != nil || len(found.Passages) == 0 || found.Passages[0].ExternalID != "town3.md" || found.Passages[0].Scores["dense.passage"] <= 0 {
		t.Errorf("found %v, %v", names(found.Passages), err)
	}
	embedded, ranked := models.texts()
	if embedded < len(files)+1 || ranked == 0 {
		t.Errorf("%d texts were embedded and %d reranked", embedded, ranked)
	}
	db := connect(t, s.superuserURL(t))
	defer func() { _ = db.Close(t.Context()) }()
	// ledger returns the sums of a task's rows.
	ledger := func(tenant uuid.UUID, task string) (calls, tokens, nanos int) {
		t.Helper()
		err := db.QueryRow(t.Context(), `SELECT count(*), coalesce(sum(input_tokens), 0), coalesce(sum(nanos), 0) FROM llm_search_calls WHERE tenant_id = $1 AND task = $2`,
			tenant, task).Scan(&calls, &tokens, &nanos)
		if err != nil {
			t.Fatal(err)
		}
		return calls, tokens, nanos
	}
	checkLedger := func() {
		t.Helper()
		embedded, ranked := models.texts()
		for _, c := range []struct {
			task, path string
			texts      int
		}{{"encode", "/embeddings", embedded}, {"rerank", "/rerank", ranked}} {
			calls, tokens, nanos := ledger(made.ID, c.task)
			if calls != models.called(c.path) || tokens != c.texts*scriptedTokens || nanos != int(math.Round(float64(tokens)*price*1e3)) {
				t.Errorf("the ledger has %d calls of %s, %d tokens, %d nanos; the server had %d calls, %d texts", calls, c.task, tokens, nanos, models.called(c.path), c.texts)
			}
		}
	}
	checkLedger()

	// Without budget no call is made: a new document fails, and a search uses words only.
	s.sluice(t, "tenants", "limits", made.ID.String(), "--tokens-per-day", "1").ok(t)
	own.sluice(t, "ingest", write(t, map[string]string{"late.md": "# Late\n\nThe mayor of lateville is called tardyson.\n"}), "-c", "towns", "--wait").fails(t)
	if d := documents(t, own, "towns")["late.md"]; d.State != schema.StateFailed || d.Reason == nil || !strings.Contains(d.Reason.Message, "budget") {
		t.Errorf("without a budget a document is %s, %+v", d.State, d.Reason)
	}
	if now, _ := models.texts(); now != embedded {
		t.Errorf("%d texts were embedded beyond the budget", now-embedded)
	}
	checkLedger()
	// With a new budget, ingestion continues.
	s.sluice(t, "tenants", "limits", made.ID.String(), "--tokens-per-day", "1000000").ok(t)
	own.sluice(t, "documents", "retry", "late.md", "-c", "towns").ok(t)
	own.sluice(t, "ingest", write(t, map[string]string{"later.md": "# Later\n\nThe mayor of laterville is called slowson.\n"}), "-c", "towns", "--wait").ok(t)
	checkLedger()
	s.stop(t)
}
