package auth

// People who sign in at a provider: each has a row among the keys of a tenant, without a secret,
// and sessions that lead to it.

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// People is the part of a Store that keeps people and their sessions.
type People interface {
	// SignIn makes a session of a person in a tenant, whose row gets the scopes, collections and
	// groups that they have now; a row that was revoked is schema.ErrForbidden.
	SignIn(ctx context.Context, tenant uuid.UUID, who schema.Person, s schema.SealedSession) (schema.Key, schema.PersonSession, error)
	// SessionByHash returns a session, its tenant and its person's row, also when they are over.
	SessionByHash(ctx context.Context, hash []byte) (uuid.UUID, schema.PersonSession, schema.Key, error)
	// SessionUsed notes that a session is used now, unless that was noted within a time.
	SessionUsed(ctx context.Context, tenant, id, person uuid.UUID, within time.Duration) error
	// Sessions and EndSession are about one person of p's tenant, or about all for uuid.Nil.
	Sessions(ctx context.Context, p schema.Principal, of uuid.UUID, q schema.PageQuery) ([]schema.PersonSession, string, error)
	EndSession(ctx context.Context, p schema.Principal, id, of uuid.UUID) error
	// EndSessionsElsewhere ends a person's sessions in other tenants than some, and returns where
	// there were any.
	EndSessionsElsewhere(ctx context.Context, subject string, but []uuid.UUID) ([]uuid.UUID, error)
}

// resolvedSecret is the API key or session that a secret belongs to.
type resolvedSecret struct {
	tenant  uuid.UUID
	key     schema.Key
	session uuid.UUID // uuid.Nil: the secret is an API key
	ended   bool
	expires *time.Time
	used    *time.Time
}

// String names it in errors, without its secret.
func (h resolvedSecret) String() string {
	if h.session != uuid.Nil {
		return "the session of " + h.key.Name
	}
	return "the API key " + h.key.Prefix
}

// principal returns its owner, without scopes and groups.
func (h resolvedSecret) principal() schema.Principal {
	return schema.Principal{Tenant: h.tenant, Key: h.key.ID, Name: h.key.Name}
}

// resolvedSecret looks up the API key, or the session, whose secret has a hash.
func (a *Auth) lookUp(ctx context.Context, hash []byte) (resolvedSecret, error) {
	tenant, k, err := a.store.KeyByHash(ctx, hash)
	if err == nil {
		return resolvedSecret{tenant: tenant, key: k, expires: k.ExpiresAt, used: k.LastUsedAt}, nil
	}
	if !errors.Is(err, schema.ErrNotFound) {
		return resolvedSecret{}, err
	}
	tenant, s, k, err := a.store.SessionByHash(ctx, hash)
	if err != nil {
		return resolvedSecret{}, err
	}
	return resolvedSecret{tenant: tenant, key: k, session: s.ID, ended: s.EndedAt != nil, expires: &s.ExpiresAt, used: s.LastUsedAt}, nil
}

func (a *Auth) noteUse(ctx context.Context, h resolvedSecret) error {
	if h.session != uuid.Nil {
		return a.store.SessionUsed(ctx, h.tenant, h.session, h.key.ID, usedWithin)
	}
	return a.store.KeyUsed(ctx, h.tenant, h.key.ID, usedWithin)
}

// SignIn makes a session of a person in a tenant, and returns its secret this once: it is used as
// an API key is. What they may from now on holds for the sessions that they have there, too.
func (a *Auth) SignIn(ctx context.Context, tenant uuid.UUID, who schema.Person, n schema.NewSession) (schema.Principal, schema.PersonSession, string, error) {
	secret, sealed, err := seal(schema.NewKey{})
	if err != nil {
		return schema.Principal{}, schema.PersonSession{}, "", err
	}
	p, session, err := a.signIn(ctx, tenant, who, schema.SealedSession{NewSession: n, Hash: sealed.Hash})
	return p, session, secret, err
}

