package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// Evaluations stores the reports of evaluations.
type Evaluations interface {
	CreateEvaluation(ctx context.Context, p schema.Principal, n schema.NewEvaluation) (schema.Evaluation, error)
	Evaluations(ctx context.Context, p schema.Principal, q schema.EvaluationQuery) ([]schema.Evaluation, string, error)
	Evaluation(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Evaluation, error)
	DeleteEvaluation(ctx context.Context, p schema.Principal, id uuid.UUID) error
	// CompareEvaluations compares two evaluations in what both measured.
	CompareEvaluations(ctx context.Context, p schema.Principal, id, against uuid.UUID) (schema.EvaluationComparison, error)
}

// InEvaluation is the path parameter of routes under an evaluation.
type InEvaluation struct {
	Evaluation uuid.UUID `path:"evaluation" format:"uuid"`
}

func (s *server) routeEvaluations() {
	tags := []string{"Evaluations"}
	route(s, huma.Operation{OperationID: "create-evaluation", Method: http.MethodPost, Path: "/v1/evaluations", Summary: "Store an evaluation", Tags: tags,
		Description: "What `sluice eval --store` sends. A tenant keeps 500.", DefaultStatus: http.StatusCreated, Metadata: evaluationBody.with(nil)},
		schema.ScopeIngest, func(ctx context.Context, p schema.Principal, in *struct{ Body api.NewEvaluation }) (*reply[schema.Evaluation], error) {
			return replyTo(s.Evaluations.CreateEvaluation(ctx, p, schema.NewEvaluation(in.Body)))
		})
	route(s, huma.Operation{OperationID: "list-evaluations", Method: http.MethodGet, Path: "/v1/evaluations", Summary: "List evaluations, newest first", Tags: tags,
		Description: "All of the tenant's, without their reports."},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *struct {
			Paging
			Dataset string `query:"dataset" maxLength:"255" doc:"Only those of this dataset."`
		}) (*reply[api.Page[schema.Evaluation]], error) {
			items, next, err := s.Evaluations.Evaluations(ctx, p, schema.EvaluationQuery{Dataset: in.Dataset, PageQuery: in.query()})
			return list(items, next, err, identity[schema.Evaluation])
		})
	route(s, huma.Operation{OperationID: "get-evaluation", Method: http.MethodGet, Path: "/v1/evaluations/{evaluation}", Summary: "Show an evaluation with its reports", Tags: tags},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *InEvaluation) (*reply[schema.Evaluation], error) {
			return replyTo(s.Evaluations.Evaluation(ctx, p, in.Evaluation))
		})
	route(s, huma.Operation{OperationID: "delete-evaluation", Method: http.MethodDelete, Path: "/v1/evaluations/{evaluation}", Summary: "Delete an evaluation", Tags: tags, DefaultStatus: http.StatusNoContent},
		schema.ScopeIngest, func(ctx context.Context, p schema.Principal, in *InEvaluation) (*struct{}, error) {
			return nil, s.Evaluations.DeleteEvaluation(ctx, p, in.Evaluation)
		})
	route(s, huma.Operation{OperationID: "compare-evaluations", Method: http.MethodGet, Path: "/v1/evaluations/{evaluation}/compare/{against}", Summary: "Compare an evaluation with another", Tags: tags,
		Description: "In the datasets, splits and plans that both have. Where both hold what each question gave, " +
			"a figure is of the questions of both, and has the interval and p of the paired bootstrap.",
		Errors: []int{http.StatusTooManyRequests}},
		schema.ScopeQuery, func(ctx context.Context, p schema.Principal, in *struct {
			InEvaluation
			Against uuid.UUID `path:"against" format:"uuid"`
		}) (*reply[schema.EvaluationComparison], error) {
			leave, err := s.openQuestions.acquire(p.Tenant, 0) // it takes at least as long as a search
			if err != nil {
				return nil, err
			}
			defer leave()
			return replyTo(s.Evaluations.CompareEvaluations(ctx, p, in.Evaluation, in.Against))
		})
}
