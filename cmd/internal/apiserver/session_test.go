package apiserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// by sends a request as a page of the back office does, with a session's cookie if there is one.
func (w *world) by(method, path, body string, cookie *http.Cookie) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/html, application/json")
	r.Header.Set("X-Sluice-Session", "1")
	if cookie != nil {
		r.AddCookie(cookie)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = got.Body.Close() })
	return got
}

func TestBackOfficeStandsBesideTheAPI(t *testing.T) {
	w := newWorld(t)
	for path, kind := range map[string]string{"/": "text/html", "/collections/docs": "text/html", "/docs": "text/html",
		"/openapi.json": "application/openapi+json", "/healthz": "text/plain", "/readyz": "text/plain",
		"/v1/nothing": "application/problem+json", "/mcp": "application/problem+json"} {
		if got := w.by(http.MethodGet, path, "", nil); !strings.HasPrefix(got.Header.Get("Content-Type"), kind) {
			t.Errorf("GET %s is %d %s, want %s", path, got.StatusCode, got.Header.Get("Content-Type"), kind)
		}
	}
}

func TestSessionEndsWithItsKey(t *testing.T) {
	w := newWorld(t)
	var made api.KeyCreated
	w.post("/v1/keys", api.NewKey{Name: "browser", Scopes: []schema.Scope{schema.ScopeIngest}}, "").want(http.StatusCreated, &made)
	began := w.by(http.MethodPost, "/v1/session", `{"key":"`+made.APIKey+`"}`, nil)
	var session api.Session
	if err := json.NewDecoder(began.Body).Decode(&session); err != nil || began.StatusCode != http.StatusOK || session.Name != "browser" {
		t.Fatalf("the session began with %d %+v, %v", began.StatusCode, session, err)
	}
	cookies := began.Cookies()
	if len(cookies) != 1 || strings.Contains(cookies[0].Value, made.APIKey) {
		t.Fatalf("the session's cookies are %v", cookies)
	}
	if got := w.by(http.MethodPost, "/v1/collections", `{"name":"made-by-session"}`, cookies[0]); got.StatusCode != http.StatusCreated {
		t.Errorf("a collection by session gave %d", got.StatusCode)
	}
	if got := w.by(http.MethodGet, "/v1/jobs", "", cookies[0]); got.StatusCode != http.StatusForbidden {
		t.Errorf("what the key may not do gave %d by session", got.StatusCode)
	}
	w.do(http.MethodDelete, "/v1/keys/"+made.ID.String(), nil, "").want(http.StatusNoContent, nil)
	if got := w.by(http.MethodGet, "/v1/whoami", "", cookies[0]); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("the session of a revoked key gave %d", got.StatusCode)
	}
}
