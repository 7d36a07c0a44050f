package apiserver_test

// Operators pass their scope on, and keys are rotated.

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func TestOperatorsAloneGiveTheirScopeOn(t *testing.T) {
	w := newWorld(t)
	next := api.NewKey{Name: "on call", Scopes: []schema.Scope{schema.ScopeOperator}}
	operator := w.with(nil, schema.ScopeOperator) // and nothing else
	var made api.KeyCreated
	operator.post("/v1/keys", next, "").want(http.StatusCreated, &made)
	user{t: t, url: w.url, key: made.APIKey}.do(http.MethodGet, "/v1/tenants", nil, "").want(http.StatusOK, nil)
	var page api.Page[api.Key]
	operator.do(http.MethodGet, "/v1/keys", nil, "").want(http.StatusOK, &page)
	if len(page.Items) != 3 {
		t.Errorf("the operator sees %+v", page.Items)
	}
	operator.post("/v1/keys", api.NewKey{Name: "k", Scopes: []schema.Scope{schema.ScopeOperator, schema.ScopeAdmin}}, "").want(http.StatusForbidden, nil)
	admin := w.with(nil, schema.ScopeAdmin)
	admin.post("/v1/keys", next, "").want(http.StatusForbidden, nil)
	admin.post("/v1/keys/"+made.ID.String()+"/rotate", api.RotateKey{}, "").want(http.StatusForbidden, nil)
	query := w.with(nil, schema.ScopeQuery, schema.ScopeImpersonate)
	query.post("/v1/keys", next, "").want(http.StatusForbidden, nil)
	query.acting(personHeader, "ann").post("/v1/keys", api.NewKey{Name: "k", Scopes: []schema.Scope{schema.ScopeQuery}}, "").want(http.StatusForbidden, nil)
	query.do(http.MethodGet, "/v1/keys", nil, "").want(http.StatusForbidden, nil)
}

func TestTheFirstKeyIsRotatedWithOverlap(t *testing.T) {
	w := newWorld(t) // its key is the one that sluice up writes
	path := "/v1/keys/" + w.admin.Key.String() + "/rotate"
	for _, seconds := range []int{-1, 2592001} {
		if r := w.post(path, api.RotateKey{OverlapSeconds: &seconds}, ""); r.status != http.StatusUnprocessableEntity || !strings.Contains(string(r.body), "overlap_seconds") {
			t.Errorf("%d: %d %s", seconds, r.status, r.body)
		}
	}
	var made api.KeyCreated
	w.post(path, api.RotateKey{}, "rotation").want(http.StatusCreated, &made)
	again := w.post(path, api.RotateKey{}, "rotation")
	if again.want(http.StatusConflict, nil); !strings.Contains(string(again.body), made.ID.String()) || strings.Contains(string(again.body), made.APIKey) {
		t.Errorf("the repeat got %s", again.body)
	}
	if n := scalar[int](w, keptSQL, []byte(made.APIKey)); n != 0 {
		t.Error("the key is kept")
	}
	next := user{t: t, url: w.url, key: made.APIKey}
	for _, u := range []user{w.user, next} {
		u.do(http.MethodGet, "/v1/tenants", nil, "").want(http.StatusOK, nil)
	}
	var other api.TenantCreated
	w.post("/v1/tenants", api.NewTenant{Name: "other"}, "").want(http.StatusCreated, &other)
	user{t: t, url: w.url, key: other.APIKey}.post(path, api.RotateKey{}, "").want(http.StatusNotFound, nil)
	at := 0
	next.post(path, api.RotateKey{OverlapSeconds: &at}, "").want(http.StatusCreated, nil)
	w.do(http.MethodGet, "/v1/tenants", nil, "").want(http.StatusUnauthorized, nil)
	next.do(http.MethodGet, "/v1/tenants", nil, "").want(http.StatusOK, nil)
}
