package batch

// This file says whose requests are made with a context.

import (
	"context"

	"github.com/google/uuid"
)

type tenantKey struct{}

type terms struct {
	tenant uuid.UUID
	yields bool
}

// ForTenant returns a context whose requests are a tenant's. Interactive ones that yield go after those that don't, and
// leave them a worker, until they have waited for fairness.Patience. Requests of other contexts count as one tenant's.
func ForTenant(ctx context.Context, tenant uuid.UUID, yields bool) context.Context {
	return context.WithValue(ctx, tenantKey{}, terms{tenant, yields})
}

func termsOf(ctx context.Context) terms {
	t, _ := ctx.Value(tenantKey{}).(terms)
	return t
}
