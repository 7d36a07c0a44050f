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

// plainSessions seals nothing.
type plainSessions struct{}

func (plainSessions) Seal(key string) (string, time.Time) {
	return "sealed-" + key, time.Now().Add(time.Hour)
}

func (plainSessions) SealUntil(key string, _ time.Time) string { return "sealed-" + key }

func (plainSessions) Open(sealed string) (string, error) {
	key, ok := strings.CutPrefix(sealed, "sealed-")
	if !ok {
		return "", schema.ErrUnauthorized
	}
	return key, nil
}

// revocable has one key, until it is revoked.
type revocable struct{ revoked *bool }

func (r revocable) Authenticate(_ context.Context, key string) (schema.Principal, error) {
	if key != "good" || *r.revoked {
		return schema.Principal{}, schema.ErrUnauthorized
	}
	return schema.Principal{Tenant: uuid.UUID{1}, Name: "me", Scopes: []schema.Scope{schema.ScopeQuery}}, nil
}

func sessionServer() (h http.Handler, revoked *bool) {
	revoked = new(bool)
	return New(Options{Authenticator: revocable{revoked}, Sessions: plainSessions{}, Collections: anyCollection{}, Questions: scripted{}}), revoked
}

// send makes a request like a page of the server. headers are pairs of names and values; an empty
// value removes the header.
func send(t *testing.T, h http.Handler, method, path, body string, cookie *http.Cookie, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set(sessionHeader, "1")
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i+1] == "" {
			r.Header.Del(headers[i])
		}
	}
	if cookie != nil {
		r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func signIn(t *testing.T, h http.Handler, headers ...string) *http.Cookie {
	t.Helper()
	w := send(t, h, http.MethodPost, "/v1/session", `{"key":"good"}`, nil, headers...)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"name":"me"`) || strings.Contains(w.Body.String(), "good") {
		t.Fatalf("sign-in gave %d %s", w.Code, w.Body)
	}
	cookies := w.Result().Cookies()
	if len(cookies) != 1 {
		t.Fatalf("sign-in set %v", cookies)
	}
	return cookies[0]
}

func TestSessionIsItsKey(t *testing.T) {
	h, revoked := sessionServer()
	c := signIn(t, h)
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/v1" || c.MaxAge <= 0 || c.Secure {
		t.Errorf("the cookie is %+v", c)
	}
	if !signIn(t, h, "X-Forwarded-Proto", "https").Secure {
		t.Error("over https the cookie is not secure")
	}
	if w := send(t, h, http.MethodGet, "/v1/whoami", "", c, sessionHeader, ""); w.Code != http.StatusOK {
		t.Errorf("whoami by session gave %d %s", w.Code, w.Body)
	}
	if w := send(t, h, http.MethodGet, "/v1/keys", "", c); w.Code != http.StatusForbidden {
		t.Errorf("a session does what its key may not: %d", w.Code)
	}
	if w := send(t, h, http.MethodGet, "/v1/whoami", "", c, "Authorization", "Bearer wrong"); w.Code != http.StatusUnauthorized {
		t.Errorf("a wrong key beside a session gave %d", w.Code)
	}
	*revoked = true
	if w := send(t, h, http.MethodGet, "/v1/whoami", "", c); w.Code != http.StatusUnauthorized {
		t.Errorf("the session of a revoked key gave %d", w.Code)
	}
}

func TestSessionServesOwnPagesAlone(t *testing.T) {
	h, _ := sessionServer()
	c := signIn(t, h)
	for name, headers := range map[string][]string{
		"without the header": {sessionHeader, ""},
		"from another site":  {"Sec-Fetch-Site", "cross-site"},
		"from a sibling":     {"Sec-Fetch-Site", "same-site"},
	} {
		for _, r := range [][3]string{
			{http.MethodPost, "/v1/collections", `{"name":"c"}`},
			{http.MethodDelete, "/v1/documents/00000000-0000-0000-0000-000000000001", ""},
			{http.MethodPost, "/v1/session", `{"key":"good"}`},
			{http.MethodDelete, "/v1/session", ""},
		} {
			w := send(t, h, r[0], r[1], r[2], c, headers...)
			if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "session") || w.Header().Get("Set-Cookie") != "" {
				t.Errorf("%s %s %s gave %d %s", r[0], r[1], name, w.Code, w.Body)
			}
		}
	}
	if w := send(t, h, http.MethodGet, "/v1/whoami", "", c, "Sec-Fetch-Site", "cross-site"); w.Code != http.StatusForbidden {
		t.Errorf("a read from another site gave %d", w.Code)
	}
}

func TestSessionEndsWithSigningOut(t *testing.T) {
	h, _ := sessionServer()
	w := send(t, h, http.MethodDelete, "/v1/session", "", signIn(t, h))
	cookies := w.Result().Cookies()
	if w.Code != http.StatusNoContent || len(cookies) != 1 || cookies[0].MaxAge >= 0 || cookies[0].Value != "" || cookies[0].Path != "/v1" {
		t.Errorf("signing out gave %d %v", w.Code, cookies)
	}
	if w := send(t, h, http.MethodGet, "/v1/whoami", "", &http.Cookie{Name: sessionCookie, Value: "sealed-good"}); w.Code != http.StatusUnauthorized {
		t.Errorf("a copy of the cookie outlives the session: %d", w.Code)
	}
	if w := send(t, h, http.MethodGet, "/v1/whoami", "", &http.Cookie{Name: sessionCookie, Value: "forged"}); w.Code != http.StatusUnauthorized {
		t.Errorf("a forged session gave %d", w.Code)
	}
}

func TestWrongKeysAreLimited(t *testing.T) {
	h, _ := sessionServer()
	for range maxRefused {
		if w := send(t, h, http.MethodPost, "/v1/session", `{"key":"bad"}`, nil); w.Code != http.StatusUnauthorized || w.Header().Get("Set-Cookie") != "" {
			t.Fatalf("a wrong key gave %d", w.Code)
		}
	}
	w := send(t, h, http.MethodPost, "/v1/session", `{"key":"bad"}`, nil)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
		t.Errorf("after %d wrong keys: %d %v", maxRefused, w.Code, w.Header())
	}
	signIn(t, h) // behind the same proxy
	if w := send(t, h, http.MethodPost, "/v1/session", `{"key":"other"}`, nil); w.Code != http.StatusUnauthorized {
		t.Errorf("another wrong key gave %d", w.Code)
	}
	r, now := newRefusals(), time.Now()
	for range maxRefused {
		r.add("a", now)
	}
	if r.wait("a", now) <= 0 || r.wait("b", now) > 0 || r.wait("a", now.Add(refusedTime)) > 0 {
		t.Error("an address waits for another, or for ever, or not at all")
	}
}
