// Package oidc signs people in at an OpenID Connect provider, by the authorization code flow with
// PKCE, state and nonce. It returns who they are and what the access rules give them; package auth
// makes their sessions.
package oidc

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	openid "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/sluice-rag/sluice/schema"
)

const (
	// SignInTime is how long signing in at the provider may take.
	SignInTime = 10 * time.Minute
	// answerTime is how long the provider may take for one request.
	answerTime = 10 * time.Second
	// failedTime is how long a provider that did not answer is not called again.
	failedTime = 2 * time.Second
	// skew is the largest accepted difference between the provider's clock and this one.
	skew = time.Minute
	// maxReturn bounds a path to return to, in bytes: it is stored in a cookie.
	maxReturn = 1024
)

// Seals protects what a browser keeps from being read or changed.
type Seals interface {
	SealUntil(text string, ends time.Time) string
	// Open returns the text. The error is schema.ErrUnauthorized when it was not sealed by us, or
	// has expired.
	Open(sealed string) (string, error)
}

// Options of a Provider.
type Options struct {
	Issuer       string
	ClientID     string
	ClientSecret string   // empty: a public client
	Scopes       []string // requested in addition to openid
	GroupsClaim  string   // the claim that lists a person's groups
	Name         string   // of the provider, for people; empty: the issuer's host
	AccessFile   string   // the rules of access
	Audience     string   // of access tokens; empty: none are accepted
	Seals        Seals
	Now          func() time.Time // nil: time.Now
}

// Provider is an OpenID Connect provider. Its endpoints and keys are requested on first use. It is
// safe for concurrent use.
type Provider struct {
	o      Options
	client *http.Client
	access *accessFile

	mu         sync.Mutex // held while the endpoints are requested
	discovered *openid.Provider
	keys       openid.KeySet // for access tokens
	failed     time.Time     // when it last failed to answer
}

// New checks the options and the access rules, without calling the provider.
func New(o Options) (*Provider, error) {
	issuer, err := url.Parse(o.Issuer)
	if err != nil || issuer.Host == "" || issuer.RawQuery != "" || issuer.Fragment != "" || issuer.User != nil {
		return nil, schema.Invalid("SLUICE_OIDC_ISSUER", "%q: must be a URL, such as https://login.example.com/realm", o.Issuer)
	}
	if issuer.Scheme != "https" && (issuer.Scheme != "http" || !loopback(issuer.Hostname())) {
		return nil, schema.Invalid("SLUICE_OIDC_ISSUER", "%q: must begin with https://; http is allowed on this machine only", o.Issuer)
	}
	if o.ClientID == "" {
		return nil, schema.Invalid("SLUICE_OIDC_CLIENT_ID", "must be set with SLUICE_OIDC_ISSUER: the client that the provider knows this server by")
	}
	if o.AccessFile == "" {
		return nil, schema.Invalid("SLUICE_OIDC_ACCESS", "must be set with SLUICE_OIDC_ISSUER: the file with the rules of access for groups")
	}
	if o.GroupsClaim == "" {
		return nil, schema.Invalid("SLUICE_OIDC_GROUPS_CLAIM", "must not be empty")
	}
	if o.Name == "" {
		o.Name = issuer.Host
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	access, err := openAccess(o.AccessFile)
	if err != nil {
		return nil, err
	}
	// Sign-ins are rare: no connection is kept open.
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, TLSHandshakeTimeout: answerTime, ForceAttemptHTTP2: true}
	return &Provider{o: o, access: access, client: &http.Client{Timeout: answerTime, Transport: transport}}, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Name returns the provider's name for display.
func (p *Provider) Name() string { return p.o.Name }

// underWay is what the browser keeps, sealed, during a sign-in.
type underWay struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	Redirect string `json:"r"`
	ReturnTo string `json:"p"`
	Tenant   string `json:"t"`
}

// Begin describes a sign-in.
type Begin struct {
	Redirect string // where the provider sends the browser afterwards
	ReturnTo string // a path of this server for the end; empty: "/"
	Tenant   string // which they chose; empty: the only one
}