// SignInBy makes a session whose secret is an access token that was verified. A token begins one
// session: once more, also when that is over, it is schema.ErrConflict.
func (a *Auth) SignInBy(ctx context.Context, token string, tenant uuid.UUID, who schema.Person, n schema.NewSession) error {
	hash := sha256.Sum256([]byte(token))
	_, _, err := a.signIn(ctx, tenant, who, schema.SealedSession{NewSession: n, Hash: hash[:]})
	return err
}

func (a *Auth) signIn(ctx context.Context, tenant uuid.UUID, who schema.Person, s schema.SealedSession) (schema.Principal, schema.PersonSession, error) {
	if err := check(schema.NewKey{Name: who.Name, Scopes: who.Scopes, Collections: who.Collections, Groups: who.Groups}, a.now()); err != nil {
		return schema.Principal{}, schema.PersonSession{}, fmt.Errorf("sign in %s: %w", who.Subject, err)
	}
	row, session, err := a.store.SignIn(ctx, tenant, who, s)
	if err != nil {
		return schema.Principal{}, schema.PersonSession{}, err
	}
	a.forget(row.ID)
	return schema.Principal{Tenant: tenant, Key: row.ID, Name: row.Name, Scopes: row.Scopes, Collections: row.Collections, Groups: row.Groups}, session, nil
}

// Session returns the session that a secret is of; schema.ErrNotFound when it is an API key, or
// nothing.
func (a *Auth) Session(ctx context.Context, secret string) (uuid.UUID, error) {
	if !wellFormed(secret) && !tokenShaped(secret) {
		return uuid.Nil, schema.ErrNotFound
	}
	hash := sha256.Sum256([]byte(secret))
	h, err := a.lookUp(ctx, hash[:])
	if err == nil && h.session == uuid.Nil {
		err = schema.ErrNotFound
	}
	return h.session, err
}

// Sessions lists the sessions of p's tenant, newest first: all for an admin who asks for them, else
// p's own.
func (a *Auth) Sessions(ctx context.Context, p schema.Principal, all bool, q schema.PageQuery) ([]schema.PersonSession, string, error) {
	of := p.Key
	if all {
		if !p.Has(schema.ScopeAdmin) {
			return nil, "", fmt.Errorf("the sessions of others are shown with the admin scope: %w", schema.ErrForbidden)
		}
		of = uuid.Nil
	}
	return a.store.Sessions(ctx, p, of, q)
}

// EndSession ends a session of p's tenant: anybody's for an admin, else p's own. It ends here at
// once, in other processes within seconds.
func (a *Auth) EndSession(ctx context.Context, p schema.Principal, id uuid.UUID) error {
	of := p.Key
	if p.Has(schema.ScopeAdmin) {
		of = uuid.Nil
	}
	err := a.store.EndSession(ctx, p, id, of)
	a.forgetWhere(func(k cachedPrincipal) bool { return k.session == id })
	return err
}

// SignOut ends the session that a secret is of, and returns its tenant; uuid.Nil when the secret is
// no session's that lasts.
func (a *Auth) SignOut(ctx context.Context, secret string) (uuid.UUID, error) {
	if !wellFormed(secret) {
		return uuid.Nil, nil
	}
	hash := sha256.Sum256([]byte(secret))
	h, err := a.lookUp(ctx, hash[:])
	switch {
	case errors.Is(err, schema.ErrNotFound), err == nil && h.session == uuid.Nil:
		return uuid.Nil, nil
	case err != nil:
		return uuid.Nil, fmt.Errorf("sign out: %w", err)
	}
	return h.tenant, a.EndSession(ctx, schema.Principal{Tenant: h.tenant, Key: h.key.ID}, h.session)
}

// EndSessionsElsewhere ends the sessions that a person has in other tenants than those that they
// may enter now. It returns the tenants where there were any.
func (a *Auth) EndSessionsElsewhere(ctx context.Context, subject string, but []uuid.UUID) ([]uuid.UUID, error) {
	ended, err := a.store.EndSessionsElsewhere(ctx, subject, but)
	for _, tenant := range ended {
		a.ForgetTenant(tenant)
	}
	return ended, err
}
