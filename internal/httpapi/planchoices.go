package httpapi

// Plan choices find out which plan searches a collection best.

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// PlanChoices measures plans on the questions of collections.
type PlanChoices interface {
	// StartChoice starts a choice. It returns schema.ErrConflict while one of the collection is
	// running.
	StartChoice(ctx context.Context, p schema.Principal, collection uuid.UUID, n schema.NewPlanChoice) (schema.PlanChoice, error)
	Choices(ctx context.Context, p schema.Principal, collection uuid.UUID, q schema.PageQuery) ([]schema.PlanChoice, string, error)
	Choice(ctx context.Context, p schema.Principal, collection, id uuid.UUID) (schema.PlanChoice, error)
	// ShownQuestions lists questions whose number is greater than after.
	ShownQuestions(ctx context.Context, p schema.Principal, collection, id uuid.UUID, after, limit int) ([]schema.ChoiceQuestion, error)
	CancelChoice(ctx context.Context, p schema.Principal, collection, id uuid.UUID) (schema.PlanChoice, error)
	// ApplyChoice sets the collection's plan to one of the choice's; an empty name means the
	// proposed one.
	ApplyChoice(ctx context.Context, p schema.Principal, collection, id uuid.UUID, plan string) (schema.PlanChoice, error)
	// ScheduleChoice repeats the newest choice every days days; 0: never.
	ScheduleChoice(ctx context.Context, p schema.Principal, collection uuid.UUID, days int) (schema.PlanChoice, error)
}

// InChoice has the path parameters of routes under a choice.
type InChoice struct {
	InCollection
	Choice uuid.UUID `path:"choice" format:"uuid"`
}

func (s *server) routePlanChoices() {
	const path = "/v1/collections/{collection}/plan-choices"
	tags := []string{"Plan choices"}
	route(s, huma.Operation{OperationID: "choose-plan", Metadata: choiceBody.with(nil), Method: http.MethodPost, Path: path, Tags: tags,
		Summary: "Find out which plan a collection is best searched with", DefaultStatus: http.StatusAccepted,
		Description: "Asks questions of the collection under every plan, in the background, and proposes the cheapest plan " +
			"whose answers are found within a point of the best one's. One of a collection runs at a time. 50 are kept."},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *struct {
			InCollection
			Body api.NewPlanChoice
		}) (*reply[schema.PlanChoice], error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			return replyTo(s.PlanChoices.StartChoice(ctx, p, id, in.Body.Schema()))
		})
	route(s, huma.Operation{OperationID: "list-plan-choices", Method: http.MethodGet, Path: path, Tags: tags, Summary: "List a collection's choices of plans, newest first"},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *struct {
			InCollection
			Paging
		}) (*reply[api.Page[schema.PlanChoice]], error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			items, next, err := s.PlanChoices.Choices(ctx, p, id, in.query())
			return list(items, next, err, identity[schema.PlanChoice])
		})
	route(s, huma.Operation{OperationID: "get-plan-choice", Method: http.MethodGet, Path: path + "/{choice}", Tags: tags, Summary: "Show a choice of a plan: how far it is, and its table"},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *InChoice) (*reply[schema.PlanChoice], error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			return replyTo(s.PlanChoices.Choice(ctx, p, id, in.Choice))
		})
	route(s, huma.Operation{OperationID: "list-plan-choice-questions", Method: http.MethodGet, Path: path + "/{choice}/questions", Tags: tags,
		Summary: "List the questions that plans were measured on",
		Description: "Without those that are about documents which the key may not see, or which were deleted. " +
			"People asked some of them."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			InChoice
			After int `query:"after" minimum:"0" doc:"Those behind this number."`
			Limit int `query:"limit" minimum:"1" maximum:"500" default:"50"`
		}) (*reply[api.Page[schema.ChoiceQuestion]], error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			items, err := s.PlanChoices.ShownQuestions(ctx, p, id, in.Choice, in.After, in.Limit)
			return list(items, "", err, identity[schema.ChoiceQuestion])
		})
	route(s, huma.Operation{OperationID: "cancel-plan-choice", Metadata: repeatRun.metadata(), Method: http.MethodPost, Path: path + "/{choice}/cancel", Tags: tags,
		Summary: "Cancel a choice of a plan", Description: "One that has ended stays as it is."},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *InChoice) (*reply[schema.PlanChoice], error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			return replyTo(s.PlanChoices.CancelChoice(ctx, p, id, in.Choice))
		})
	route(s, huma.Operation{OperationID: "apply-plan-choice", Metadata: repeatRun.metadata(), Method: http.MethodPost, Path: path + "/{choice}/apply", Tags: tags,
		Summary: "Give a collection the plan that a choice proposes", Description: "Searches and questions that name no plan run it from then on."},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *struct {
			InChoice
			Body *api.AppliedPlan
		}) (*reply[schema.PlanChoice], error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			plan := ""
			if in.Body != nil {
				plan = in.Body.Plan
			}
			return replyTo(s.PlanChoices.ApplyChoice(ctx, p, id, in.Choice, plan))
		})
	route(s, huma.Operation{OperationID: "repeat-plan-choice", Method: http.MethodPut, Path: path + "/repeat", Tags: tags,
		Summary: "Say how often a collection's newest choice of a plan is repeated",
		Description: "A repetition compares the same plans on what the collection has by then. " +
			"Webhooks hear plan.better when it finds a better plan; nothing is applied by itself."},
		schema.ScopeCurate, func(ctx context.Context, p schema.Principal, in *struct {
			InCollection
			Body api.RepeatedChoice
		}) (*reply[schema.PlanChoice], error) {
			id, err := s.Collections.ResolveCollection(ctx, p, in.Collection)
			if err != nil {
				return nil, err
			}
			return replyTo(s.PlanChoices.ScheduleChoice(ctx, p, id, in.Body.Days))
		})
}
