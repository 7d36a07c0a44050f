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

// LLMAccounts stores what language models cost tenants.
type LLMAccounts interface {
	LLMUsage(ctx context.Context, tenant uuid.UUID) (schema.LLMUsage, error)
	// LLMDays returns the usage of the last days days (UTC), today's last.
	LLMDays(ctx context.Context, tenant uuid.UUID, days int) ([]schema.UsageDay, error)
	// SetLLMLimits replaces all limits; nil is no limit.
	SetLLMLimits(ctx context.Context, p schema.Principal, tenant uuid.UUID, l schema.LLMLimits) (schema.LLMUsage, error)
}

// InDays is the query parameter of lists by day.
type InDays struct {
	Days int `query:"days" minimum:"1" maximum:"400" default:"30" doc:"How many."`
}

// maySeeUsage returns an error unless p is an admin of the tenant or an operator.
func maySeeUsage(p schema.Principal, tenant uuid.UUID) error {
	switch {
	case p.Has(schema.ScopeOperator), tenant == p.Tenant && p.Has(schema.ScopeAdmin):
		return nil
	case tenant == p.Tenant:
		return fmt.Errorf("reading a tenant's usage needs the admin scope: %w", schema.ErrForbidden)
	}
	return schema.ErrNotFound
}

func (s *server) routeUsage() {
	tags := []string{"Usage"}
	route(s, huma.Operation{OperationID: "get-usage", Method: http.MethodGet, Path: "/v1/usage", Summary: "Show the use of language models", Tags: tags,
		Description: "Of the key's tenant: what today and this month (UTC) were paid for, and the limits."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, _ *struct{}) (*reply[schema.LLMUsage], error) {
			u, err := s.Tenants.LLMUsage(ctx, p.Tenant)
			return replyTo(u, err)
		})
	route(s, huma.Operation{OperationID: "get-tenant-usage", Method: http.MethodGet, Path: "/v1/tenants/{tenant}/usage", Summary: "Show a tenant's use of language models", Tags: tags,
		Description: "Needs the `admin` scope for the key's own tenant, and `operator` for another."},
		"", func(ctx context.Context, p schema.Principal, in *struct {
			Tenant uuid.UUID `path:"tenant" format:"uuid"`
		}) (*reply[schema.LLMUsage], error) {
			if err := maySeeUsage(p, in.Tenant); err != nil {
				return nil, err
			}
			u, err := s.Tenants.LLMUsage(ctx, in.Tenant)
			return replyTo(u, err)
		})
	route(s, huma.Operation{OperationID: "get-usage-days", Method: http.MethodGet, Path: "/v1/usage/days", Summary: "Show the use of language models by day", Tags: tags,
		Description: "Of the key's tenant: every one of the last days (UTC), today last."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *InDays) (*reply[api.UsageDays], error) {
			days, err := s.Tenants.LLMDays(ctx, p.Tenant, in.Days)
			return replyTo(api.UsageDays{Days: days}, err)
		})
	route(s, huma.Operation{OperationID: "get-tenant-usage-days", Method: http.MethodGet, Path: "/v1/tenants/{tenant}/usage/days", Summary: "Show a tenant's use of language models by day", Tags: tags,
		Description: "Needs the `admin` scope for the key's own tenant, and `operator` for another."},
		"", func(ctx context.Context, p schema.Principal, in *struct {
			Tenant uuid.UUID `path:"tenant" format:"uuid"`
			InDays
		}) (*reply[api.UsageDays], error) {
			if err := maySeeUsage(p, in.Tenant); err != nil {
				return nil, err
			}
			days, err := s.Tenants.LLMDays(ctx, in.Tenant, in.Days)
			return replyTo(api.UsageDays{Days: days}, err)
		})
	route(s, huma.Operation{OperationID: "get-tenant-storage", Method: http.MethodGet, Path: "/v1/tenants/{tenant}/storage", Summary: "Show what a tenant has stored", Tags: tags,
		Description: "Beside its quotas, and counted as they count. Needs the `admin` scope for the key's own tenant, and `operator` for another."},
		"", func(ctx context.Context, p schema.Principal, in *struct {
			Tenant uuid.UUID `path:"tenant" format:"uuid"`
		}) (*reply[schema.Storage], error) {
			if err := maySeeUsage(p, in.Tenant); err != nil {
				return nil, err
			}
			return replyTo(s.Tenants.Storage(ctx, in.Tenant))
		})
	route(s, huma.Operation{OperationID: "set-limits", Method: http.MethodPut, Path: "/v1/tenants/{tenant}/limits", Summary: "Set a tenant's limits of language models", Tags: tags,
		Description: "All at once; an absent one is no limit. A budget under what the tenant has used keeps it from using more. Needs the `operator` scope."},
		"", func(ctx context.Context, p schema.Principal, in *struct {
			Tenant uuid.UUID `path:"tenant" format:"uuid"`
			Body   schema.LLMLimits
		}) (*reply[schema.LLMUsage], error) {
			if err := requireOperator(p, in.Tenant, "limits"); err != nil {
				return nil, err
			}
			u, err := s.Tenants.SetLLMLimits(ctx, p, in.Tenant, in.Body)
			return replyTo(u, err)
		})
}
