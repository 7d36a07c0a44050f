package apiserver_test

// People with access rules for single collections.

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/cmd/internal/apiserver"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

const personPassword = "a password for tests"

// signInTest is a world whose people sign in at an identity provider.
type signInTest struct {
	*world
	provider *localtest.OIDC
	file     string // path of the access rules
}

func newSignInTest(t *testing.T, users ...localtest.OIDCUser) signInTest {
	t.Helper()
	for i := range users {
		users[i].ID, users[i].Name, users[i].Password = "id-"+users[i].Username, users[i].Username, personPassword
	}
	p := signInTest{provider: localtest.NewOIDC(t, users...), file: filepath.Join(t.TempDir(), "access.yaml")}
	p.allow(t)
	p.world = newWorldServed(t, localtest.Database(t), store.Options{}, config.HTTP{SessionSecret: strings.Repeat("s", 32)},
		apiserver.Deps{OIDC: config.OIDC{OIDCIssuer: p.provider.Issuer(), OIDCClientID: p.provider.ClientID, OIDCClientSecret: p.provider.ClientSecret,
			OIDCScopes: []string{"profile"}, OIDCGroupsClaim: "groups", OIDCAccess: p.file, OIDCAudience: localtest.Assistant, OIDCSession: time.Hour}})
	return p
}

// allow writes the access rules.
func (p signInTest) allow(t *testing.T, rules ...string) {
	t.Helper()
	text := "rules: [" + strings.Join(rules, ",\n  ") + "]\n"
	if err := os.WriteFile(p.file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(p.file+".new", p.file); err != nil {
		t.Fatal(err)
	}
}

// signIn signs a user in as a browser does. Without a session it returns the server's message.
func (p signInTest) signIn(name string) (who user, refusal string) {
	p.t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	get := func(url string, cookies []*http.Cookie) *http.Response {
		p.t.Helper()
		r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, url, nil)
		if err != nil {
			p.t.Fatal(err)
		}
		for _, c := range cookies {
			r.AddCookie(c)
		}
		got, err := client.Do(r)
		if err != nil {
			p.t.Fatal(err)
		}
		p.t.Cleanup(func() { _ = got.Body.Close() })
		return got
	}
	begun := get(p.url+"/v1/session/oidc", nil)
	done := get(p.provider.SignIn(begun.Header.Get("Location"), name, personPassword).String(), begun.Cookies())
	for _, c := range done.Cookies() {
		if c.Name == "sluice_session" {
			return user{t: p.t, url: p.url}.acting("Cookie", c.Name+"="+c.Value, "X-Sluice-Session", "1"), ""
		}
	}
	body, err := io.ReadAll(done.Body)
	if err != nil || done.StatusCode != http.StatusForbidden {
		p.t.Errorf("signing in gives %s %s, %v", done.Status, body, err)
	}
	return user{}, string(body)
}

// enter signs a user in who must have access.
func (p signInTest) enter(name string) user {
	p.t.Helper()
	who, refusal := p.signIn(name)
	if refusal != "" {
		p.t.Fatalf("%s is refused: %s", name, refusal)
	}
	return who
}

func (p signInTest) collection(name string) (made schema.Collection) {
	p.t.Helper()
	p.post("/v1/collections", api.NewCollection{Name: name}, "").want(http.StatusCreated, &made)
	return made
}

var oneDocument = api.Upload{Documents: []api.NewDocument{{ExternalID: "a", Text: "a"}}}

func TestAPersonOfACollection(t *testing.T) {
	p := newSignInTest(t, localtest.OIDCUser{Username: "ann", Groups: []string{"legal"}})
	contracts := p.collection("contracts")
	p.collection("handbook")
	var stored api.UploadResult
	p.post("/v1/collections/handbook/documents", oneDocument, "").want(http.StatusOK, &stored)
	elsewhere := "/v1/documents/" + stored.Documents[0].Document.String()
	var asked atomic.Int32
	serve(p.world, bus.Serve(p.nats, bus.ServeOptions{Subject: wire.SearchSubject, Group: "test", Concurrency: 1}, func(_ context.Context, r wire.SearchRequest) wire.SearchReply {
		if r.Collection != contracts.ID {
			t.Errorf("a search in collection %s came through", r.Collection)
		}
		asked.Add(1)
		return wire.SearchReply{Envelope: wire.Header(), SearchResult: schema.SearchResult{Plan: "naive"}}
	}, func(e *schema.RemoteError) wire.SearchReply { return wire.SearchReply{Error: e} }))

	p.allow(t, "{group: legal, tenant: first, role: contributor, collections: [contracts]}")
	browser := p.enter("ann")
	token, _ := p.provider.Tokens(localtest.Assistant, "ann", personPassword)
	for method, ann := range map[string]user{"by session": browser, "by token": {t: t, url: p.url, key: token}} {
		get := func(path string) response { return ann.do(http.MethodGet, path, nil, "") }
		var me api.Identity
		get("/v1/whoami").want(http.StatusOK, &me)
		if len(me.Scopes) != 0 || len(me.Collections) != 1 || me.Collections[0].Collection != contracts.ID || me.Collections[0].Name != "contracts" ||
			!slices.Equal(me.Collections[0].Scopes, []schema.Scope{schema.ScopeIngest, schema.ScopeQuery}) {
			t.Errorf("%s ann is %+v", method, me)
		}
		var page api.Page[schema.Collection]
		if get("/v1/collections").want(http.StatusOK, &page); len(page.Items) != 1 || page.Items[0].ID != contracts.ID {
			t.Errorf("%s ann lists %+v", method, page.Items)
		}
		ann.post("/v1/collections/contracts/documents", oneDocument, "").want(http.StatusOK, &stored)
		get("/v1/documents/"+stored.Documents[0].Document.String()).want(http.StatusOK, nil)
		ann.post("/v1/search", api.Query{Collection: "contracts", Query: "Why?"}, "").want(http.StatusOK, nil)

		ann.post("/v1/collections/handbook/documents", oneDocument, "").want(http.StatusNotFound, nil)
		ann.post("/v1/search", api.Query{Collection: "handbook", Query: "Why?"}, "").want(http.StatusNotFound, nil)
		for _, path := range []string{"/v1/collections/handbook", "/v1/collections/handbook/documents", elsewhere, elsewhere + "/content"} {
			get(path).want(http.StatusNotFound, nil)
		}
		get("/v1/keys").want(http.StatusForbidden, nil)
		ann.post("/v1/collections", api.NewCollection{Name: "more"}, "").want(http.StatusForbidden, nil)
	}
	if asked.Load() != 2 {
		t.Errorf("%d searches came through, want 2", asked.Load())
	}
	var keys api.Page[api.Key]
	p.do(http.MethodGet, "/v1/keys", nil, "").want(http.StatusOK, &keys)
	if k := keys.Items[len(keys.Items)-1]; k.Kind != "person" || len(k.Collections) != 1 || k.Collections[0].Name != "contracts" {
		t.Errorf("the list of keys has %+v", k)
	}
}

