package e2e

// This file signs people in with an OpenID Connect provider, over HTTP, as a browser does.

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

const signInPassword = "a password for tests"

// signedInAt is the provider of the system under test, with its access rules and users.
var signedInAt struct {
	provider *localtest.OIDC
	file     string
	rules    strings.Builder
	users    []localtest.OIDCUser
}

// signInSettings starts a provider, and returns the settings of a server that uses it.
func signInSettings(t *testing.T) []string {
	t.Helper()
	signedInAt.provider = localtest.NewOIDC(t)
	signedInAt.file = filepath.Join(localtest.Dir(t), "access.yaml")
	signedInAt.users = nil
	signedInAt.rules.Reset()
	signedInAt.rules.WriteString("rules:\n  - {group: nobody, tenant: default, role: reader}\n")
	if err := os.WriteFile(signedInAt.file, []byte(signedInAt.rules.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"SLUICE_OIDC_ISSUER=" + signedInAt.provider.Issuer(), "SLUICE_OIDC_CLIENT_ID=" + signedInAt.provider.ClientID,
		"SLUICE_OIDC_CLIENT_SECRET=" + signedInAt.provider.ClientSecret, "SLUICE_OIDC_ACCESS=" + signedInAt.file,
		"SLUICE_OIDC_AUDIENCE=" + localtest.Assistant}
}

// allow adds an access rule for a tenant or for some of its collections, and a user in its group.
func allow(t *testing.T, name, group, tenant, role string, collections ...string) {
	t.Helper()
	only := ""
	if len(collections) > 0 {
		only = ", collections: [" + strings.Join(collections, ", ") + "]"
	}
	fmt.Fprintf(&signedInAt.rules, "  - {group: %s, tenant: %s, role: %s%s}\n", group, tenant, role, only)
	if err := os.WriteFile(signedInAt.file, []byte(signedInAt.rules.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	signedInAt.users = append(signedInAt.users, localtest.OIDCUser{ID: "id-" + name, Username: name, Password: signInPassword, Name: "Person " + name, Groups: []string{group}})
	signedInAt.provider.SetUsers(signedInAt.users...)
}

// browse makes a GET request without following redirects.
func browse(t *testing.T, to string, cookies []*http.Cookie) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cookies {
		r.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value})
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response
}

// signIn signs a person in. It returns the status of the server's reply and the headers of the
// session.
func signIn(t *testing.T, s *server, name string) (status int, session []string) {
	t.Helper()
	begun := browse(t, s.url+"/v1/session/oidc?"+url.Values{"return_to": {"/collections"}}.Encode(), nil)
	if begun.StatusCode != http.StatusFound {
		t.Fatalf("beginning to sign in: %s", begun.Status)
	}
	back := signedInAt.provider.SignIn(begun.Header.Get("Location"), name, signInPassword)
	done := browse(t, back.String(), begun.Cookies())
	for _, c := range done.Cookies() {
		if c.Name == "sluice_session" {
			if done.Header.Get("Location") != "/collections" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
				t.Errorf("signing in leads to %q with %+v", done.Header.Get("Location"), c)
			}
			session = []string{"Cookie", c.Name + "=" + c.Value, "X-Sluice-Session", "1", "Sec-Fetch-Site", "same-origin"}
		}
	}
	return done.StatusCode, session
}

// signInSession signs a person in to a tenant and returns the session. s has an admin key of the
// tenant.
func signInSession(t *testing.T, s *server, tenant string) api.PersonSession {
	t.Helper()
	allow(t, tenant+"-person", tenant+"-group", tenant, "reader")
	if status, session := signIn(t, s, tenant+"-person"); status != http.StatusFound || session == nil {
		t.Fatalf("signing in gave status %d", status)
	}
	sessions := into[[]api.PersonSession](t, s.sluice(t, "sessions", "list", "--json").ok(t))
	if len(sessions) != 1 {
		t.Fatalf("there are %d sessions", len(sessions))
	}
	return sessions[0]
}

