package httpapi

// Signing in at an OpenID Connect provider: a browser is sent there, comes back with a response,
// and gets a session. Errors are shown to people as a page, to programs as a problem.

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// SignIns signs people in at a provider.
type SignIns interface {
	// ProviderName returns the display name of the provider.
	ProviderName() string
	// BeginSignIn returns the provider's page to go to, and the state that the browser keeps until
	// it comes back.
	BeginSignIn(ctx context.Context, b SignInBegin) (page, kept string, err error)
	// CompleteSignIn validates the response that the browser came back with.
	CompleteSignIn(ctx context.Context, kept string, answer url.Values, from schema.NewSession) (SignedIn, error)
	// SignInByToken begins a session whose secret is an access token of the provider, optionally
	// followed by a space and the name of a tenant. It reports whether it began one; a secret that
	// is no token is no error.
	SignInByToken(ctx context.Context, secret string, from schema.NewSession) (bool, error)
}

// TenantHeader names the tenant in which an access token is used, for people who may enter several.
const TenantHeader = "X-Sluice-Tenant"

// SignInBegin has the parameters of a sign-in.
type SignInBegin struct {
	Redirect string // address that the provider sends the browser back to, if the server's own address is not configured
	ReturnTo string // a path of this server
	Tenant   string // empty: the person may enter only one
}

// SignedIn is the result of a sign-in.
type SignedIn struct {
	Secret   string // of the session
	Session  schema.PersonSession
	ReturnTo string
	// Tenants are the tenants to choose from; in that case there is no session.
	Tenants []string
}

// CallbackPath is the path that the provider sends browsers back to.
const CallbackPath = signInPath + "/callback"

const (
	signInPath = "/v1/session/oidc"
	// signInCookie holds the state of a sign-in. The provider's site sends the browser back, so
	// SameSite cannot be strict.
	signInCookie = "sluice_sign_in"
	signInTime   = 10 * time.Minute
)

//go:embed signin.html
var signInHTML string

var signInPage = template.Must(template.New("signin.html").Parse(signInHTML))

type signInShown struct {
	Title, Text string
	Again       string // path to try again; empty: none
	Tenants     []signInTenant
}

type signInTenant struct{ Name, Path string }

type signInWays struct {
	CacheControl string `header:"Cache-Control"`
	Body         api.SignInWays
}

var errNoProvider = huma.Error404NotFound("no sign-in provider is configured (SLUICE_OIDC_ISSUER); sign in with an API key")

func (s *server) routeSignIns() {
	tags := []string{"Sessions"}
	huma.Register(s.api, huma.Operation{OperationID: "sign-in-ways", Method: http.MethodGet, Path: "/v1/session/ways", Summary: "Show how one may sign in", Tags: tags,
		Security: []map[string][]string{}},
		func(context.Context, *struct{}) (*signInWays, error) {
			methods := api.SignInWays{Key: s.Sessions != nil}
			if s.SignIns != nil && s.Sessions != nil {
				methods.OIDC = &api.OIDCWay{Name: s.SignIns.ProviderName(), Path: signInPath}
			}
			return &signInWays{"no-store", methods}, nil
		})
	browser := func(handle func(w http.ResponseWriter, r *http.Request)) *huma.StreamResponse {
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			r, w := humago.Unwrap(ctx)
			w.Header().Set("Cache-Control", "no-store")
			handle(w, r.WithContext(ctx.Context()))
		}}
	}
	errs := []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusBadGateway, http.StatusServiceUnavailable}
	found := map[string]*huma.Response{"302": {Description: "Where the browser goes next."}}
	huma.Register(s.api, huma.Operation{OperationID: "begin-oidc", Method: http.MethodGet, Path: signInPath, Summary: "Sign in at the provider", Tags: tags,
		Security: []map[string][]string{}, Errors: errs, Responses: found,
		Description: "For browsers: sends them to the provider of OpenID Connect, from which they come back with a session's cookie."},
		func(_ context.Context, in *struct {
			ReturnTo string `query:"return_to" maxLength:"1024" doc:"A path of this server to go to in the end."`
			Tenant   string `query:"tenant" maxLength:"63" doc:"The name of the tenant, where one may enter several."`
		}) (*huma.StreamResponse, error) {
			return browser(func(w http.ResponseWriter, r *http.Request) { s.beginSignIn(w, r, in.ReturnTo, in.Tenant) }), nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "complete-oidc", Method: http.MethodGet, Path: CallbackPath, Summary: "Come back from the provider", Tags: tags,
		Security: []map[string][]string{}, Errors: errs, Responses: found, SkipValidateParams: true, // providers send more than is read
		Description: "For browsers, which the provider sends here."},
		func(context.Context, *struct{}) (*huma.StreamResponse, error) {
			return browser(s.completeSignIn), nil
		})
}

