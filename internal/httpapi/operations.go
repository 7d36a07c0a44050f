package httpapi

// What is running, of one tenant for its admins, and of the installation for operators.

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluice-rag/sluice/schema"
)

// Operations reports what is running and what happened lately.
type Operations interface {
	// TenantOperations reports on p's tenant.
	TenantOperations(ctx context.Context, p schema.Principal) (schema.Operations, error)
	// Installation reports on all tenants. Parts that cannot be queried are listed among its
	// problems.
	Installation(ctx context.Context) (schema.Installation, error)
}

func (s *server) routeOperations() {
	tags := []string{"Operations"}
	route(s, huma.Operation{OperationID: "get-operations", Method: http.MethodGet, Path: "/v1/operations", Summary: "Show what runs of the tenant", Tags: tags,
		Description: "What was ingested in the last hour by minute, what waits, what failed within a day by reason, " +
			"and the slowest searches and questions of that day."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, _ *struct{}) (*reply[schema.Operations], error) {
			return replyTo(s.Operations.TenantOperations(ctx, p))
		})
	route(s, huma.Operation{OperationID: "get-installation", Method: http.MethodGet, Path: "/v1/installation", Summary: "Show what runs of all tenants", Tags: tags,
		Description: "As for a tenant, of all of them together and without text, with the queues, the workers and their lag, " +
			"the services, and the model servers with their batches. " +
			"Counts of services begin with each one's run."},
		schema.ScopeOperator, func(ctx context.Context, _ schema.Principal, _ *struct{}) (*reply[schema.Installation], error) {
			return replyTo(s.Operations.Installation(ctx))
		})
	s.routeEvents(tags)
}
