package choices

// This file repeats choices: when a choice is due, it starts another one with the same plans and
// the collection's current documents.

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/evaluate/choose"
	"github.com/sluice-rag/sluice/internal/evaluate/planchoice"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	unscheduleSQL = `UPDATE plan_choices SET recheck_at = NULL WHERE tenant_id = $1 AND collection_id = $2 AND recheck_at IS NOT NULL`

	// scheduleSQL changes the newest choice that was not cancelled.
	scheduleSQL = `
UPDATE plan_choices SET every = $3, recheck_at = CASE WHEN $3 > 0 AND state NOT IN ('queued', 'running') THEN finished_at + $3 * interval '1 day' END
WHERE tenant_id = $1 AND id = (
    SELECT id FROM plan_choices WHERE tenant_id = $1 AND collection_id = $2 AND state <> 'cancelled' ORDER BY id DESC LIMIT 1)
RETURNING id`

	dueSQL = `SELECT tenant_id, id FROM plan_choices WHERE recheck_at <= now() ORDER BY recheck_at LIMIT $1`

	// dueChoiceSQL locks a choice to be repeated, and returns whether its key is still valid. The
	// new choice gets the groups of the old one.
	dueChoiceSQL = `
SELECT c.collection_id, c.key_id, c.groups, c.plans, c.question_limit, c.seconds, c.every, c.recheck, coalesce(nullif(k.plan, ''), $3),
       k.deleted_at IS NULL AND NOT EXISTS (SELECT FROM api_keys a WHERE a.tenant_id = $1 AND a.id = c.key_id AND (a.revoked_at IS NOT NULL OR a.expires_at <= now())),
       EXISTS (SELECT FROM plan_choices u WHERE u.tenant_id = $1 AND u.collection_id = c.collection_id AND u.state IN ('queued', 'running'))
FROM plan_choices c JOIN collections k ON k.tenant_id = $1 AND k.id = c.collection_id
WHERE c.tenant_id = $1 AND c.id = $2 AND c.recheck_at <= now() FOR UPDATE OF c SKIP LOCKED`

	endScheduleSQL = `UPDATE plan_choices SET recheck_at = NULL, notes = notes || $3::text[] WHERE tenant_id = $1 AND id = $2`
)

// ScheduleChoice has a collection's newest choice repeated every days days; 0 ends the repetition.
func (s *ChoiceStore) ScheduleChoice(ctx context.Context, p schema.Principal, collection uuid.UUID, days int) (schema.PlanChoice, error) {
	var out schema.PlanChoice
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, unscheduleSQL, p.Tenant, collection); err != nil {
			return err
		}
		var id uuid.UUID
		err := tx.QueryRow(ctx, scheduleSQL, p.Tenant, collection, days).Scan(&id)
		if store.IsNoRows(err) {
			return fmt.Errorf("no plan was chosen for this collection yet: choose one first: %w", schema.ErrConflict)
		}
		if err != nil {
			return err
		}
		if err := store.Audit(ctx, tx, p.Tenant, p, "plan_choice.repeat", id.String(), map[string]any{"collection": collection, "days": days}); err != nil {
			return err
		}
		out, err = one(ctx, tx, p.Tenant, collection, id)
		return err
	})
	return out, store.Wrap(err, "repeat a choice of a plan")
}

// DueChoices lists choices of all tenants that are due to be repeated.
func (s *ChoiceStore) DueChoices(ctx context.Context, limit int) ([]wire.PlanChoice, error) {
	var out []wire.PlanChoice
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, dueSQL, limit)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[wire.PlanChoice])
		return err
	})
	return out, store.Wrap(err, "list choices of plans to repeat")
}

// RepeatChoice starts a due choice again. It does nothing while the collection has an unfinished
// choice, and ends the schedule when the key that asked for the choice, or the collection, is gone.
// defaultPlan is the plan of a collection that has none of its own.
func (s *ChoiceStore) RepeatChoice(ctx context.Context, in wire.PlanChoice, defaultPlan string) error {
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		p := schema.Principal{Tenant: in.Tenant, Scopes: []schema.Scope{schema.ScopeAdmin}}
		var n NewChoice
		var plans []planchoice.PlanText
		var allowed, busy bool
		err := tx.QueryRow(ctx, dueChoiceSQL, in.Tenant, in.Choice, defaultPlan).Scan(&n.Collection, &p.Key, &p.Groups, &plans, &n.Request.Limit, &n.Request.Seconds, &n.Request.Every,
			&n.Recheck, &n.Current, &allowed, &busy)
		switch {
		case store.IsNoRows(err) || err == nil && busy:
			return nil
		case err != nil:
			return err
		case !allowed:
			_, err := tx.Exec(ctx, endScheduleSQL, in.Tenant, in.Choice, []string{"it is not repeated: the key that asked for it is revoked or has run out, or the collection is gone"})
			return err
		}
		n.Plans, n.Recheck = plans, n.Recheck+1
		n.Alpha = choose.RecheckAlpha(n.Recheck)
		_, err = start(ctx, tx, p, n) // also ends the schedule of the previous choice
		return err
	})
	return store.Wrap(err, "repeat choice %s", in.Choice)
}
