package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// Store keeps keys by their hash.
type Store interface {
	// KeyByHash returns a key and its tenant. A person's row is not a key.
	KeyByHash(ctx context.Context, hash []byte) (uuid.UUID, schema.Key, error)
	People
	CreateKey(ctx context.Context, p schema.Principal, tenant uuid.UUID, k schema.SealedKey) (schema.Key, error)
	Keys(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.Key, string, error)
	RevokeKey(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Key, error)
	// RotateKey stores next in place of a valid key of p's tenant, if may allows that; the old key
	// stays valid until until.
	RotateKey(ctx context.Context, p schema.Principal, id uuid.UUID, next schema.SealedKey,
		now, until time.Time, may func(old schema.Key) error) (schema.Key, error)
	// KeyUsed records that a key is used now, unless that was recorded less than within ago.
	KeyUsed(ctx context.Context, tenant, id uuid.UUID, within time.Duration) error
	CreateTenant(ctx context.Context, p schema.Principal, t schema.NewTenant, first schema.SealedKey) (schema.Tenant, error)
	TenantNamed(ctx context.Context, name string) (schema.Tenant, error)
}

const (
	// cacheTTL is how long principals are cached: a key that another process revokes works at most
	// this much longer, if that process cannot invalidate the cache.
	cacheTTL = 3 * time.Second
	// maxCached is the most cached principals.
	maxCached = 4096
	// usedWithin is the precision of the time when a key was last used.
	usedWithin = 5 * time.Minute
)

// Auth authenticates API keys and sessions, and creates and revokes keys. It is safe for concurrent
// use.
type Auth struct {
	store Store
	now   func() time.Time

	mu    sync.Mutex
	cache map[[sha256.Size]byte]cachedPrincipal
}

type cachedPrincipal struct {
	principal schema.Principal
	session   uuid.UUID // uuid.Nil: authenticated by an API key
	until     time.Time
}

// New returns an Auth on top of a store.
func New(store Store) *Auth {
	return &Auth{store: store, now: time.Now, cache: map[[sha256.Size]byte]cachedPrincipal{}}
}

// Authenticate returns the principal of key, which is an API key, the secret of a person's session
// or an access token that began one. The error is schema.ErrUnauthorized when key is unknown,
// revoked, ended or expired; except for an unknown key, the owner is returned with the error,
// without scopes and groups. The caller must check whether the key may be used from the request's
// address.
func (a *Auth) Authenticate(ctx context.Context, key string) (schema.Principal, error) {
	if !wellFormed(key) && !tokenShaped(key) {
		return schema.Principal{}, fmt.Errorf("this is not an API key: %w", schema.ErrUnauthorized)
	}
	hash := sha256.Sum256([]byte(key))
	now := a.now()
	if p, ok := a.recall(hash, now); ok {
		return p, nil
	}
	h, err := a.lookUp(ctx, hash[:])
	k := h.key
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return schema.Principal{}, fmt.Errorf("the API key is unknown: %w", schema.ErrUnauthorized)
	case err != nil:
		return schema.Principal{}, fmt.Errorf("authenticate: %w", err)
	case k.RevokedAt != nil:
		return h.principal(), fmt.Errorf("%s was revoked: %w", h, schema.ErrUnauthorized)
	case h.ended:
		return h.principal(), fmt.Errorf("%s was ended: %w", h, schema.ErrUnauthorized)
	case h.expires != nil && !h.expires.After(now):
		return h.principal(), fmt.Errorf("%s has expired: %w", h, schema.ErrUnauthorized)
	}
	p := schema.Principal{Tenant: h.tenant, Key: k.ID, Name: k.Name, Scopes: k.Scopes, Groups: k.Groups, Addresses: k.Addresses, Collections: k.Collections}
	until := now.Add(cacheTTL)
	if h.expires != nil && h.expires.Before(until) {
		until = *h.expires
	}
	a.keep(hash, cachedPrincipal{principal: p, session: h.session, until: until}, now)
	if h.used == nil || h.used.Before(now.Add(-usedWithin)) {
		// A failure to record the use must not lock anybody out.
		if err := a.noteUse(ctx, h); err != nil {
			slog.WarnContext(ctx, "cannot record the use of a key", "tenant", h.tenant, "key", k.ID, "error", err)
		}
	}
	return p, nil
}

func (a *Auth) recall(hash [sha256.Size]byte, now time.Time) (schema.Principal, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, ok := a.cache[hash]
	if !ok || !now.Before(k.until) {
		delete(a.cache, hash)
		return schema.Principal{}, false
	}
	return k.principal, true
}

