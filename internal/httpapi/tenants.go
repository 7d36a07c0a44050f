package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func (s *server) routeTenants() {
	s.routeUsage()
	route(s, huma.Operation{OperationID: "whoami", Method: http.MethodGet, Path: "/v1/whoami", Summary: "Show whose key this is", Tags: []string{"Keys"}},
		"", func(ctx context.Context, p schema.Principal, _ *struct{}) (*reply[api.Identity], error) {
			return replyTo(s.identity(ctx, p))
		})
	tenants := []string{"Tenants"}
	route(s, huma.Operation{OperationID: "list-tenants", Method: http.MethodGet, Path: "/v1/tenants", Summary: "List tenants", Tags: tenants},
		schema.ScopeOperator, func(ctx context.Context, p schema.Principal, in *struct{ Paging }) (*reply[api.Page[api.Tenant]], error) {
			items, next, err := s.Tenants.Tenants(ctx, in.query())
			return list(items, next, err, shownTenant)
		})
	route(s, huma.Operation{OperationID: "create-tenant", Metadata: repeatRefuse.metadata(), Method: http.MethodPost, Path: "/v1/tenants", Summary: "Create a tenant and its first key", Tags: tenants, DefaultStatus: http.StatusCreated},
		schema.ScopeOperator, func(ctx context.Context, p schema.Principal, in *struct{ Body api.NewTenant }) (*reply[api.TenantCreated], error) {
			t, key, err := s.Tenants.CreateTenant(ctx, p, schema.NewTenant{Name: in.Body.Name, MaxDocuments: in.Body.MaxDocuments, MaxBytes: in.Body.MaxBytes})
			return replyTo(api.TenantCreated{Tenant: shownTenant(t), APIKey: key}, err)
		})
	route(s, huma.Operation{OperationID: "get-tenant", Method: http.MethodGet, Path: "/v1/tenants/{tenant}", Summary: "Show a tenant", Tags: tenants,
		Description: "Its own, or any with the `operator` scope."},
		"", func(ctx context.Context, p schema.Principal, in *struct {
			Tenant uuid.UUID `path:"tenant" format:"uuid"`
		}) (*reply[api.Tenant], error) {
			if in.Tenant != p.Tenant && !p.Has(schema.ScopeOperator) {
				return nil, schema.ErrNotFound
			}
			t, err := s.Tenants.Tenant(ctx, in.Tenant)
			return replyTo(shownTenant(t), err)
		})

	route(s, huma.Operation{OperationID: "change-tenant", Method: http.MethodPatch, Path: "/v1/tenants/{tenant}", Summary: "Set a tenant's quotas", Tags: tenants,
		Description: "Both at once; an absent one is no limit. A quota under what the tenant has keeps it from adding more. Needs the `operator` scope."},
		"", func(ctx context.Context, p schema.Principal, in *struct {
			Tenant uuid.UUID `path:"tenant" format:"uuid"`
			Body   api.Quotas
		}) (*reply[api.Tenant], error) {
			if err := requireOperator(p, in.Tenant, "quotas"); err != nil {
				return nil, err
			}
			t, err := s.Tenants.SetQuotas(ctx, p, in.Tenant, in.Body.MaxDocuments, in.Body.MaxBytes)
			return replyTo(shownTenant(t), err)
		})

	s.routeKeys()
	s.routeAudit()
}

func shownTenant(t schema.Tenant) api.Tenant { return api.Tenant(t) }

// requireOperator returns an error unless p may set what a tenant is allowed, which needs the
// operator scope. For another tenant it is schema.ErrNotFound.
func requireOperator(p schema.Principal, tenant uuid.UUID, what string) error {
	switch {
	case p.Has(schema.ScopeOperator):
		return nil
	case tenant == p.Tenant:
		return fmt.Errorf("setting a tenant's %s needs the operator scope: %w", what, schema.ErrForbidden)
	}
	return schema.ErrNotFound
}
