package auth

// This file gives a new installation its first key.

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

// EnsureBootstrap makes sure that tenant tenantName exists and that a working
// key with all scopes does. When it made the key it returns it, this once, and
// true; otherwise "" and false.
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

// RenewBootstrap makes a new key with all scopes for tenant tenantName, in
// place of the bootstrap keys before it, which it revokes: for when those are
// lost. It makes the tenant when it is missing.
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

// bootstrapTenant returns the system's own principal in a tenant, and the key
// that was made with the tenant if it was missing.
func (a *Auth) bootstrapTenant(ctx context.Context, name string) (schema.Principal, string, error) {
	t, err := a.store.TenantNamed(ctx, name)
	if errors.Is(err, schema.ErrNotFound) {
		var key string
		t, key, err = a.createTenant(ctx, schema.Principal{}, schema.NewTenant{Name: name}, bootstrapKey)
		if err == nil {
			return schema.Principal{Tenant: t.ID}, key, nil
		}
		if errors.Is(err, schema.ErrConflict) { // another process made it meanwhile
			t, err = a.store.TenantNamed(ctx, name)
		}
	}
	if err != nil {
		return schema.Principal{}, "", fmt.Errorf("bootstrap: %w", err)
	}
	return schema.Principal{Tenant: t.ID}, "", nil
}

// operatorKeys lists the working keys of p's tenant that hold the operator
// scope. People who sign in are none of them: they may be gone with the provider.
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
