package httpapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

func TestRequestsOfAKeyAndATenantAreBounded(t *testing.T) {
	s := &server{keyRate: newRateLimiter(60, "key"), tenantRate: newRateLimiter(90, "tenant")} // bursts of 10 and 15
	now := time.Now()
	tenant, first, second := uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}
	send := func(tenant, key uuid.UUID, count int) (taken int) {
		for range count {
			if s.admit(schema.Principal{Tenant: tenant, Key: key}, now) == nil {
				taken++
			}
		}
		return taken
	}
	if n := send(tenant, first, 20); n != 10 {
		t.Errorf("%d requests of a key are taken at once, want 10", n)
	}
	if n := send(tenant, second, 20); n != 5 {
		t.Errorf("%d requests of the tenant's other key are taken, want 5", n)
	}
	if n := send(uuid.UUID{9}, uuid.UUID{8}, 20); n != 10 {
		t.Errorf("%d requests of another tenant are taken, want 10", n)
	}
	now = now.Add(2 * time.Second)
	if n := send(tenant, first, 20); n != 2 {
		t.Errorf("%d requests are taken 2 seconds later, want 2", n)
	}
	if n := send(tenant, second, 20); n != 1 { // a tenant's refusals do not count for its keys
		t.Errorf("%d requests of the other key are taken 2 seconds later, want 1", n)
	}
	now = now.Add(time.Hour)
	if n := send(tenant, first, 20); n != 10 {
		t.Errorf("%d requests are taken after an hour, want 10", n)
	}
	if n := len(s.keyRate.buckets); n != 1 {
		t.Errorf("%d keys are remembered after an hour, want 1", n)
	}
	free := &server{keyRate: newRateLimiter(0, "key"), tenantRate: newRateLimiter(0, "tenant")}
	for range 1000 {
		if err := free.admit(schema.Principal{Tenant: tenant, Key: first}, now); err != nil {
			t.Fatal(err)
		}
	}
}

// oneKey is a key that may search.
type oneKey struct{}

func (oneKey) Authenticate(context.Context, string) (schema.Principal, error) {
	return schema.Principal{Tenant: uuid.UUID{1}, Key: uuid.UUID{2}, Scopes: []schema.Scope{schema.ScopeQuery}}, nil
}

func TestWhoAsksTooOftenIsToldWhenToComeAgain(t *testing.T) {
	h := New(Options{Authenticator: oneKey{}, KeyRequests: 6})
	for n, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/whoami", nil)
		r.Header.Set("Authorization", "Bearer k")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("request %d gave %d %s, want %d", n+1, w.Code, w.Body, want)
		} else if want != http.StatusOK && (w.Header().Get("Retry-After") != "10" || !strings.Contains(w.Body.String(), "this key may send 6 requests a minute")) {
			t.Errorf("refused with %v %s", w.Header(), w.Body)
		}
	}
}
