// Package evaluations keeps evaluation reports. Lists have only a summary of each.
package evaluations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// EvaluationStore keeps the tenants' reports.
type EvaluationStore struct{ db *store.Store }

// New returns the EvaluationStore of a database.
func New(db *store.Store) *EvaluationStore { return &EvaluationStore{db} }

const (
	// maxEvaluations bounds the evaluations that a tenant keeps: one may have megabytes.
	maxEvaluations = 500

	evaluationColumns = `id, name, notes, key_id, ran_at, created_at, datasets, figures IS NOT NULL`

	insertEvaluationSQL = `
INSERT INTO evaluations (tenant_id, id, name, notes, key_id, ran_at, datasets, reports, figures)
VALUES ($1, $2, $3, $4, $5, coalesce($6, now()), $7, $8, $9) RETURNING ran_at, created_at`

	listEvaluationsSQL = `
SELECT ` + evaluationColumns + `, NULL::jsonb FROM evaluations
WHERE tenant_id = $1 AND ($2 = '' OR datasets @> jsonb_build_array(jsonb_build_object('dataset', $2::text))) AND ($3::uuid IS NULL OR id < $3)
ORDER BY id DESC LIMIT $4`

	loadEvaluationSQL = `SELECT ` + evaluationColumns + `, reports FROM evaluations WHERE tenant_id = $1 AND id = $2`
)

func scanEvaluation(row pgx.CollectableRow) (schema.Evaluation, error) {
	var e schema.Evaluation
	err := row.Scan(&e.ID, &e.Name, &e.Notes, &e.Key, &e.RanAt, &e.CreatedAt, &e.Datasets, &e.Figures, &e.Reports)
	return e, err
}

// CreateEvaluation stores an evaluation of p's tenant and returns it without its reports.
func (s *EvaluationStore) CreateEvaluation(ctx context.Context, p schema.Principal, n schema.NewEvaluation) (schema.Evaluation, error) {
	if err := errors.Join(schema.CheckLength("name", n.Name, 1, 200), schema.CheckLength("notes", n.Notes, 0, 10_000), n.Check()); err != nil {
		return schema.Evaluation{}, err
	}
	e := schema.Evaluation{ID: schema.NewID(), Name: n.Name, Notes: n.Notes, Key: p.Key, Figures: len(n.Figures) > 0}
	for _, r := range n.Reports {
		d := schema.EvaluatedDataset{Dataset: r.Dataset, Split: r.Split, Documents: r.Documents, Queries: r.Queries}
		for _, plan := range r.Plans {
			d.Plans = append(d.Plans, plan.Plan)
		}
		e.Datasets = append(e.Datasets, d)
	}
	datasets, err := evaluationJSON("datasets", e.Datasets)
	if err != nil {
		return schema.Evaluation{}, err
	}
	reports, err := evaluationJSON("reports", n.Reports)
	if err != nil {
		return schema.Evaluation{}, err
	}
	var figures []byte
	if e.Figures {
		if figures, err = evaluationJSON("figures", n.Figures); err != nil {
			return schema.Evaluation{}, err
		}
	}
	var ranAt *time.Time
	if !n.RanAt.IsZero() {
		ranAt = &n.RanAt
	}
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('evaluations ' || $1::text, 0))`, p.Tenant); err != nil {
			return err
		}
		var have int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM evaluations WHERE tenant_id = $1`, p.Tenant).Scan(&have); err != nil {
			return err
		}
		if have >= maxEvaluations {
			return fmt.Errorf("a tenant keeps %d evaluations at most; delete one: %w", maxEvaluations, schema.ErrQuota)
		}
		if err := tx.QueryRow(ctx, insertEvaluationSQL, p.Tenant, e.ID, e.Name, e.Notes, e.Key, ranAt, datasets, reports, figures).
			Scan(&e.RanAt, &e.CreatedAt); err != nil {
			return err
		}
		return store.Audit(ctx, tx, p.Tenant, p, "evaluation.create", e.ID.String(), map[string]any{"name": e.Name})
	})
	return e, store.Wrap(err, "store an evaluation")
}

// evaluationJSON encodes a part of an evaluation. Postgres accepts no U+0000 in JSON.
func evaluationJSON(field string, v any) ([]byte, error) {
	out, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode the %s of an evaluation: %w", field, err)
	}
	if strings.Contains(strings.ReplaceAll(string(out), `\\`, ``), `\u0000`) {
		return nil, schema.Invalid(field, "contain U+0000")
	}
	return out, nil
}

// Evaluations lists a page of the tenant's evaluations, newest first and without
// reports, and the next cursor.
func (s *EvaluationStore) Evaluations(ctx context.Context, p schema.Principal, q schema.EvaluationQuery) ([]schema.Evaluation, string, error) {
	pg, err := store.PageOf(q.PageQuery)
	if err == nil {
		err = schema.CheckLength("dataset", q.Dataset, 0, 255)
	}
	if err != nil {
		return nil, "", err
	}
	var out []schema.Evaluation
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, listEvaluationsSQL, p.Tenant, q.Dataset, pg.After, pg.Limit+1)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, scanEvaluation)
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list evaluations: %w", err)
	}
	out, next := store.Cut(pg, out, func(e schema.Evaluation) uuid.UUID { return e.ID })
	return out, next, nil
}

// Evaluation returns an evaluation with its reports.
func (s *EvaluationStore) Evaluation(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Evaluation, error) {
	var e schema.Evaluation
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		e, err = loadEvaluation(ctx, tx, p.Tenant, id)
		return err
	})
	return e, store.Wrap(err, "show an evaluation")
}

func loadEvaluation(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID) (schema.Evaluation, error) {
	rows, err := tx.Query(ctx, loadEvaluationSQL, tenant, id)
	if err != nil {
		return schema.Evaluation{}, err
	}
	e, err := pgx.CollectExactlyOneRow(rows, scanEvaluation)
	return e, store.Named(err, "evaluation", id)
}

// EvaluationPair returns two evaluations with their reports, and the figures of their questions if
// they are stored.
func (s *EvaluationStore) EvaluationPair(ctx context.Context, p schema.Principal, ids [2]uuid.UUID) (out [2]schema.Evaluation, figures [2][]schema.EvaluationFigures, err error) {
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		for i, id := range ids {
			var err error
			if out[i], err = loadEvaluation(ctx, tx, p.Tenant, id); err != nil {
				return err
			}
			figures[i] = nil
			if err := tx.QueryRow(ctx, `SELECT figures FROM evaluations WHERE tenant_id = $1 AND id = $2`, p.Tenant, id).Scan(&figures[i]); err != nil {
				return store.Named(err, "evaluation", id)
			}
		}
		return nil
	})
	return out, figures, store.Wrap(err, "read two evaluations")
}

// DeleteEvaluation removes an evaluation.
func (s *EvaluationStore) DeleteEvaluation(ctx context.Context, p schema.Principal, id uuid.UUID) error {
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `DELETE FROM evaluations WHERE tenant_id = $1 AND id = $2`, p.Tenant, id)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return fmt.Errorf("no evaluation %s: %w", id, schema.ErrNotFound)
		}
		return store.Audit(ctx, tx, p.Tenant, p, "evaluation.delete", id.String(), nil)
	})
	return store.Wrap(err, "delete an evaluation")
}
