package apiserver_test

// The rights of a curator, and the addresses that keys are used from.

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func TestACuratorTendsCollectionsAndManagesNobody(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	curator := w.with(nil, schema.ScopeQuery, schema.ScopeIngest, schema.ScopeCurate)
	contributor := w.with(nil, schema.ScopeQuery, schema.ScopeIngest)
	description := "what we sell"
	for _, c := range []struct {
		method, path string
		body         any
		want         int
	}{
		{http.MethodPatch, "/v1/collections/c", api.CollectionChange{Description: &description}, http.StatusOK},
		{http.MethodPost, "/v1/collections/c/recluster", map[string]any{}, http.StatusAccepted},
		{http.MethodGet, "/v1/collections/c/plan-choices", nil, http.StatusOK},
		{http.MethodGet, "/v1/collections/c/preferences", nil, http.StatusOK},
		{http.MethodPost, "/v1/keys", api.NewKey{Name: "k", Scopes: []schema.Scope{schema.ScopeQuery}}, http.StatusForbidden},
		{http.MethodGet, "/v1/keys", nil, http.StatusForbidden},
		{http.MethodGet, "/v1/audit", nil, http.StatusForbidden},
		{http.MethodGet, "/v1/sources", nil, http.StatusForbidden},
		{http.MethodGet, "/v1/webhooks", nil, http.StatusForbidden},
		{http.MethodDelete, "/v1/collections/c", nil, http.StatusForbidden},
	} {
		send := func(u user) response {
			if c.body == nil {
				return u.do(c.method, c.path, nil, "")
			}
			data, err := json.Marshal(c.body)
			if err != nil {
				t.Fatal(err)
			}
			return u.do(c.method, c.path, strings.NewReader(string(data)), "")
		}
		send(contributor).want(http.StatusForbidden, nil)
		send(curator).want(c.want, nil)
	}
	w.do(http.MethodDelete, "/v1/collections/c", nil, "").want(http.StatusNoContent, nil)
}

func TestKeysAreUsedFromTheirAddresses(t *testing.T) {
	w := newWorld(t)
	key := func(addresses ...string) (made api.KeyCreated, holder user) {
		w.post("/v1/keys", api.NewKey{Name: "loader", Scopes: []schema.Scope{schema.ScopeQuery}, Addresses: addresses}, "").want(http.StatusCreated, &made)
		return made, user{t: t, url: w.url, key: made.APIKey}
	}
	here, near := key("127.0.0.0/8", "::1")
	if want := []string{"127.0.0.0/8", "::1/128"}; !slices.Equal(here.Addresses, want) {
		t.Errorf("the key's addresses are %v, want %v", here.Addresses, want)
	}
	elsewhere, far := key("192.0.2.0/24")
	for range 2 { // once from the store, once from the cache
		near.do(http.MethodGet, "/v1/whoami", nil, "").want(http.StatusOK, nil)
		r := far.do(http.MethodGet, "/v1/whoami", nil, "")
		if r.want(http.StatusForbidden, nil); !strings.Contains(string(r.body), "127.0.0.1") {
			t.Errorf("the refusal does not say what the server saw: %s", r.body)
		}
	}
	var next api.KeyCreated
	w.post("/v1/keys/"+elsewhere.ID.String()+"/rotate", api.RotateKey{}, "").want(http.StatusCreated, &next)
	user{t: t, url: w.url, key: next.APIKey}.do(http.MethodGet, "/v1/whoami", nil, "").want(http.StatusForbidden, nil)
	r := w.post("/v1/keys", api.NewKey{Name: "k", Scopes: []schema.Scope{schema.ScopeQuery}, Addresses: []string{"10.0.0.0/8", "the office"}}, "")
	if r.want(http.StatusUnprocessableEntity, nil); !strings.Contains(string(r.body), "addresses[1]") {
		t.Errorf("the error does not name the field: %s", r.body)
	}
	// The audit log says for which collection the key was made.
	var log api.Page[api.AuditEntry]
	w.do(http.MethodGet, "/v1/audit", nil, "").want(http.StatusOK, &log)
	if !slices.ContainsFunc(log.Items, func(e api.AuditEntry) bool {
		details, _ := json.Marshal(e.Detail)
		return e.Action == "key.create" && e.Target == elsewhere.ID.String() && strings.Contains(string(details), "192.0.2.0/24")
	}) {
		t.Errorf("the audit log has %+v", log.Items)
	}
}
