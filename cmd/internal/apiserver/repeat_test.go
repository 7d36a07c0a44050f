package apiserver_test

// This file repeats requests with idempotency keys, and checks what is stored.

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

const keptSQL = `SELECT count(*) FROM idempotency WHERE position($1::bytea IN body) > 0`

func TestKeysAreShownOnceAndNotKept(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		path string
		body any
	}{
		{"/v1/keys", api.NewKey{Name: "twice", Scopes: []schema.Scope{schema.ScopeQuery}}},
		{"/v1/tenants", api.NewTenant{Name: "twice"}},
	} {
		var made struct {
			APIKey string `json:"api_key"`
		}
		w.post(c.path, c.body, c.path).want(http.StatusCreated, &made)
		if made.APIKey == "" {
			t.Fatal("no key")
		}
		before := scalar[int](w, `SELECT count(*) FROM api_keys`)
		again := w.post(c.path, c.body, c.path)
		again.want(http.StatusConflict, nil)
		if !strings.Contains(string(again.body), "not shown again") || strings.Contains(string(again.body), made.APIKey) {
			t.Errorf("the repeat got %s", again.body)
		}
		if n := scalar[int](w, `SELECT count(*) FROM api_keys`); n != before {
			t.Errorf("%s acted twice", c.path)
		}
		if n := scalar[int](w, keptSQL, []byte(made.APIKey)); n != 0 {
			t.Errorf("%s left its key in the database", c.path)
		}
	}
	// A refusal has no secret, so it is stored.
	bad := api.NewKey{Name: "k", Scopes: []schema.Scope{"everything"}}
	first := w.post("/v1/keys", bad, "bad")
	first.want(http.StatusUnprocessableEntity, nil)
	if again := w.post("/v1/keys", bad, "bad"); again.status != first.status || string(again.body) != string(first.body) {
		t.Errorf("the repeated refusal is %d %s", again.status, again.body)
	}
}

func TestAnotherKeyNeverGetsTheReply(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	board, plain := w.with([]string{"board"}, schema.ScopeQuery), w.with(nil, schema.ScopeQuery)
	ask := api.Query{Collection: "c", Query: "What was decided?"}
	var mine schema.Job
	board.post("/v1/jobs", ask, "job").want(http.StatusAccepted, &mine)
	theirs := plain.post("/v1/jobs", ask, "job")
	theirs.want(http.StatusConflict, nil)
	if strings.Contains(string(theirs.body), mine.ID.String()) {
		t.Errorf("another key's reply: %s", theirs.body)
	}
	var again schema.Job
	board.post("/v1/jobs", ask, "job").want(http.StatusAccepted, &again)
	if again.ID != mine.ID {
		t.Error("its own key made another job")
	}
}

func TestRepliesWithTextAreNotKept(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	const secret = "the merger is off"
	var served atomic.Int64
	serve(w, bus.Serve(w.nats, bus.ServeOptions{Subject: wire.SearchSubject, Group: "test", Concurrency: 1}, func(context.Context, wire.SearchRequest) wire.SearchReply {
		served.Add(1)
		return wire.SearchReply{Envelope: wire.Header(), SearchResult: schema.SearchResult{Plan: "naive", Candidates: []schema.Candidate{{Text: secret}}}}
	}, func(e *schema.RemoteError) wire.SearchReply { return wire.SearchReply{Error: e} }))
	serve(w, bus.Serve(w.nats, bus.ServeOptions{Subject: wire.AskSubject, Group: "test", Concurrency: 1}, func(context.Context, wire.AskRequest) wire.AskReply {
		served.Add(1)
		return wire.AskReply{Envelope: wire.Header(), Answer: &schema.Answer{Answer: secret}}
	}, func(e *schema.RemoteError) wire.AskReply { return wire.AskReply{Error: e} }))
	for _, path := range []string{"/v1/search", "/v1/ask"} {
		for range 2 {
			got := w.post(path, api.Query{Collection: "c", Query: "Is it on?"}, path)
			got.want(http.StatusOK, nil)
			if !strings.Contains(string(got.body), secret) {
				t.Errorf("%s gave %s", path, got.body)
			}
		}
	}
	if n := served.Load(); n != 4 {
		t.Errorf("%d of 4 requests were served", n)
	}
	w.post("/v1/collections/c/documents/compare", api.Compare{Documents: []api.Fingerprint{{ExternalID: "secret name", Fingerprint: strings.Repeat("0", 64)}}}, "compare").want(http.StatusOK, nil)
	var job schema.Job
	w.post("/v1/jobs", api.Query{Collection: "c", Query: "Is it on?"}, "").want(http.StatusAccepted, &job)
	for range 2 {
		w.post("/v1/jobs/"+job.ID.String()+"/cancel", struct{}{}, "cancel").want(http.StatusOK, nil)
	}
	if n := scalar[int](w, `SELECT count(*) FROM idempotency`); n != 0 {
		t.Errorf("%d replies are kept", n)
	}
}

func serve(w *world, s interface {
	Start(context.Context) error
	Stop(context.Context) error
}) {
	w.t.Helper()
	if err := s.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Stop(context.Background()) })
}

func TestRefusalsThatPassAreNotKept(t *testing.T) {
	w := newWorld(t)
	var made api.TenantCreated
	one := int64(1)
	w.post("/v1/tenants", api.NewTenant{Name: "small", MaxDocuments: &one}, "").want(http.StatusCreated, &made)
	small := user{t: t, url: w.url, key: made.APIKey}
	small.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	upload := func(id string) response {
		return small.post("/v1/collections/c/documents", map[string]any{"documents": []any{map[string]any{"external_id": id, "text": "a"}}}, id)
	}
	upload("a").want(http.StatusOK, nil)
	upload("b").want(http.StatusTooManyRequests, nil)
	if _, err := w.store.SetQuotas(t.Context(), w.admin, made.ID, nil, nil); err != nil {
		t.Fatal(err)
	}
	upload("b").want(http.StatusOK, nil)
}
