package oidc_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/auth"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/oidc"
	"github.com/sluice-rag/sluice/schema"
)

const (
	callback = "http://127.0.0.1:7700/v1/session/oidc/callback"
	password = "a password for tests"
	rules    = "rules:\n  - {group: staff, tenant: acme, role: reader}\n"
)

func TestMain(m *testing.M) {
	localtest.Main(m, localtest.Need{})
}

var ann = localtest.OIDCUser{ID: "u-1", Username: "ann", Password: password, Name: "Ann Example", Groups: []string{"staff", "legal"}}

// world is a provider with its users, and the client under test.
type world struct {
	t     *testing.T
	there *localtest.OIDC
	p     *oidc.Provider
	now   *time.Time
	file  string
}

func setUp(t *testing.T, there *localtest.OIDC, change ...func(*oidc.Options)) world {
	t.Helper()
	seals, err := auth.NewSignIns("")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	w := world{t: t, there: there, now: &now, file: filepath.Join(t.TempDir(), "access.yaml")}
	w.write(rules)
	o := oidc.Options{Issuer: there.Issuer(), ClientID: there.ClientID, ClientSecret: there.ClientSecret, GroupsClaim: "groups", Scopes: []string{"profile"},
		AccessFile: w.file, Seals: seals, Now: func() time.Time { return *w.now }}
	for _, c := range change {
		c(&o)
	}
	if w.p, err = oidc.New(o); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w world) write(rules string) {
	w.t.Helper()
	if err := os.WriteFile(w.file, []byte(rules), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// begin begins a sign-in.
func (w world) begin() (page, kept string) {
	w.t.Helper()
	page, kept, err := w.p.Begin(w.t.Context(), oidc.Begin{Redirect: callback, ReturnTo: "/collections?x=1", Tenant: "acme"})
	if err != nil {
		w.t.Fatal(err)
	}
	return page, kept
}

// answer signs ann in at the provider's page.
func (w world) answer(page string) url.Values {
	w.t.Helper()
	return w.there.SignIn(page, "ann", password).Query()
}

// signIn signs ann in.
func (w world) signIn() (oidc.Identity, error) {
	w.t.Helper()
	page, kept := w.begin()
	return w.p.Complete(w.t.Context(), kept, w.answer(page))
}

// refused checks that an error is of a kind, contains words, and contains no secret.
func refused(t *testing.T, what string, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: %v, not %v", what, err, kind)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %q does not say %q", what, err, word)
		}
	}
	if strings.Contains(err.Error(), "eyJ") || strings.Contains(err.Error(), "sluice-test-secret") {
		t.Errorf("%s: the error shows a token or the secret: %v", what, err)
	}
}

func TestProviderSaysWhoSignsIn(t *testing.T) {
	there := localtest.NewOIDC(t, ann)
	w := setUp(t, there)
	page, kept := w.begin()
	asked, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	q := asked.Query()
	if q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" || q.Get("nonce") == "" || q.Get("state") == "" || q.Get("redirect_uri") != callback || q.Get("scope") != "openid profile" {
		t.Errorf("the provider is asked for %v", q)
	}
	if strings.Contains(kept, q.Get("state")) || strings.Contains(page, "verifier") {
		t.Error("what the browser keeps is not sealed, or the verifier is in the address")
	}
	for where, groups := range map[string][]string{"": {"legal", "staff"}, "id_token": {"legal", "staff"}, "userinfo": {"legal", "staff"}, "nowhere": nil} {
		u := ann
		u.Where = where
		there.SetUsers(u)
		who, err := w.signIn()
		if err != nil {
			t.Fatalf("groups in %q: %v", where, err)
		}
		if who.Subject != there.Issuer()+"|u-1" || who.Name != "Ann Example" || !slices.Equal(who.Groups, groups) || who.ReturnTo != "/collections?x=1" || who.Tenant != "acme" {
			t.Errorf("groups in %q: %+v", where, who)
		}
	}
}

func TestForgedAnswersAreRefused(t *testing.T) {
	there := localtest.NewOIDC(t, ann)
	w := setUp(t, there)
	complete := func(kept string, answer url.Values) error {
		_, err := w.p.Complete(t.Context(), kept, answer)
		return err
	}
	page, kept := w.begin()
	good := w.answer(page)
	with := func(name, value string) url.Values {
		v := url.Values{}
		for k := range good {
			v.Set(k, good.Get(k))
		}
		v.Set(name, value)
		return v
	}
	_, other := w.begin()
	refused(t, "no cookie", complete("", good), schema.ErrUnauthorized, "sign in again")
	refused(t, "a cookie of another server", complete(kept[:len(kept)-2]+"xx", good), schema.ErrUnauthorized, "sign in again")
	refused(t, "another sign-in's cookie", complete(other, good), schema.ErrUnauthorized, "state")
	refused(t, "another state", complete(kept, with("state", "x")), schema.ErrUnauthorized, "state")
	refused(t, "another issuer", complete(kept, with("iss", "https://elsewhere.example")), schema.ErrUnauthorized, "another provider")
	refused(t, "another code", complete(kept, with("code", "x")), schema.ErrUnauthorized, "code")
	refused(t, "a refusal", complete(kept, with("error", "access_denied")), schema.ErrForbidden, "access_denied")
	if err := complete(kept, good); err != nil {
		t.Errorf("the answer itself: %v", err)
	}
	refused(t, "the answer again", complete(kept, good), schema.ErrUnauthorized, "used before")

	page, kept = w.begin()
	asked, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	q := asked.Query()
	q.Set("nonce", "of-another-sign-in")
	asked.RawQuery = q.Encode()
	refused(t, "another nonce", complete(kept, w.answer(asked.String())), schema.ErrUnauthorized, "nonce")

	page, _ = w.begin() // its verifier is another one
	stolen := w.answer(page)
	page, kept = w.begin()
	mine := w.answer(page)
	mine.Set("code", stolen.Get("code"))
	refused(t, "a code of another sign-in", complete(kept, mine), schema.ErrUnauthorized, "code")
}