func testSignIn(t *testing.T, operator *server) {
	made := into[api.TenantCreated](t, operator.sluice(t, "tenants", "create", "people", "--json").ok(t))
	admin := operator.withKey(made.APIKey)
	anybody := operator.withKey("")
	admin.sluice(t, "ingest", write(t, map[string]string{"a.txt": "The red kite nests in the old oak."}), "-c", "birds", "--label", "group-a", "--wait").ok(t)
	admin.sluice(t, "ingest", write(t, map[string]string{"b.txt": "The red kite nests in the tall pine."}), "-c", "birds", "--label", "group-b", "--wait").ok(t)
	if ways := as[api.SignInWays](t, anybody.call(t, http.MethodGet, "/v1/session/ways", nil).want(t, http.StatusOK)); ways.OIDC == nil || ways.OIDC.Path != "/v1/session/oidc" {
		t.Errorf("the ways are %+v", ways)
	}
	allow(t, "ann", "group-a", "people", "reader")
	allow(t, "eve", "group-of-nothing", "a-tenant-that-is-not-there", "admin")
	status, ann := signIn(t, operator, "ann")
	if status != http.StatusFound {
		t.Fatalf("signing in gave status %d", status)
	}
	if status, session := signIn(t, operator, "eve"); status != http.StatusForbidden || session != nil {
		t.Errorf("somebody without a rule: status %d", status)
	}
	who := as[api.Identity](t, anybody.call(t, http.MethodGet, "/v1/whoami", nil, ann...).want(t, http.StatusOK))
	if who.Name != "Person ann" || who.Tenant != made.ID {
		t.Errorf("ann is %+v", who)
	}
	found := as[api.SearchResult](t, anybody.call(t, http.MethodPost, "/v1/search",
		map[string]any{"collection": "birds", "query": "Where does the red kite nest?"}, ann...).want(t, http.StatusOK))
	if got := names(found.Passages); len(got) != 1 || got[0] != "a.txt" {
		t.Errorf("ann finds %v", got)
	}
	anybody.call(t, http.MethodPut, "/v1/collections/birds/content?external_id=c.txt", []byte("More."), ann...).problem(t, http.StatusForbidden, "")
	anybody.call(t, http.MethodGet, "/v1/keys", nil, ann...).problem(t, http.StatusForbidden, "")

	testTokens(t, operator, who)

	keys := into[[]api.Key](t, admin.sluice(t, "keys", "list", "--json").ok(t))
	if len(keys) != 2 || keys[1].Kind != "person" || keys[1].Subject != signedInAt.provider.Issuer()+"|id-ann" || keys[1].ID != who.Key {
		t.Fatalf("the keys are %+v", keys)
	}
	_, second := signIn(t, operator, "ann")
	sessions := as[api.Page[api.PersonSession]](t, anybody.call(t, http.MethodGet, "/v1/sessions", nil, second...).want(t, http.StatusOK)).Items
	if len(sessions) != 3 || !sessions[0].Current || sessions[2].Current || sessions[0].Key != who.Key {
		t.Fatalf("ann's sessions are %+v", sessions)
	}
	operator.call(t, http.MethodDelete, "/v1/sessions/"+sessions[2].ID.String(), nil).problem(t, http.StatusNotFound, "")
	anybody.call(t, http.MethodDelete, "/v1/sessions/"+sessions[2].ID.String(), nil, second...).want(t, http.StatusNoContent)
	anybody.call(t, http.MethodGet, "/v1/whoami", nil, ann...).want(t, http.StatusUnauthorized)
	anybody.call(t, http.MethodGet, "/v1/whoami", nil, second...).want(t, http.StatusOK)
	admin.sluice(t, "keys", "revoke", who.Key.String()).ok(t)
	waittest.Until(t, func() string {
		if r := anybody.call(t, http.MethodGet, "/v1/whoami", nil, second...); r.status != http.StatusUnauthorized {
			return fmt.Sprintf("a session of one who was revoked gives %d", r.status)
		}
		return ""
	})
	if status, _ := signIn(t, operator, "ann"); status != http.StatusForbidden {
		t.Errorf("one who was revoked signs in: status %d", status)
	}
	testPersonOfACollection(t, operator, admin)
}

// testPersonOfACollection signs in a person whose rule allows one of two collections.
func testPersonOfACollection(t *testing.T, operator, admin *server) {
	anybody := operator.withKey("")
	admin.sluice(t, "ingest", write(t, map[string]string{"d.txt": "The pike spawns in flooded meadows."}), "-c", "fish", "--wait").ok(t)
	allow(t, "cat", "group-c", "people", "contributor", "fish")
	status, cat := signIn(t, operator, "cat")
	if status != http.StatusFound {
		t.Fatalf("signing in gave status %d", status)
	}
	fish := as[schema.Collection](t, admin.call(t, http.MethodGet, "/v1/collections/fish", nil).want(t, http.StatusOK))
	who := as[api.Identity](t, anybody.call(t, http.MethodGet, "/v1/whoami", nil, cat...).want(t, http.StatusOK))
	if len(who.Scopes) != 0 || len(who.Collections) != 1 || who.Collections[0].Collection != fish.ID {
		t.Errorf("cat is %+v", who)
	}
	if list := as[api.Page[schema.Collection]](t, anybody.call(t, http.MethodGet, "/v1/collections", nil, cat...).want(t, http.StatusOK)).Items; len(list) != 1 || list[0].ID != fish.ID {
		t.Errorf("cat lists %+v", list)
	}
	found := as[api.SearchResult](t, anybody.call(t, http.MethodPost, "/v1/search",
		map[string]any{"collection": "fish", "query": "Where does the pike spawn?"}, cat...).want(t, http.StatusOK))
	if got := names(found.Passages); len(got) != 1 || got[0] != "d.txt" {
		t.Errorf("cat finds %v", got)
	}
	anybody.call(t, http.MethodPut, "/v1/collections/fish/content?external_id=e.txt", []byte("Carp dig."), cat...).want(t, http.StatusOK)
	anybody.call(t, http.MethodPut, "/v1/collections/birds/content?external_id=e.txt", []byte("Carp dig."), cat...).problem(t, http.StatusNotFound, "")
	anybody.call(t, http.MethodPost, "/v1/search", map[string]any{"collection": "birds", "query": "Where does the red kite nest?"}, cat...).problem(t, http.StatusNotFound, "")
	anybody.call(t, http.MethodGet, "/v1/collections/birds", nil, cat...).problem(t, http.StatusNotFound, "")
	anybody.call(t, http.MethodGet, "/v1/keys", nil, cat...).problem(t, http.StatusForbidden, "")
}

