package localtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"golang.org/x/oauth2"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/waittest"
)

// OIDCUser is a user of an OpenID Connect provider for tests.
type OIDCUser struct {
	ID       string   `json:"id"`
	Username string   `json:"username"`
	Password string   `json:"password"`
	Name     string   `json:"name"`
	Groups   []string `json:"groups"`
	Where    string   `json:"where"`    // of the groups: "id_token" or "userinfo"; empty: both
	Audience string   `json:"audience"` // audience of the tokens; empty: the client
}

// OIDC is an OpenID Connect provider that set-up built (tools/oidc). A test can stop and start it,
// and change its users. Clients may use any address on this machine as redirect URL. It runs until
// the end of the test.
type OIDC struct {
	Address                string // host:port
	ClientID, ClientSecret string

	t       testing.TB
	program string
	users   string // path of a file
	issuer  string // the issuer to claim; empty: its own
	child   *exec.Cmd
	input   io.Closer
}

// NewOIDC starts a provider with users.
func NewOIDC(t testing.TB, users ...OIDCUser) *OIDC {
	t.Helper()
	o := NewOIDCStopped(t, users...)
	o.Start()
	return o
}

// NewOIDCStopped returns a provider that is started by Start.
func NewOIDCStopped(t testing.TB, users ...OIDCUser) *OIDC {
	t.Helper()
	tools, err := local.ToolsDir()
	if err != nil {
		t.Fatalf("localtest: %v", err)
	}
	o := &OIDC{ClientID: "sluice", ClientSecret: "sluice-test-secret", t: t, program: filepath.Join(tools, "oidc-server"), users: filepath.Join(Dir(t), "users.json")}
	if _, err := os.Stat(o.program); err != nil {
		t.Fatalf("localtest: the provider of OpenID Connect for tests is missing (looked for %s): run `tools/setup oidc`", o.program)
	}
	o.SetUsers(users...)
	o.Address = FreeAddress(t)
	t.Cleanup(o.Stop)
	return o
}

// Issuer returns the provider's own issuer URL.
func (o *OIDC) Issuer() string { return "http://" + o.Address }

// Claim sets the issuer that the provider claims from its next start on.
func (o *OIDC) Claim(issuer string) { o.issuer = issuer }

// SetUsers replaces the users.
func (o *OIDC) SetUsers(users ...OIDCUser) {
	o.t.Helper()
	data, err := json.Marshal(users)
	if err == nil {
		err = os.WriteFile(o.users+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(o.users+".new", o.users)
	}
	if err != nil {
		o.t.Fatalf("localtest: write the users of a provider: %v", err)
	}
}

// Start starts the provider, and returns when it listens.
func (o *OIDC) Start() {
	o.t.Helper()
	args := []string{"--listen", o.Address, "--users", o.users, "--client-id", o.ClientID, "--client-secret", o.ClientSecret, "--exit-with-stdin"}
	if o.issuer != "" {
		args = append(args, "--issuer", o.issuer)
	}
	o.child = exec.Command(o.program, args...)
	o.child.Stdout, o.child.Stderr = os.Stderr, os.Stderr
	var err error
	if o.input, err = o.child.StdinPipe(); err != nil {
		o.t.Fatalf("localtest: %v", err)
	}
	if err := o.child.Start(); err != nil {
		o.t.Fatalf("localtest: start the provider of OpenID Connect: %v", err)
	}
	var dialer net.Dialer
	waittest.Until(o.t, func() string {
		conn, err := dialer.DialContext(context.Background(), "tcp", o.Address)
		if err != nil {
			return fmt.Sprintf("the provider of OpenID Connect does not listen: %v", err)
		}
		_ = conn.Close()
		return ""
	})
}

// Stop kills the provider.
func (o *OIDC) Stop() {
	if o.child == nil {
		return
	}
	_ = o.child.Process.Kill()
	_ = o.input.Close()
	_ = o.child.Wait() // it returns the error that it was killed
	o.child = nil
}

// Assistant is the client that acts for people with access tokens, and the audience of these
// tokens. Its secret is ClientSecret.
const Assistant = "assistant"

// Tokens signs a user in for a client, like an assistant that opens the user's browser, and returns
// the tokens.
func (o *OIDC) Tokens(client, username, password string) (access, id string) {
	o.t.Helper()
	c := oauth2.Config{ClientID: client, ClientSecret: o.ClientSecret, RedirectURL: "http://127.0.0.1:9/v1/session/oidc/callback", Scopes: []string{"openid", "profile"},
		Endpoint: oauth2.Endpoint{AuthURL: o.Issuer() + "/auth", TokenURL: o.Issuer() + "/oauth/token", AuthStyle: oauth2.AuthStyleInHeader}}
	verifier := oauth2.GenerateVerifier()
	back := o.SignIn(c.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier)), username, password)
	token, err := c.Exchange(o.t.Context(), back.Query().Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		o.t.Fatalf("localtest: exchange the code of %s: %v", username, err)
	}
	id, _ = token.Extra("id_token").(string)
	return token.AccessToken, id
}

var signInID = regexp.MustCompile(`name="id" value="([^"]+)"`)

// SignIn opens page, which leads to the provider's form, submits the form for a user, and returns
// the address that the provider then redirects the browser to.
func (o *OIDC) SignIn(page, username, password string) *url.URL {
	o.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			if r.URL.Host != o.Address {
				return http.ErrUseLastResponse
			}
			return nil
		}}
	read := func(r *http.Response, err error) (*http.Response, []byte) {
		o.t.Helper()
		if err != nil {
			o.t.Fatalf("localtest: sign in at the provider: %v", err)
		}
		defer func() { _ = r.Body.Close() }()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			o.t.Fatalf("localtest: sign in at the provider: %v", err)
		}
		return r, body
	}
	r, form := read(client.Get(page))
	id := signInID.FindSubmatch(form)
	if r.StatusCode != http.StatusOK || id == nil {
		o.t.Fatalf("localtest: the provider shows no form: %s %.500s", r.Status, form)
	}
	r, form = read(client.Post("http://"+o.Address+"/login/username", "application/x-www-form-urlencoded",
		bytes.NewBufferString(url.Values{"username": {username}, "password": {password}, "id": {string(id[1])}}.Encode())))
	back, err := r.Location()
	if err != nil {
		o.t.Fatalf("localtest: the provider did not sign %s in: %s %.500s", username, r.Status, form)
	}
	return back
}
