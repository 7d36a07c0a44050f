package apiserver

// Choices of plans. The query workers measure the plans; requests and results are in the store.

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/evaluate/choose"
	"github.com/sluice-rag/sluice/internal/evaluate/planchoice"
	"github.com/sluice-rag/sluice/internal/store/choices"
	"github.com/sluice-rag/sluice/schema"
)

// choiceAPI implements httpapi.PlanChoices.
type choiceAPI struct {
	*choices.ChoiceStore
	plans planAPI
}

// StartChoice implements httpapi.PlanChoices.
func (a choiceAPI) StartChoice(ctx context.Context, p schema.Principal, collection uuid.UUID, n schema.NewPlanChoice) (schema.PlanChoice, error) {
	n, err := n.Complete()
	if err != nil {
		return schema.PlanChoice{}, err
	}
	compared, err := a.compared(ctx, p, n.Plans)
	if err != nil {
		return schema.PlanChoice{}, err
	}
	current, err := a.plans.resolve(ctx, p, schema.Query{Collection: collection})
	if err != nil {
		return schema.PlanChoice{}, err
	}
	return a.ChoiceStore.StartChoice(ctx, p, choices.NewChoice{Collection: collection, Plans: compared, Current: current.name, Request: n, Alpha: choose.Alpha})
}

// compared returns the plans with these names; without names, all plans that can be run.
func (a choiceAPI) compared(ctx context.Context, p schema.Principal, names []string) ([]planchoice.PlanText, error) {
	var out []planchoice.PlanText
	if len(names) == 0 {
		for q := (schema.PageQuery{Limit: maxPage}); ; {
			page, next, err := a.plans.Plans(ctx, p, q)
			if err != nil {
				return nil, err
			}
			for _, plan := range page {
				if plan.Problem == "" {
					names = append(names, plan.Name)
				}
			}
			if q.Cursor = next; next == "" {
				break
			}
		}
		if len(names) > schema.MaxChoicePlans {
			return nil, schema.Invalid("plans", "there are %d plans, and at most %d can be compared: name those to compare", len(names), schema.MaxChoicePlans)
		}
	}
	for i, name := range names {
		found, err := a.plans.named(ctx, p, name)
		if err != nil {
			return nil, fmt.Errorf("plans[%d]: %w", i, err)
		}
		out = append(out, planchoice.PlanText{Name: found.name, Text: found.text})
	}
	return out, nil
}

// ApplyChoice implements httpapi.PlanChoices.
func (a choiceAPI) ApplyChoice(ctx context.Context, p schema.Principal, collection, id uuid.UUID, plan string) (schema.PlanChoice, error) {
	have, err := a.Choice(ctx, p, collection, id)
	if err != nil {
		return have, err
	}
	if plan == "" && have.Result != nil {
		plan = have.Result.Plan
	}
	if have.Result != nil {
		if !slices.Contains(have.Plans, plan) {
			return have, schema.Invalid("plan", "%q is not among those that were compared", plan)
		}
		if _, err := a.plans.named(ctx, p, plan); err != nil {
			return have, err
		}
	}
	applied, err := a.ChoiceStore.ApplyChoice(ctx, p, collection, id, plan)
	if err == nil {
		a.plans.tenantCache.changed(ctx, p.Tenant)
	}
	return applied, err
}

// ScheduleChoice implements httpapi.PlanChoices.
func (a choiceAPI) ScheduleChoice(ctx context.Context, p schema.Principal, collection uuid.UUID, days int) (schema.PlanChoice, error) {
	if days < 0 || days > schema.MaxChoiceEvery {
		return schema.PlanChoice{}, schema.Invalid("days", "must be from 1 to %d, or 0 for never", schema.MaxChoiceEvery)
	}
	return a.ChoiceStore.ScheduleChoice(ctx, p, collection, days)
}
