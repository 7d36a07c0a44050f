package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// keysOfTenants maps keys to tenants.
type keysOfTenants map[string]uuid.UUID

func (k keysOfTenants) Authenticate(_ context.Context, key string) (schema.Principal, error) {
	return schema.Principal{Tenant: k[key], Scopes: []schema.Scope{schema.ScopeQuery}}, nil
}

// anyCollection has every collection.
type anyCollection struct{ stubCollections }

type stubCollections interface{ Collections }

func (anyCollection) ResolveCollection(context.Context, schema.Principal, string) (uuid.UUID, error) {
	return uuid.UUID{9}, nil
}

// blockingQuestions signal that they began and wait to proceed; the question "now" does not.
type blockingQuestions struct {
	Questions
	began   chan struct{}
	proceed chan struct{}
}

func (h blockingQuestions) block(q schema.Query) {
	if q.Text != "now" {
		h.began <- struct{}{}
		<-h.proceed
	}
}

func (h blockingQuestions) Search(_ context.Context, _ schema.Principal, q schema.Query) (schema.SearchResult, error) {
	h.block(q)
	return schema.SearchResult{Plan: "p"}, nil
}

func (h blockingQuestions) Ask(_ context.Context, _ schema.Principal, q schema.Query, _ func(Progress)) (schema.Answer, error) {
	h.block(q)
	return schema.Answer{}, nil
}

// TestATenantsFloodEndsAtTheDoor: a tenant at its limit is told to retry. Other tenants are served
// meanwhile, and the tenant itself afterwards.
func TestATenantsFloodEndsAtTheDoor(t *testing.T) {
	held := blockingQuestions{began: make(chan struct{}, 2), proceed: make(chan struct{})}
	h := New(Options{TenantOpen: 2, Authenticator: keysOfTenants{"loud": {1}, "quiet": {2}}, Collections: anyCollection{}, Questions: held})
	send := func(key, path, text string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(`{"collection":"c","query":"`+text+`"}`))
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	done := make(chan int, 2)
	for _, path := range []string{"/v1/search", "/v1/ask"} {
		go func() { done <- send("loud", path, "later").Code }()
	}
	<-held.began
	<-held.began
	for _, path := range []string{"/v1/search", "/v1/ask"} {
		w := send("loud", path, "now")
		var p api.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" ||
			w.Header().Get("Content-Type") != "application/problem+json" || !strings.HasPrefix(p.Detail, "2 searches and questions") {
			t.Errorf("%s gave %d %v %s, want to be told to come again", path, w.Code, w.Header(), w.Body)
		}
		if w := send("quiet", path, "now"); w.Code != http.StatusOK {
			t.Errorf("%s of another tenant gave %d %s", path, w.Code, w.Body)
		}
	}
	close(held.proceed)
	for range 2 {
		if status := <-done; status != http.StatusOK {
			t.Errorf("one that was let in gave %d", status)
		}
	}
	if w := send("loud", "/v1/search", "now"); w.Code != http.StatusOK {
		t.Errorf("after the flood: %d %s", w.Code, w.Body)
	}
}
