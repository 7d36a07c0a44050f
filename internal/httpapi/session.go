package httpapi

// Sessions of browsers: a sealed API key in a cookie that scripts cannot read and other sites
// cannot send.

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// Sessions seals API keys into cookies.
type Sessions interface {
	Seal(key string) (sealed string, ends time.Time)
	SealUntil(key string, ends time.Time) (sealed string)
	// Open returns the key in a sealed cookie, which is not authenticated yet;
	// schema.ErrUnauthorized if there is none.
	Open(sealed string) (key string, err error)
}

const (
	sessionCookie = "sluice_session"
	// sessionPath restricts the cookie to the API.
	sessionPath = "/v1"
	// sessionHeader is required on every request by cookie that may change something. Forms cannot
	// send it, nor can scripts of other sites without CORS permission, which no site has.
	sessionHeader = "X-Sluice-Session"
)

const (
	// maxRefused is how many wrong keys with the same prefix one address may send within
	// refusedTime before it has to wait. A key cannot be guessed; each try costs the database a
	// lookup in one index.
	maxRefused  = 30
	refusedTime = time.Minute
	// maxRefusals bounds the counters that are remembered.
	maxRefusals = 4096
	// shownKeyBytes is the length of the prefix of a key that lists show.
	shownKeyBytes = 12
)

var errNoKey = errors.New("no API key")

// key returns the API key of a request, from its header or from the cookie of its session.
func (s *server) key(ctx huma.Context) (credential, error) {
	if header := ctx.Header("Authorization"); header != "" {
		key, ok := strings.CutPrefix(header, "Bearer ")
		if !ok || strings.TrimSpace(key) == "" {
			return credential{}, errNoKey
		}
		key = strings.TrimSpace(key)
		if tenant := ctx.Header(TenantHeader); tenant != "" && schema.LooksLikeToken(key) {
			key += " " + tenant
		}
		return credential{key: key}, nil
	}
	r, _ := humago.Unwrap(ctx)
	cookie, err := r.Cookie(sessionCookie)
	if err != nil || s.Sessions == nil {
		return credential{}, errNoKey
	}
	if err := ownRequest(r); err != nil {
		return credential{}, err
	}
	if s.ended.has(cookie.Value) {
		return credential{}, schema.ErrUnauthorized
	}
	key, err := s.Sessions.Open(cookie.Value)
	return credential{key: key, sealed: cookie.Value}, err
}

// ownRequest returns an error if a request does not come from this server's own pages.
func ownRequest(r *http.Request) error {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return huma.Error403Forbidden("a session is valid only for this server's own pages; other clients must send an API key")
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Header.Get(sessionHeader) == "" {
		return huma.Error403Forbidden("a request by session that changes something must send the header " + sessionHeader + ": 1")
	}
	return nil
}

type newSession struct {
	Body api.NewSession
	r    *http.Request
}

// Resolve implements huma.Resolver.
func (n *newSession) Resolve(ctx huma.Context) []error {
	n.r, _ = humago.Unwrap(ctx)
	return nil
}

type endSession struct{ r *http.Request }

// Resolve implements huma.Resolver.
func (e *endSession) Resolve(ctx huma.Context) []error {
	e.r, _ = humago.Unwrap(ctx)
	return nil
}

type sessionReply struct {
	SetCookie    http.Cookie `header:"Set-Cookie"`
	CacheControl string      `header:"Cache-Control"`
	Body         api.Session
}

