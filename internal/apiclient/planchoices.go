package apiclient

import (
	"context"
	"iter"
	"net/http"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

func choicePath(collection string, id uuid.UUID) string {
	return collectionPath(collection) + "/plan-choices/" + id.String()
}

// ChoosePlan starts measuring plans on a collection's questions.
func (c *Client) ChoosePlan(ctx context.Context, collection string, n api.NewPlanChoice) (schema.PlanChoice, error) {
	return post[schema.PlanChoice](ctx, c, collectionPath(collection)+"/plan-choices", n)
}

// PlanChoice returns the current state of a choice.
func (c *Client) PlanChoice(ctx context.Context, collection string, id uuid.UUID) (schema.PlanChoice, error) {
	return get[schema.PlanChoice](ctx, c, choicePath(collection, id), nil)
}

// PlanChoices lists a collection's choices, newest first.
func (c *Client) PlanChoices(ctx context.Context, collection string) iter.Seq2[schema.PlanChoice, error] {
	return pages[schema.PlanChoice](ctx, c, collectionPath(collection)+"/plan-choices", nil)
}

// CancelPlanChoice cancels a running choice.
func (c *Client) CancelPlanChoice(ctx context.Context, collection string, id uuid.UUID) (schema.PlanChoice, error) {
	return post[schema.PlanChoice](ctx, c, choicePath(collection, id)+"/cancel", nil)
}

// ApplyPlanChoice sets the collection's plan to one of a choice's; an empty name means the proposed
// one.
func (c *Client) ApplyPlanChoice(ctx context.Context, collection string, id uuid.UUID, plan string) (schema.PlanChoice, error) {
	return post[schema.PlanChoice](ctx, c, choicePath(collection, id)+"/apply", api.AppliedPlan{Plan: plan})
}

// RepeatPlanChoice repeats the newest choice every days days; 0: never.
func (c *Client) RepeatPlanChoice(ctx context.Context, collection string, days int) (schema.PlanChoice, error) {
	var out schema.PlanChoice
	return out, c.json(ctx, http.MethodPut, collectionPath(collection)+"/plan-choices/repeat", nil, api.RepeatedChoice{Days: days}, &out)
}
