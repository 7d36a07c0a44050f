package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func (s *server) routePlans() {
	tags := []string{"Plans"}
	route(s, huma.Operation{OperationID: "list-plans", Method: http.MethodGet, Path: "/v1/plans", Summary: "List retrieval plans", Tags: tags},
		schema.ScopeQuery, func(context.Context, schema.Principal, *struct{}) (*reply[api.Page[schema.Plan]], error) {
			return list(s.Plans.Plans(), "", nil, same[schema.Plan])
		})
	route(s, huma.Operation{OperationID: "check-plan", Metadata: repeatRun.metadata(), Method: http.MethodPost, Path: "/v1/plans/check", Summary: "Check a retrieval plan", Tags: tags,
		Description: "Reads a plan without running it. What is wrong is named by its field, for example `stages[2].hybrid.of[0].lexical.weight`."},
		schema.ScopeQuery, func(_ context.Context, _ schema.Principal, in *struct{ Body api.PlanText }) (*reply[schema.Plan], error) {
			return replyTo(s.Plans.CheckPlan(in.Body.Plan))
		})
}
