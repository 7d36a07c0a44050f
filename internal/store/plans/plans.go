// Package plans keeps the tenants' own retrieval plans, as the YAML in which they are written.
// Package retrieval parses them.
package plans

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// PlanStore keeps the tenants' plans.
type PlanStore struct{ db *store.Store }

// New returns the PlanStore of a database.
func New(db *store.Store) *PlanStore { return &PlanStore{db} }

// maxPlans bounds the plans of a tenant.
const maxPlans = 200

var planName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// StoredPlan is a plan as its tenant wrote it.
type StoredPlan struct {
	Name      string
	Text      string // YAML
	UpdatedAt time.Time
}

// PutPlan stores a plan under its name, and replaces one with the same name.
func (s *PlanStore) PutPlan(ctx context.Context, p schema.Principal, name, text string) (StoredPlan, error) {
	out := StoredPlan{Name: name, Text: text}
	if !planName.MatchString(name) {
		return out, schema.Invalid("name", "%q: 1 to 63 small letters, digits, dots, underscores and dashes, beginning with a letter or digit", name)
	}
	if err := schema.CheckLength("plan", text, 1, schema.MaxPlanText); err != nil {
		return out, err
	}
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('plans ' || $1::text, 0))`, p.Tenant); err != nil {
			return err
		}
		var others int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM plans WHERE tenant_id = $1 AND name <> $2`, p.Tenant, name).Scan(&others); err != nil {
			return err
		}
		if others >= maxPlans {
			return fmt.Errorf("a tenant may have at most %d plans of its own: %w", maxPlans, schema.ErrQuota)
		}
		if err := tx.QueryRow(ctx, `
			INSERT INTO plans (tenant_id, name, body) VALUES ($1, $2, $3)
			ON CONFLICT (tenant_id, name) DO UPDATE SET body = excluded.body, updated_at = now()
			RETURNING updated_at`, p.Tenant, name, text).Scan(&out.UpdatedAt); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "plan.put", name, nil)
	})
	return out, store.Wrap(err, "store plan %s", name)
}

// StoredPlans lists up to limit plans of p's tenant whose names come after after, in the byte order
// of names.
func (s *PlanStore) StoredPlans(ctx context.Context, p schema.Principal, after string, limit int) ([]StoredPlan, error) {
	if err := schema.CheckText("cursor", after); err != nil {
		return nil, err
	}
	var out []StoredPlan
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT name, body, updated_at FROM plans WHERE tenant_id = $1 AND name > $2 ORDER BY name LIMIT $3`, p.Tenant, after, limit)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[StoredPlan])
		return err
	})
	return out, store.Wrap(err, "list plans")
}

// StoredPlan returns one of a tenant's own plans, or schema.ErrNotFound.
func (s *PlanStore) StoredPlan(ctx context.Context, tenant uuid.UUID, name string) (StoredPlan, error) {
	var out StoredPlan
	if err := schema.CheckText("plan", name); err != nil {
		return out, err
	}
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT name, body, updated_at FROM plans WHERE tenant_id = $1 AND name = $2`, tenant, name)
		if err != nil {
			return err
		}
		out, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[StoredPlan])
		return store.Named(err, "plan", name)
	})
	return out, store.Wrap(err, "read plan")
}

// DeletePlan removes one of the tenant's own plans. Questions that were asked with it keep its
// text.
func (s *PlanStore) DeletePlan(ctx context.Context, p schema.Principal, name string) error {
	if err := schema.CheckText("plan", name); err != nil {
		return err
	}
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM plans WHERE tenant_id = $1 AND name = $2`, p.Tenant, name)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("no plan %q of this tenant: %w", name, schema.ErrNotFound)
		}
		return store.Audit(ctx, tx, p.Tenant, p, "plan.delete", name, nil)
	})
	return store.Wrap(err, "delete plan %s", name)
}