func TestRulesOfCollectionsHoldFromTheNextSignIn(t *testing.T) {
	p := newSignInTest(t, localtest.OIDCUser{Username: "bob", Groups: []string{"staff", "legal"}})
	p.collection("contracts")
	p.collection("handbook")
	upload := func(who user, collection string, status int) {
		t.Helper()
		who.post("/v1/collections/"+collection+"/documents", oneDocument, "").want(status, nil)
	}
	get := func(who user, path string, status int) {
		t.Helper()
		who.do(http.MethodGet, path, nil, "").want(status, nil)
	}
	const (
		reads = "{group: staff, tenant: first, role: reader, labels: []}"
		adds  = "{group: legal, tenant: first, role: contributor, collections: [contracts]}"
	)
	// Rules add up.
	p.allow(t, reads, adds)
	bob := p.enter("bob")
	get(bob, "/v1/collections/handbook", http.StatusOK)
	upload(bob, "contracts", http.StatusOK)
	upload(bob, "handbook", http.StatusForbidden)

	// A changed file takes effect at the next sign-in, for earlier sessions, too.
	p.allow(t, adds)
	get(bob, "/v1/collections/handbook", http.StatusOK)
	again := p.enter("bob")
	for _, who := range []user{bob, again} {
		upload(who, "contracts", http.StatusOK)
		get(who, "/v1/collections/handbook", http.StatusNotFound)
	}
	p.allow(t, reads)
	p.enter("bob")
	get(bob, "/v1/collections/handbook", http.StatusOK)
	upload(bob, "contracts", http.StatusForbidden)

	// A collection that was deleted and created again is another one.
	p.allow(t, adds)
	bob = p.enter("bob")
	p.do(http.MethodDelete, "/v1/collections/contracts", nil, "").want(http.StatusNoContent, nil)
	p.collection("contracts")
	upload(bob, "contracts", http.StatusNotFound)
	p.enter("bob")
	upload(bob, "contracts", http.StatusOK)
}

func TestRulesOfCollectionsThatAreNotThere(t *testing.T) {
	log := &logBuffer{}
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	p := newSignInTest(t, localtest.OIDCUser{Username: "ann", Groups: []string{"legal"}})
	p.collection("contracts")

	p.allow(t, "{group: legal, tenant: first, role: reader, labels: [board], collections: [contracts]}",
		"{group: legal, tenant: first, role: contributor, labels: [court], collections: [nonesuch]}")
	ann := p.enter("ann")
	var me api.Identity
	ann.do(http.MethodGet, "/v1/whoami", nil, "").want(http.StatusOK, &me)
	if len(me.Collections) != 1 || !slices.Equal(me.Groups, []string{"board"}) {
		t.Errorf("ann is %+v", me)
	}
	if n := log.count("level=WARN msg=\"an access rule names a collection that does not exist\" tenant=" + p.admin.Tenant.String() + " collection=nonesuch"); n != 1 {
		t.Errorf("the log says %d times that there is no such collection", n)
	}
	p.allow(t, "{group: legal, tenant: first, role: contributor, collections: [nonesuch]}")
	if _, refusal := p.signIn("ann"); !strings.Contains(refusal, "ann has the groups legal") || !strings.Contains(refusal, "do not exist: nonesuch") {
		t.Errorf("without any collection ann is told %q", refusal)
	}
	ann.do(http.MethodGet, "/v1/whoami", nil, "").want(http.StatusUnauthorized, nil)
}