// Begin returns the provider's page for the sign-in, and what the browser has to keep meanwhile.
func (p *Provider) Begin(ctx context.Context, b Begin) (page, kept string, err error) {
	if b.ReturnTo == "" {
		b.ReturnTo = "/"
	}
	if !ownPath(b.ReturnTo) {
		return "", "", schema.Invalid("return_to", "must be a path of this server, such as /collections, of at most %d bytes", maxReturn)
	}
	if err := schema.CheckLength("tenant", b.Tenant, 0, 63); err != nil {
		return "", "", err
	}
	provider, err := p.discover(ctx)
	if err != nil {
		return "", "", err
	}
	w := underWay{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Redirect: b.Redirect, ReturnTo: b.ReturnTo, Tenant: b.Tenant}
	text, err := json.Marshal(w)
	if err != nil {
		return "", "", fmt.Errorf("encode a sign-in: %w", err)
	}
	page = p.oauth(provider, w.Redirect).AuthCodeURL(w.State, openid.Nonce(w.Nonce), oauth2.S256ChallengeOption(w.Verifier))
	return page, p.o.Seals.SealUntil(string(text), p.o.Now().Add(SignInTime)), nil
}

// ownPath reports whether a browser that is sent to path stays on this server.
func ownPath(path string) bool {
	if len(path) > maxReturn || !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || !utf8.ValidString(path) ||
		strings.ContainsFunc(path, func(r rune) bool { return r == '\\' || unicode.IsControl(r) }) {
		return false
	}
	u, err := url.Parse(path)
	return err == nil && u.Scheme == "" && u.Host == "" && u.User == nil
}

func (p *Provider) oauth(provider *openid.Provider, redirect string) *oauth2.Config {
	scopes := []string{openid.ScopeOpenID}
	for _, s := range p.o.Scopes {
		if !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	endpoint := provider.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInHeader
	var known struct {
		Methods []string `json:"token_endpoint_auth_methods_supported"` // none: client_secret_basic
	}
	if err := provider.Claims(&known); err == nil && len(known.Methods) > 0 && !slices.Contains(known.Methods, "client_secret_basic") || p.o.ClientSecret == "" {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{ClientID: p.o.ClientID, ClientSecret: p.o.ClientSecret, Endpoint: endpoint, RedirectURL: redirect, Scopes: scopes}
}

// discover requests the provider's endpoints, until it has answered once.
func (p *Provider) discover(ctx context.Context) (*openid.Provider, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.discovered != nil {
		return p.discovered, nil
	}
	if since := p.o.Now().Sub(p.failed); since >= 0 && since < failedTime {
		return nil, p.unavailable()
	}
	// The caller may leave meanwhile, but others wait for the answer, too.
	provider, err := openid.NewProvider(openid.ClientContext(context.WithoutCancel(ctx), p.client), p.o.Issuer)
	if err != nil {
		p.failed = p.o.Now()
		slog.WarnContext(ctx, "cannot discover the sign-in provider", "issuer", p.o.Issuer, "error", err)
		return nil, p.unavailable()
	}
	p.discovered = provider
	return provider, nil
}

// unavailable returns the error for users when the provider does not answer; the log has details.
func (p *Provider) unavailable() error {
	return fmt.Errorf("%s does not answer, so signing in is not possible now; try again, or use an API key: %w", p.o.Name, schema.ErrUnavailable)
}

// refused translates an error of a request to the provider.
func (p *Provider) refused(ctx context.Context, doing string, err error) error {
	slog.WarnContext(ctx, "a sign-in failed at the provider", "issuer", p.o.Issuer, "doing", doing, "error", plain(err))
	var said *oauth2.RetrieveError
	switch {
	case !errors.As(err, &said):
		return p.unavailable()
	case said.ErrorCode == "invalid_grant":
		return fmt.Errorf("%s refuses the code of this sign-in, which was used before or is too old; sign in again: %w", p.o.Name, schema.ErrUnauthorized)
	case said.ErrorCode != "":
		return fmt.Errorf("%s refuses this server: %s: %w", p.o.Name, printable(said.ErrorCode, 64), schema.ErrProvider)
	}
	return fmt.Errorf("%s answers with status %d: %w", p.o.Name, said.Response.StatusCode, schema.ErrProvider)
}

// plain formats an error without the provider's reply, which may contain tokens.
func plain(err error) string {
	var said *oauth2.RetrieveError
	if errors.As(err, &said) {
		return fmt.Sprintf("status %d, %s", said.Response.StatusCode, said.ErrorCode)
	}
	var call *url.Error
	if errors.As(err, &call) {
		return call.Op + ": " + call.Err.Error()
	}
	return err.Error()
}

// printable returns up to n bytes of the printable characters of an external text.
func printable(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