func (s *server) routeSessions() {
	tags := []string{"Sessions"}
	errs := []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	refused := newRefusals()
	huma.Register(s.api, huma.Operation{OperationID: "begin-session", Method: http.MethodPost, Path: "/v1/session", Summary: "Begin a browser's session", Tags: tags,
		Security: []map[string][]string{}, Errors: errs,
		Metadata: sessionBody.with(map[string]any{admitKey: ownRequest}),
		Description: "The key goes, sealed, into a cookie that scripts cannot read; requests with the cookie are the key's. " +
			"This request, and every one by cookie but GET, needs the header `" + sessionHeader + ": 1`. The session ends with the key, or after 12 hours."},
		func(ctx context.Context, in *newSession) (*sessionReply, error) {
			if in.Body.Key == "" || s.Sessions == nil {
				return nil, huma.Error401Unauthorized("send an API key as \"key\"")
			}
			key := strings.TrimSpace(in.Body.Key)
			if schema.LooksLikeToken(key) {
				return nil, huma.Error401Unauthorized("a browser's session needs an API key; send an access token in the header Authorization")
			}
			p, err := s.keyPrincipal(in.r, key)
			recordOf(ctx).by(p)
			if errors.Is(err, errWrongAddress) {
				return nil, s.addressProblem(in.r)
			}
			if errors.Is(err, schema.ErrUnauthorized) {
				// A valid key is accepted whatever others at its address tried.
				if wait := refused.refuse(s.attemptKey(in.r, key), time.Now()); wait > 0 {
					return nil, huma.ErrorWithHeaders(huma.Error429TooManyRequests("too many wrong keys like this one came from this address; try again later"),
						http.Header{"Retry-After": {strconv.Itoa(int(wait/time.Second) + 1)}})
				}
				return nil, huma.Error401Unauthorized("the API key is unknown, revoked or expired")
			}
			if err != nil {
				return nil, authProblem(ctx, err)
			}
			identity, err := s.identity(ctx, p)
			if err != nil {
				return nil, authProblem(ctx, err)
			}
			sealed, ends := s.Sessions.Seal(key)
			return &sessionReply{SetCookie: cookie(in.r, sealed, int(time.Until(ends)/time.Second)), CacheControl: "no-store",
				Body: api.Session{Identity: identity, EndsAt: ends}}, nil
		})
	huma.Register(s.api, huma.Operation{OperationID: "end-session", Method: http.MethodDelete, Path: "/v1/session", Summary: "End a browser's session", Tags: tags,
		Security: []map[string][]string{}, Errors: errs, DefaultStatus: http.StatusNoContent},
		func(ctx context.Context, in *endSession) (*struct {
			SetCookie http.Cookie `header:"Set-Cookie"`
		}, error) {
			sealed, err := in.r.Cookie(sessionCookie)
			if err != nil {
				return nil, huma.Error401Unauthorized("there is no session")
			}
			if err := ownRequest(in.r); err != nil {
				return nil, err
			}
			if s.Sessions != nil {
				// Finish signing out if the page is closed meanwhile.
				ctx := context.WithoutCancel(ctx)
				if key, err := s.Sessions.Open(sealed.Value); err == nil {
					p, _ := s.Authenticator.Authenticate(ctx, key)
					recordOf(ctx).by(p)
					if err := s.signOut(ctx, key); err != nil {
						return nil, err
					}
					_, until := s.Sessions.Seal("") // a session sealed now would outlast it
					s.ended.add(sealed.Value, until, time.Now())
				}
			}
			return &struct {
				SetCookie http.Cookie `header:"Set-Cookie"`
			}{cookie(in.r, "", -1)}, nil
		})
}

// cookie returns the cookie of a session that expires in seconds; a negative number deletes it. A
// browser that connects over https, possibly through a proxy, sends it over https only.
func cookie(r *http.Request, sealed string, seconds int) http.Cookie {
	return http.Cookie{Name: sessionCookie, Value: sealed, Path: sessionPath, MaxAge: seconds, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")}
}

func (s *server) identity(ctx context.Context, p schema.Principal) (api.Identity, error) {
	identity := api.Identity{Tenant: p.Tenant, Key: p.Key, Name: p.Name, Scopes: nonNil(p.Scopes), Groups: p.OwnGroups(), Person: p.Person, TraceURL: s.TraceURL}
	if len(p.Collections) == 0 {
		return identity, nil
	}
	var err error
	identity.Collections, err = s.Tenants.NameCollections(ctx, p.Tenant, p.Collections)
	return identity, err
}

// addressOf returns the remote address of a connection, without the port.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// attemptKey returns what wrong keys are counted by: the address and the key's prefix.
func (s *server) attemptKey(r *http.Request, key string) string {
	return s.clientAddress(r) + " " + key[:min(len(key), shownKeyBytes)]
}

// refusals counts wrong keys by address and prefix.
type refusals struct {
	mu   sync.Mutex
	from map[string]refusal
}

type refusal struct {
	n     int
	until time.Time // the end of the counting period
}

func newRefusals() *refusals { return &refusals{from: map[string]refusal{}} }

// refuse counts a wrong key. It returns how long to wait if there were too many.
func (r *refusals) refuse(try string, now time.Time) time.Duration {
	if wait := r.wait(try, now); wait > 0 {
		return wait
	}
	r.add(try, now)
	return 0
}

// wait returns how long to wait before another try.
func (r *refusals) wait(address string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.from[address]; f.n >= maxRefused {
		return f.until.Sub(now)
	}
	return 0
}

func (r *refusals) add(address string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.from[address]
	if !now.Before(f.until) {
		f = refusal{until: now.Add(refusedTime)}
	}
	f.n++
	if len(r.from) >= maxRefusals {
		for a, old := range r.from {
			if !now.Before(old.until) {
				delete(r.from, a)
			}
		}
		if len(r.from) >= maxRefusals {
			clear(r.from) // a flood from many addresses is not stopped here
		}
	}
	r.from[address] = f
}
