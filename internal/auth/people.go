package auth

// This file authenticates people who sign in at an identity provider: each has a row among the keys
// of a tenant, without a secret, and sessions that refer to it.

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
	// SignIn creates a session of a person in a tenant, and updates the person's row with their
	// current scopes, collections and groups. The error is schema.ErrForbidden if the row was
	// revoked.
	SignIn(ctx context.Context, tenant uuid.UUID, who schema.Person, s schema.SealedSession) (schema.Key, schema.PersonSession, error)
	// SessionByHash returns a session, its tenant and its person's row, even if they have ended.
	SessionByHash(ctx context.Context, hash []byte) (uuid.UUID, schema.PersonSession, schema.Key, error)
	// SessionUsed records that a session is used now, unless that was recorded less than within
	// ago.
	SessionUsed(ctx context.Context, tenant, id, person uuid.UUID, within time.Duration) error
	// Sessions and EndSession are for one person of p's tenant, or for all for uuid.Nil.
	Sessions(ctx context.Context, p schema.Principal, of uuid.UUID, q schema.PageQuery) ([]schema.PersonSession, string, error)
	EndSession(ctx context.Context, p schema.Principal, id, of uuid.UUID) error
	// EndSessionsElsewhere ends a person's sessions in all tenants except those in but, and returns
	// the tenants where there were any.
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

// String describes it in errors, without its secret.
func (h resolvedSecret) String() string {
	if h.session != uuid.Nil {
		return "the session of " + h.key.Name
	}
	return "the API key " + h.key.Prefix
}

// principal returns the owner, without scopes and groups.
func (h resolvedSecret) principal() schema.Principal {
	return schema.Principal{Tenant: h.tenant, Key: h.key.ID, Name: h.key.Name}
}

// lookUp returns the API key or the session whose secret has a hash.
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

// SignIn creates a session of a person in a tenant, and returns its secret for the only time: it is
// used like an API key. The person's current rights also apply to their other sessions in the
// tenant.
func (a *Auth) SignIn(ctx context.Context, tenant uuid.UUID, who schema.Person, n schema.NewSession) (schema.Principal, schema.PersonSession, string, error) {
	secret, sealed, err := seal(schema.NewKey{})
	if err != nil {
		return schema.Principal{}, schema.PersonSession{}, "", err
	}
	p, session, err := a.signIn(ctx, tenant, who, schema.SealedSession{NewSession: n, Hash: sealed.Hash})
	return p, session, secret, err
}

// SignInBy creates a session whose secret is a verified access token. A token begins one session:
// for another one, even after the first has ended, the error is schema.ErrConflict.
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

// Session returns the session that a secret belongs to. The error is schema.ErrNotFound when it is
// an API key or unknown.
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

// Sessions lists sessions of p's tenant, newest first: all if an admin asks for all, otherwise p's
// own.
func (a *Auth) Sessions(ctx context.Context, p schema.Principal, all bool, q schema.PageQuery) ([]schema.PersonSession, string, error) {
	of := p.Key
	if all {
		if !p.Has(schema.ScopeAdmin) {
			return nil, "", fmt.Errorf("listing the sessions of others needs the admin scope: %w", schema.ErrForbidden)
		}
		of = uuid.Nil
	}
	return a.store.Sessions(ctx, p, of, q)
}

// EndSession ends a session of p's tenant: anybody's for an admin, otherwise p's own. It ends at
// once in this process, and within seconds in others.
func (a *Auth) EndSession(ctx context.Context, p schema.Principal, id uuid.UUID) error {
	of := p.Key
	if p.Has(schema.ScopeAdmin) {
		of = uuid.Nil
	}
	err := a.store.EndSession(ctx, p, id, of)
	a.forgetWhere(func(k cachedPrincipal) bool { return k.session == id })
	return err
}

// SignOut ends the session that a secret belongs to, and returns its tenant, or uuid.Nil if the
// secret belongs to no session.
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

// EndSessionsElsewhere ends the sessions that a person has in other tenants than those in but,
// which the person may enter now. It returns the tenants where there were any.
func (a *Auth) EndSessionsElsewhere(ctx context.Context, subject string, but []uuid.UUID) ([]uuid.UUID, error) {
	ended, err := a.store.EndSessionsElsewhere(ctx, subject, but)
	for _, tenant := range ended {
		a.ForgetTenant(tenant)
	}
	return ended, err
}
