package apiserver

// The plans that questions can name: those that every query worker has, and the tenant's own, which
// are stored. If both have a name, it means the workers' plan.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/internal/store/documents"
	"github.com/sluice-rag/sluice/internal/store/plans"
	"github.com/sluice-rag/sluice/schema"
)

// defaultPage and maxPage are the default and the maximum number of plans on a page of a list.
const (
	defaultPage = 50
	maxPage     = 500
)

// planAPI has the workers' plans, and the tenants' plans in the store.
type planAPI struct {
	catalogue   *plan.Catalogue
	store       *plans.PlanStore
	collections *documents.DocumentStore
	tenantCache *tenantCache
}

// Plans implements httpapi.Plans. The cursor is the last name of the previous page.
func (c planAPI) Plans(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.Plan, string, error) {
	limit := min(cmp.Or(max(q.Limit, 0), defaultPage), maxPage)
	stored, err := c.store.StoredPlans(ctx, p, q.Cursor, limit+1)
	if err != nil {
		return nil, "", err
	}
	var out []schema.Plan
	for _, plan := range c.catalogue.Describe() {
		if plan.Name > q.Cursor {
			out = append(out, plan)
		}
	}
	for _, s := range stored {
		plan := c.describe(s)
		plan.Text = ""
		out = append(out, plan)
	}
	slices.SortStableFunc(out, func(a, b schema.Plan) int { return strings.Compare(a.Name, b.Name) })
	if len(out) <= limit {
		return out, "", nil
	}
	// Plans with the same name, one of the workers and one of the tenant, are on one page.
	for limit < len(out) && out[limit].Name == out[limit-1].Name {
		limit++
	}
	if limit == len(out) {
		return out, "", nil
	}
	return out[:limit], out[limit-1].Name, nil
}

// describe describes a stored plan. If it cannot be parsed, for example because another version of
// the server stored it, Problem says why.
func (c planAPI) describe(s plans.StoredPlan) schema.Plan {
	out := schema.Plan{Name: s.Name, Stages: []schema.PlanStage{}}
	if plan, err := plan.Parse([]byte(s.Text)); err != nil {
		out.Problem = err.Error()
	} else if out = plan.Describe(); c.reserved(s.Name) {
		out.Problem = "the server now has a plan with this name, which runs instead; store this one under another name"
	}
	out.Own, out.UpdatedAt, out.Text = true, &s.UpdatedAt, s.Text
	return out
}

func (c planAPI) reserved(name string) bool { return slices.Contains(c.catalogue.Names(), name) }

// Plan implements httpapi.Plans.
func (c planAPI) Plan(ctx context.Context, p schema.Principal, name string) (schema.Plan, error) {
	for _, out := range c.catalogue.Describe() {
		if out.Name != name {
			continue
		}
		plan, err := c.catalogue.Plan(name)
		out.Text = plan.Text()
		return out, err
	}
	s, err := c.store.StoredPlan(ctx, p.Tenant, name)
	if err != nil {
		return schema.Plan{}, err
	}
	return c.describe(s), nil
}

// own parses a tenant's own plan, and returns an error if its cost is over the limit of such plans.
func own(text string) (plan.Plan, error) {
	p, err := plan.Parse([]byte(text))
	if err != nil {
		return p, err
	}
	return p, p.Affordable()
}

// CheckPlan implements httpapi.Plans.
func (c planAPI) CheckPlan(text string) (schema.Plan, error) {
	p, err := own(text)
	if err != nil {
		return schema.Plan{}, err
	}
	return p.Describe(), nil
}

// PutPlan implements httpapi.Plans.
func (c planAPI) PutPlan(ctx context.Context, p schema.Principal, name, text string) (schema.Plan, error) {
	plan, err := own(text)
	if err != nil {
		return schema.Plan{}, err
	}
	if plan.Name != name {
		return schema.Plan{}, schema.Invalid("name", "is %q in the plan and %q in the path", plan.Name, name)
	}
	if c.reserved(name) {
		return schema.Plan{}, schema.Invalid("name", "%q is one of the server's plans; give yours another name", name)
	}
	s, err := c.store.PutPlan(ctx, p, name, text)
	if err != nil {
		return schema.Plan{}, err
	}
	c.tenantCache.changed(ctx, p.Tenant)
	return c.describe(s), nil
}

// DeletePlan implements httpapi.Plans.
func (c planAPI) DeletePlan(ctx context.Context, p schema.Principal, name string) error {
	err := c.store.DeletePlan(ctx, p, name)
	if err == nil {
		c.tenantCache.changed(ctx, p.Tenant)
	}
	if errors.Is(err, schema.ErrNotFound) && c.reserved(name) {
		return schema.Invalid("plan", "%q is one of the server's plans, which cannot be deleted", name)
	}
	return err
}

// resolved is the plan that a question runs through.
type resolved struct {
	name string
	text string // empty: every query worker has it
	note string // why it is not the collection's plan
}