func (s *server) beginSignIn(w http.ResponseWriter, r *http.Request, returnTo, tenant string) {
	if s.SignIns == nil || s.Sessions == nil {
		s.signInFailed(w, r, errNoProvider, "")
		return
	}
	page, kept, err := s.SignIns.BeginSignIn(r.Context(), SignInBegin{Redirect: OwnAddress(r) + CallbackPath, ReturnTo: returnTo, Tenant: tenant})
	if err != nil {
		s.signInFailed(w, r, err, "")
		return
	}
	c := whileSigningIn(r, kept, int(signInTime/time.Second))
	http.SetCookie(w, &c)
	http.Redirect(w, r, page, http.StatusFound)
}

func (s *server) completeSignIn(w http.ResponseWriter, r *http.Request) {
	if s.SignIns == nil || s.Sessions == nil {
		s.signInFailed(w, r, errNoProvider, "")
		return
	}
	var kept string
	if c, err := r.Cookie(signInCookie); err == nil {
		kept = c.Value
	}
	over := whileSigningIn(r, "", -1) // deleted whatever the outcome
	http.SetCookie(w, &over)
	done, err := s.SignIns.CompleteSignIn(r.Context(), kept, r.URL.Query(), s.newSession(r))
	if err != nil {
		s.signInFailed(w, r, err, signInPath)
		return
	}
	if len(done.Tenants) > 0 {
		s.chooseTenant(w, r, done)
		return
	}
	if p, err := s.Authenticator.Authenticate(r.Context(), done.Secret); err == nil {
		recordOf(r.Context()).by(p)
	}
	c := cookie(r, s.Sessions.SealUntil(done.Secret, done.Session.ExpiresAt), int(time.Until(done.Session.ExpiresAt)/time.Second))
	http.SetCookie(w, &c)
	http.Redirect(w, r, done.ReturnTo, http.StatusFound)
}

// newSession returns the session that a request begins.
func (s *server) newSession(r *http.Request) schema.NewSession {
	return schema.NewSession{Address: clean(s.clientAddress(r)), Agent: cut(strings.ToValidUTF8(r.UserAgent(), ""), 256)}
}

// chooseTenant offers the tenants. A choice signs in again at the provider, which knows the person
// by now.
func (s *server) chooseTenant(w http.ResponseWriter, r *http.Request, done SignedIn) {
	shown := signInShown{Title: "Choose a tenant", Text: "You have access to several."}
	for _, name := range done.Tenants {
		shown.Tenants = append(shown.Tenants, signInTenant{Name: name, Path: signInPath + "?" + url.Values{"tenant": {name}, "return_to": {done.ReturnTo}}.Encode()})
	}
	if !wantsPage(r) {
		writeProblem(w, http.StatusConflict, "you have access to several tenants: start at "+signInPath+"?tenant= with one of "+strings.Join(done.Tenants, ", "))
		return
	}
	writePage(w, http.StatusOK, shown)
}

func (s *server) signInFailed(w http.ResponseWriter, r *http.Request, err error, again string) {
	err = problem(r.Context(), err)
	status := huma.Error500InternalServerError("internal error")
	errors.As(err, &status)
	var headers huma.HeadersError
	if errors.As(err, &headers) {
		for name, values := range headers.GetHeaders() {
			w.Header().Set(name, values[0])
		}
	}
	if !wantsPage(r) {
		writeProblem(w, status.GetStatus(), cut(status.Error(), maxDetail))
		return
	}
	writePage(w, status.GetStatus(), signInShown{Title: "Not signed in", Text: cut(status.Error(), maxDetail), Again: again})
}

// wantsPage reports whether the client is a browser that a person uses.
func wantsPage(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

func writePage(w http.ResponseWriter, status int, shown signInShown) {
	var page bytes.Buffer
	if err := signInPage.Execute(&page, shown); err != nil {
		writeProblem(w, http.StatusInternalServerError, "internal error") // cannot happen: plain texts
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	_, _ = page.WriteTo(w)
}

// whileSigningIn returns the cookie of a sign-in that expires in seconds; a negative number deletes
// it.
func whileSigningIn(r *http.Request, kept string, seconds int) http.Cookie {
	c := cookie(r, kept, seconds)
	c.Name, c.Path, c.SameSite = signInCookie, CallbackPath, http.SameSiteLaxMode
	return c
}

// OwnAddress returns the address that a request was sent to.
func OwnAddress(r *http.Request) string {
	scheme := "http"
	if cookie(r, "", 0).Secure {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}
