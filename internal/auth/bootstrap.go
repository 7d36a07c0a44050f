package auth

// This file creates the first key of a new installation.

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rag/sluice/schema"
)

var bootstrapKey = schema.NewKey{
	Name:   "bootstrap",
	Scopes: []schema.Scope{schema.ScopeOperator, schema.ScopeAdmin, schema.ScopeIngest, schema.ScopeQuery, schema.ScopeImpersonate},
}

// EnsureBootstrap makes sure that the tenant tenantName exists, and has a valid key with the
// operator scope. If it had to create a key, which has all scopes, it returns it, for the only
// time, and true; otherwise "" and false.
func (a *Auth) EnsureBootstrap(ctx context.Context, tenantName string) (string, bool, error) {
	system, key, err := a.bootstrapTenant(ctx, tenantName)
	if err != nil || key != "" {
		return key, key != "", err
	}
	working, err := a.operatorKeys(ctx, system)
	if err != nil || len(working) > 0 {
		return "", false, err
	}
	_, key, err = a.create(ctx, system, system.Tenant, bootstrapKey)
	if err != nil {
		return "", false, fmt.Errorf("make the bootstrap key: %w", err)
	}
	return key, true, nil
}

// RenewBootstrap creates a new key with all scopes for the tenant tenantName, and revokes the
// previous bootstrap keys: it is for when these are lost. It creates the tenant if it is missing.
func (a *Auth) RenewBootstrap(ctx context.Context, tenantName string) (string, error) {
	system, key, err := a.bootstrapTenant(ctx, tenantName)
	if err != nil || key != "" {
		return key, err
	}
	old, err := a.operatorKeys(ctx, system)
	if err != nil {
		return "", err
	}
	_, key, err = a.create(ctx, system, system.Tenant, bootstrapKey)
	if err != nil {
		return "", fmt.Errorf("make the bootstrap key: %w", err)
	}
	for _, k := range old {
		if k.Name != bootstrapKey.Name {
			continue
		}
		if err := a.RevokeKey(ctx, system, k.ID); err != nil {
			return "", err
		}
	}
	return key, nil
}

// bootstrapTenant returns the system's own principal in a tenant. If the tenant was missing, it
// creates it and returns its first key, too.
func (a *Auth) bootstrapTenant(ctx context.Context, name string) (schema.Principal, string, error) {
	t, err := a.store.TenantNamed(ctx, name)
	if errors.Is(err, schema.ErrNotFound) {
		var key string
		t, key, err = a.createTenant(ctx, schema.Principal{}, schema.NewTenant{Name: name}, bootstrapKey)
		if err == nil {
			return schema.Principal{Tenant: t.ID}, key, nil
		}
		if errors.Is(err, schema.ErrConflict) { // another process created it meanwhile
			t, err = a.store.TenantNamed(ctx, name)
		}
	}
	if err != nil {
		return schema.Principal{}, "", fmt.Errorf("bootstrap: %w", err)
	}
	return schema.Principal{Tenant: t.ID}, "", nil
}

// operatorKeys lists the valid keys of p's tenant with the operator scope. People who sign in do
// not count: the identity provider may be gone.
func (a *Auth) operatorKeys(ctx context.Context, p schema.Principal) ([]schema.Key, error) {
	var out []schema.Key
	now := a.now()
	for cursor := ""; ; {
		keys, next, err := a.store.Keys(ctx, p, schema.PageQuery{Cursor: cursor, Limit: 500})
		if err != nil {
			return nil, fmt.Errorf("bootstrap: %w", err)
		}
		for _, k := range keys {
			if k.Subject == "" && k.RevokedAt == nil && (k.ExpiresAt == nil || k.ExpiresAt.After(now)) && slices.Contains(k.Scopes, schema.ScopeOperator) {
				out = append(out, k)
			}
		}
		if next == "" {
			return out, nil
		}
		cursor = next
	}
}