func (a *Auth) keep(hash [sha256.Size]byte, k cachedPrincipal, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.cache) >= maxCached {
		for h, old := range a.cache {
			if !now.Before(old.until) {
				delete(a.cache, h)
			}
		}
		if len(a.cache) >= maxCached {
			clear(a.cache) // all are valid: the store has to look up each again
		}
	}
	a.cache[hash] = k
}

// CreateKey creates a key of p's tenant and returns it, for the only time. p needs the admin scope,
// or the operator scope to give the operator scope and no other.
func (a *Auth) CreateKey(ctx context.Context, p schema.Principal, k schema.NewKey) (schema.Key, string, error) {
	if err := mayGive(p, everyScope(k.Scopes, k.Collections)); err != nil {
		return schema.Key{}, "", fmt.Errorf("create key: %w", err)
	}
	return a.create(ctx, p, p.Tenant, k)
}

// everyScope returns the scopes of the tenant and those of collections.
func everyScope(scopes []schema.Scope, collections []schema.CollectionScopes) []schema.Scope {
	out := slices.Clone(scopes)
	for _, c := range collections {
		out = append(out, c.Scopes...)
	}
	return out
}

// mayGive returns an error unless p may create keys with these scopes.
func mayGive(p schema.Principal, scopes []schema.Scope) error {
	if !p.Has(schema.ScopeAdmin) && !p.Has(schema.ScopeOperator) {
		return fmt.Errorf("needs the admin scope: %w", schema.ErrForbidden)
	}
	for _, s := range scopes {
		switch {
		case s == schema.ScopeOperator && !p.Has(schema.ScopeOperator):
			return fmt.Errorf("only an operator's key may give the operator scope: %w", schema.ErrForbidden)
		case s != schema.ScopeOperator && !p.Has(schema.ScopeAdmin):
			return fmt.Errorf("needs the admin scope to give the %s scope: %w", s, schema.ErrForbidden)
		}
	}
	return nil
}

func (a *Auth) create(ctx context.Context, p schema.Principal, tenant uuid.UUID, k schema.NewKey) (schema.Key, string, error) {
	if err := check(k, a.now()); err != nil {
		return schema.Key{}, "", err
	}
	key, sealed, err := seal(k)
	if err != nil {
		return schema.Key{}, "", err
	}
	stored, err := a.store.CreateKey(ctx, p, tenant, sealed)
	if err != nil {
		return schema.Key{}, "", err
	}
	return stored, key, nil
}

// RevokeKey revokes a key of p's tenant for good: at once in this process, within seconds in
// others.
func (a *Auth) RevokeKey(ctx context.Context, p schema.Principal, id uuid.UUID) error {
	_, err := a.store.RevokeKey(ctx, p, id)
	a.forget(id)
	return err
}

func (a *Auth) forget(id uuid.UUID) {
	a.forgetWhere(func(k cachedPrincipal) bool { return k.principal.Key == id })
}

// ForgetTenant drops the cached keys of a tenant, because another process changed some.
func (a *Auth) ForgetTenant(tenant uuid.UUID) {
	a.forgetWhere(func(k cachedPrincipal) bool { return k.principal.Tenant == tenant })
}

func (a *Auth) forgetWhere(gone func(cachedPrincipal) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for hash, k := range a.cache {
		if gone(k) {
			delete(a.cache, hash)
		}
	}
}

// CreateTenant creates a tenant and its first key, an admin's, which it returns for the only time.
// p needs the operator scope.
func (a *Auth) CreateTenant(ctx context.Context, p schema.Principal, t schema.NewTenant) (schema.Tenant, string, error) {
	if !p.Has(schema.ScopeOperator) {
		return schema.Tenant{}, "", fmt.Errorf("create tenant: needs the operator scope: %w", schema.ErrForbidden)
	}
	return a.createTenant(ctx, p, t, schema.NewKey{Name: "admin", Scopes: []schema.Scope{schema.ScopeAdmin}})
}

func (a *Auth) createTenant(ctx context.Context, p schema.Principal, t schema.NewTenant, first schema.NewKey) (schema.Tenant, string, error) {
	key, sealed, err := seal(first)
	if err != nil {
		return schema.Tenant{}, "", err
	}
	tenant, err := a.store.CreateTenant(ctx, p, t, sealed)
	if err != nil {
		return schema.Tenant{}, "", err
	}
	return tenant, key, nil
}
