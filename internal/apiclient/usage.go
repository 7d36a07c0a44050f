package apiclient

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// LLMUsage returns the language model usage of the key's tenant.
func (c *Client) LLMUsage(ctx context.Context) (schema.LLMUsage, error) {
	return get[schema.LLMUsage](ctx, c, "/v1/usage", nil)
}

// TenantLLMUsage returns a tenant's language model usage; needs the operator scope.
func (c *Client) TenantLLMUsage(ctx context.Context, tenant uuid.UUID) (schema.LLMUsage, error) {
	return get[schema.LLMUsage](ctx, c, "/v1/tenants/"+tenant.String()+"/usage", nil)
}

// Storage returns what a tenant has stored. For a tenant other than the key's own it needs the
// operator scope.
func (c *Client) Storage(ctx context.Context, tenant uuid.UUID) (schema.Storage, error) {
	return get[schema.Storage](ctx, c, "/v1/tenants/"+tenant.String()+"/storage", nil)
}

// SetLLMLimits replaces a tenant's limits of language models; needs the operator scope.
func (c *Client) SetLLMLimits(ctx context.Context, tenant uuid.UUID, l schema.LLMLimits) (schema.LLMUsage, error) {
	var out schema.LLMUsage
	return out, c.json(ctx, http.MethodPut, "/v1/tenants/"+tenant.String()+"/limits", nil, l, &out)
}
