package httpapi

// The credential of a request is checked again while its stream lasts. A key that is revoked or
// expires or loses a scope or a group, and a session that is signed out of, end their streams.

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// credentialInterval is the interval at which a stream checks its key. The Authenticator answers
// from memory, except once in a few seconds.
const credentialInterval = 2 * time.Second

// credential is an API key, and the sealed session that it came in; empty if it came in none.
type credential struct {
	key, sealed string
	owner       schema.Principal // the key's, when the request came in
}

type credentialKey struct{}

// These are the reasons why a stream ends.
var (
	errCredentialEnded = errors.New("the API key or the session has ended")
	errScopeLost       = errors.New("the API key or the session has lost a scope or a group since this request began")
)

// checkCredential returns an error if the credential of a request is not valid anymore, or gives
// less than when the request began. It ignores failures of the check itself.
func (s *server) checkCredential(ctx context.Context) error {
	c, ok := ctx.Value(credentialKey{}).(credential)
	if !ok {
		return nil
	}
	if c.sealed != "" && s.ended.has(c.sealed) {
		return errCredentialEnded
	}
	now, err := s.Authenticator.Authenticate(ctx, c.key)
	switch {
	case errors.Is(err, schema.ErrUnauthorized):
		return errCredentialEnded
	case err == nil && !now.Covers(c.owner):
		return errScopeLost
	}
	return nil
}

// tokenError is the reason why an access token is not accepted. The client gets it in the reply.
type tokenError struct{ error }

// Unwrap returns the reason.
func (e tokenError) Unwrap() error { return e.error }

// errWrongAddress says that a key may not be used from the address of a request.
var errWrongAddress = errors.New("the API key may not be used from here")

// addressProblem returns the problem for errWrongAddress.
func (s *server) addressProblem(r *http.Request) error {
	return huma.Error403Forbidden("the API key may not be used from " + clean(s.clientAddress(r)) + ", the address of this request; it is limited to other addresses")
}

// keyPrincipal returns the principal of the key that a request is made with. If the key may not be
// used from the request's address it returns errWrongAddress, and a principal that only identifies
// the key.
func (s *server) keyPrincipal(r *http.Request, key string) (schema.Principal, error) {
	p, err := s.Authenticator.Authenticate(r.Context(), key)
	if errors.Is(err, schema.ErrUnauthorized) && p.Tenant == uuid.Nil && s.SignIns != nil {
		begun, failure := s.SignIns.SignInByToken(r.Context(), key, s.newSession(r))
		if failure != nil {
			return p, tokenError{failure}
		}
		if begun {
			p, err = s.Authenticator.Authenticate(r.Context(), key)
		}
	}
	if err != nil {
		return p, err
	}
	if len(p.Addresses) == 0 {
		return p, nil
	}
	if from, _ := netip.ParseAddr(s.clientAddress(r)); !p.MayComeFrom(from) {
		return schema.Principal{Tenant: p.Tenant, Key: p.Key, Name: p.Name}, errWrongAddress
	}
	return p, nil
}

// maxEndedSessions bounds the ended sessions that are remembered.
const maxEndedSessions = 65_536

// endedSessions are the sessions that were signed out of in this process before they expired. A
// copied cookie is useless after that.
type endedSessions struct {
	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time
}

// add records that a session has ended. until is when it would have expired.
func (e *endedSessions) add(sealed string, until, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.until == nil {
		e.until = map[[sha256.Size]byte]time.Time{}
	}
	if len(e.until) >= maxEndedSessions {
		for hash, over := range e.until {
			if !now.Before(over) {
				delete(e.until, hash)
			}
		}
		for hash := range e.until { // any: the keys in the sessions are still checked
			if len(e.until) < maxEndedSessions {
				break
			}
			delete(e.until, hash)
		}
	}
	e.until[sha256.Sum256([]byte(sealed))] = until
}

func (e *endedSessions) has(sealed string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.until[sha256.Sum256([]byte(sealed))]
	return ok
}