// resolve returns the plan of a question: the one that it names or contains, else its collection's,
// else the server's default.
func (c planAPI) resolve(ctx context.Context, p schema.Principal, q schema.Query) (resolved, error) {
	if q.PlanText != "" {
		plan, err := own(q.PlanText)
		return resolved{name: plan.Name, text: q.PlanText}, err
	}
	if q.Plan != "" {
		return c.named(ctx, p, q.Plan)
	}
	of, err := cached(c.tenantCache, p.Tenant, planOf{q.Collection}, func() (string, error) { return c.collections.CollectionPlan(ctx, p.Tenant, q.Collection) })
	if err != nil {
		return resolved{}, err
	}
	problem := ""
	if of != "" {
		var out resolved
		if out, problem, err = c.runnable(ctx, p, of); err != nil || problem == "" {
			return out, err
		}
		slog.WarnContext(ctx, "a collection's plan cannot be run; running the server's default", "tenant", p.Tenant, "collection", q.Collection, "plan", of, "problem", problem)
	}
	plan, err := c.catalogue.Plan("")
	return resolved{name: plan.Name, note: problem}, err
}

// named returns the plan with a name.
func (c planAPI) named(ctx context.Context, p schema.Principal, name string) (resolved, error) {
	plan, unknown := c.catalogue.Plan(name)
	if unknown == nil {
		return resolved{name: plan.Name}, nil
	}
	s, err := cached(c.tenantCache, p.Tenant, planNamed{name}, func() (plans.StoredPlan, error) { return c.store.StoredPlan(ctx, p.Tenant, name) })
	if errors.Is(err, schema.ErrNotFound) {
		return resolved{}, unknown
	}
	return resolved{name: s.Name, text: s.Text}, err
}

// runnable returns a collection's plan. If the plan cannot be run, because it was deleted or
// another version of the server stored it, problem says so.
func (c planAPI) runnable(ctx context.Context, p schema.Principal, name string) (out resolved, problem string, err error) {
	out, err = c.named(ctx, p, name)
	switch {
	case errors.Is(err, schema.ErrInvalid):
		return resolved{}, fmt.Sprintf("the collection's plan %q no longer exists; the server's default runs instead", name), nil
	case err != nil || out.text == "":
		return out, "", err
	}
	if _, wrong := plan.Parse([]byte(out.text)); wrong != nil {
		return resolved{}, fmt.Sprintf("the collection's plan %q cannot be run (%s); the server's default runs instead", name, wrong), nil
	}
	return out, "", nil
}

// collectionAPI stores collections, and checks that their plans exist.
type collectionAPI struct {
	*documents.DocumentStore
	plans planAPI
}

// CreateCollection implements httpapi.Collections.
func (c collectionAPI) CreateCollection(ctx context.Context, p schema.Principal, n schema.NewCollection) (schema.Collection, error) {
	if n.Plan != "" {
		if _, err := c.plans.named(ctx, p, n.Plan); err != nil {
			return schema.Collection{}, err
		}
	}
	return c.DocumentStore.CreateCollection(ctx, p, n)
}

// UpdateCollection implements httpapi.Collections.
func (c collectionAPI) UpdateCollection(ctx context.Context, p schema.Principal, id uuid.UUID, n schema.CollectionChange) (schema.Collection, error) {
	if n.Plan != nil && *n.Plan != "" {
		if _, err := c.plans.named(ctx, p, *n.Plan); err != nil {
			return schema.Collection{}, err
		}
	}
	out, err := c.DocumentStore.UpdateCollection(ctx, p, id, n)
	if err == nil {
		c.plans.tenantCache.changed(ctx, p.Tenant)
	}
	return c.checked(ctx, p)(out, err)
}

// DeleteCollection implements httpapi.Collections.
func (c collectionAPI) DeleteCollection(ctx context.Context, p schema.Principal, id uuid.UUID) error {
	err := c.DocumentStore.DeleteCollection(ctx, p, id)
	if err == nil {
		c.plans.tenantCache.changed(ctx, p.Tenant)
	}
	return err
}

// ResolveCollection implements httpapi.Collections. For a moment after another process has deleted
// a collection, it may still return the id; requests with that id find nothing.
func (c collectionAPI) ResolveCollection(ctx context.Context, p schema.Principal, ref string) (uuid.UUID, error) {
	return cached(c.plans.tenantCache, p.Tenant, collectionNamed{ref}, func() (uuid.UUID, error) { return c.DocumentStore.ResolveCollection(ctx, p, ref) })
}

// Collection implements httpapi.Collections.
func (c collectionAPI) Collection(ctx context.Context, p schema.Principal, ref string) (schema.Collection, error) {
	return c.checked(ctx, p)(c.DocumentStore.Collection(ctx, p, ref))
}

// checked returns a function that sets PlanProblem of a collection whose plan cannot be run.
func (c collectionAPI) checked(ctx context.Context, p schema.Principal) func(schema.Collection, error) (schema.Collection, error) {
	return func(out schema.Collection, err error) (schema.Collection, error) {
		if err == nil && out.Plan != "" {
			_, out.PlanProblem, err = c.plans.runnable(ctx, p, out.Plan)
		}
		return out, err
	}
}
