package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// OfPlan is the path parameter of routes under a plan.
type OfPlan struct {
	Plan string `path:"plan" maxLength:"128"`
}

func (s *server) routePlans() {
	tags := []string{"Plans"}
	route(s, huma.Operation{OperationID: "list-plans", Method: http.MethodGet, Path: "/v1/plans", Summary: "List retrieval plans", Tags: tags,
		Description: "Those that come with the server and those of the tenant's own, by name."},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *struct{ Paging }) (*reply[api.Page[schema.Plan]], error) {
			items, next, err := s.Plans.Plans(ctx, p, in.query())
			return list(items, next, err, identity[schema.Plan])
		})
	route(s, huma.Operation{OperationID: "check-plan", Metadata: queryBody.with(repeatRun.metadata()), Method: http.MethodPost, Path: "/v1/plans/check", Summary: "Check a retrieval plan", Tags: tags,
		Description: "Reads a plan without running it. What is wrong is named by its field, for example `stages[2].hybrid.of[0].lexical.weight`, and by its line."},
		schema.ScopeQuery, func(_ context.Context, _ schema.Principal, in *struct{ Body api.PlanText }) (*reply[schema.Plan], error) {
			return replyTo(s.Plans.CheckPlan(in.Body.Plan))
		})
	route(s, huma.Operation{OperationID: "get-plan", Method: http.MethodGet, Path: "/v1/plans/{plan}", Summary: "Show a retrieval plan and its YAML", Tags: tags},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *OfPlan) (*reply[schema.Plan], error) {
			return replyTo(s.Plans.Plan(ctx, p, in.Plan))
		})
	route(s, huma.Operation{OperationID: "put-plan", Metadata: queryBody.with(nil), Method: http.MethodPut, Path: "/v1/plans/{plan}", Summary: "Store a plan of the tenant's own", Tags: tags,
		Description: "Searches, questions and jobs may name it from then on. Another one of that name is replaced. The plan's own `name` is the one in the path; names of the server's plans are taken."},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *struct {
			OfPlan
			Body api.PlanText
		}) (*reply[schema.Plan], error) {
			return replyTo(s.Plans.PutPlan(ctx, p, in.Plan, in.Body.Plan))
		})
	route(s, huma.Operation{OperationID: "delete-plan", Method: http.MethodDelete, Path: "/v1/plans/{plan}", Summary: "Delete a plan of the tenant's own", Tags: tags, DefaultStatus: http.StatusNoContent,
		Description: "Questions that were asked with it are answered by it."},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *OfPlan) (*struct{}, error) {
			return nil, s.Plans.DeletePlan(ctx, p, in.Plan)
		})
}