func TestTokensOfOthersAndOldOnesAreRefused(t *testing.T) {
	there := localtest.NewOIDC(t, ann)
	w := setUp(t, there)
	u := ann
	u.Audience = "another-client"
	there.SetUsers(u)
	_, err := w.signIn()
	refused(t, "another audience", err, schema.ErrUnauthorized, "audience", "another-client")
	there.SetUsers(ann)

	began := *w.now
	*w.now = began.Add(time.Hour + 30*time.Second) // within the skew
	page, kept := w.begin()
	if _, err := w.p.Complete(t.Context(), kept, w.answer(page)); err != nil {
		t.Errorf("half a minute after its expiry: %v", err)
	}
	*w.now = began.Add(time.Hour + 2*time.Minute)
	// The seal of what the browser keeps uses its own clock, so the token's age is what matters.
	_, err = w.signIn()
	refused(t, "an expired token", err, schema.ErrUnauthorized, "expired", "clocks")
	*w.now = began.Add(-10 * time.Minute)
	_, err = w.signIn()
	refused(t, "a token of the future", err, schema.ErrUnauthorized)
	*w.now = began

	wrong := setUp(t, there, func(o *oidc.Options) { o.ClientSecret = "another secret" })
	_, err = wrong.signIn()
	refused(t, "another secret", err, schema.ErrProvider, "refuses this server", "invalid_client")
}

func TestProviderMayComeAndGo(t *testing.T) {
	there := localtest.NewOIDCStopped(t, ann)
	there.Claim("http://127.0.0.1:9")
	w := setUp(t, there)
	begin := func() error {
		_, _, err := w.p.Begin(t.Context(), oidc.Begin{Redirect: callback})
		return err
	}
	refused(t, "a provider that is away", begin(), schema.ErrUnavailable, "does not answer", "API key")
	there.Start()
	*w.now = w.now.Add(3 * time.Second) // the provider is called again
	refused(t, "a provider that calls itself something else", begin(), schema.ErrUnavailable, "does not answer")
	there.Stop()
	there.Claim("")
	there.Start()
	refused(t, "within two seconds", begin(), schema.ErrUnavailable, "does not answer")
	*w.now = w.now.Add(3 * time.Second)
	page, kept := w.begin()
	answer := w.answer(page)
	there.Stop()
	_, err := w.p.Complete(t.Context(), kept, answer)
	refused(t, "a provider that leaves", err, schema.ErrUnavailable, "does not answer")
	there.Start()
	if _, err := w.signIn(); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}

func TestOnlyOwnPathsAreReturnedTo(t *testing.T) {
	w := setUp(t, localtest.NewOIDC(t, ann))
	for path, good := range map[string]bool{
		"": true, "/": true, "/collections/docs?q=a%20b#x": true, "/%5cevil.example": true,
		"//evil.example": false, "https://evil.example": false, "evil": false, `/\evil.example`: false, "/\t/evil.example": false, "/\n/evil.example": false,
		"javascript:alert(1)": false, `\\evil.example`: false, " //evil.example": false, "/" + strings.Repeat("a", 1024): false, "/\xff": false,
	} {
		_, _, err := w.p.Begin(t.Context(), oidc.Begin{Redirect: callback, ReturnTo: path})
		var wrong *schema.FieldError
		if good != (err == nil) || !good && (!errors.As(err, &wrong) || wrong.Field != "return_to") {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*oidc.Options){
		"SLUICE_OIDC_ISSUER":       func(o *oidc.Options) { o.Issuer = "http://login.example" },
		"SLUICE_OIDC_CLIENT_ID":    func(o *oidc.Options) { o.ClientID = "" },
		"SLUICE_OIDC_ACCESS":       func(o *oidc.Options) { o.AccessFile = "" },
		"SLUICE_OIDC_GROUPS_CLAIM": func(o *oidc.Options) { o.GroupsClaim = "" },
	} {
		o := oidc.Options{Issuer: "https://login.example", ClientID: "sluice", GroupsClaim: "groups", AccessFile: file}
		if _, err := oidc.New(o); err != nil {
			t.Fatal(err)
		}
		change(&o)
		var wrong *schema.FieldError
		if _, err := oidc.New(o); !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