// testTokens has an assistant act for ann with an access token of the provider, as in the Model
// Context Protocol's authorization.
func testTokens(t *testing.T, operator *server, ann api.Identity) {
	refused := operator.withKey("").call(t, http.MethodPost, "/mcp", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).want(t, http.StatusUnauthorized)
	place := regexp.MustCompile(`resource_metadata="([^"]+)"`).FindStringSubmatch(refused.header.Get("WWW-Authenticate"))
	if place == nil || !strings.HasPrefix(place[1], operator.url+"/") {
		t.Fatalf("the challenge is %q", refused.header.Get("WWW-Authenticate"))
	}
	type metadata struct {
		Resource string
		Servers  []string `json:"authorization_servers"`
	}
	found := as[metadata](t, operator.withKey("").call(t, http.MethodGet, strings.TrimPrefix(place[1], operator.url), nil).want(t, http.StatusOK))
	if found.Resource != operator.url+"/mcp" || len(found.Servers) != 1 || found.Servers[0] != signedInAt.provider.Issuer() {
		t.Errorf("the metadata are %+v", found)
	}

	token, id := signedInAt.provider.Tokens(localtest.Assistant, "ann", signInPassword)
	assistant := operator.withKey(token)
	if who := as[api.Identity](t, assistant.call(t, http.MethodGet, "/v1/whoami", nil).want(t, http.StatusOK)); who.Key != ann.Key || who.Name != ann.Name {
		t.Errorf("the token is of %+v, not of %+v", who, ann)
	}
	asked := map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": map[string]any{"name": "search", "arguments": map[string]any{"collection": "birds", "query": "Where does the red kite nest?"}}}
	reply := assistant.call(t, http.MethodPost, "/mcp", asked, "Accept", "application/json, text/event-stream").want(t, http.StatusOK)
	if text := string(reply.body); !strings.Contains(text, "old oak") || strings.Contains(text, "tall pine") {
		t.Errorf("the assistant finds %s", text)
	}
	assistant.call(t, http.MethodGet, "/v1/keys", nil).problem(t, http.StatusForbidden, "")
	assistant.call(t, http.MethodGet, "/v1/whoami", nil, "X-Sluice-Tenant", "default").problem(t, http.StatusForbidden, "")

	// These tokens are refused: an ID token, an access token for this server's own client, and one
	// of a person without a rule.
	operator.withKey(id).call(t, http.MethodGet, "/v1/whoami", nil).problem(t, http.StatusUnauthorized, "")
	own, _ := signedInAt.provider.Tokens(signedInAt.provider.ClientID, "ann", signInPassword)
	operator.withKey(own).call(t, http.MethodGet, "/v1/whoami", nil).want(t, http.StatusUnauthorized)
	eve, _ := signedInAt.provider.Tokens(localtest.Assistant, "eve", signInPassword)
	operator.withKey(eve).call(t, http.MethodGet, "/v1/whoami", nil).problem(t, http.StatusForbidden, "")

	// The token's session can be ended like others. The token does not start a second one.
	sessions := as[api.Page[api.PersonSession]](t, assistant.call(t, http.MethodGet, "/v1/sessions", nil).want(t, http.StatusOK)).Items
	if len(sessions) != 2 || !sessions[0].Current {
		t.Fatalf("ann's sessions are %+v", sessions)
	}
	assistant.call(t, http.MethodDelete, "/v1/sessions/"+sessions[0].ID.String(), nil).want(t, http.StatusNoContent)
	assistant.call(t, http.MethodGet, "/v1/whoami", nil).want(t, http.StatusUnauthorized)
}
