package questions

// This file shows asynchronous questions to those who asked them. For a caller, another key's job
// does not exist, unless the caller is an admin of the tenant.

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const jobSQL = `
SELECT id, collection_id, coalesce(asked, question), choices, plan, state, stage, reason_code, reason, split_part(coalesce(trace, ''), '-', 2), created_at, finished_at
FROM questions WHERE tenant_id = $1 AND async AND ` + askedBySQL

func scanJob(row pgx.CollectableRow) (schema.Job, error) {
	var j schema.Job
	var code, reason *string
	err := row.Scan(&j.ID, &j.Collection, &j.Question, &j.Choices, &j.Plan, &j.State, &j.Stage, &code, &reason, &j.Trace, &j.CreatedAt, &j.FinishedAt)
	j.Reason = store.ReasonOf(code, reason)
	return j, err
}

// ListJobs returns a page of p's jobs, or of all of the tenant's for an admin, newest first and
// without results, and the next cursor.
func (s *QuestionStore) ListJobs(ctx context.Context, p schema.Principal, q schema.PageQuery) ([]schema.Job, string, error) {
	pg, err := store.PageOf(q)
	if err != nil {
		return nil, "", err
	}
	var out []schema.Job
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, jobSQL+` AND ($5::uuid IS NULL OR id < $5) ORDER BY id DESC LIMIT $6`,
			askedBy(p, pg.After, pg.Limit+1)...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, scanJob)
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list jobs: %w", err)
	}
	out, next := store.Cut(pg, out, func(j schema.Job) uuid.UUID { return j.ID })
	return out, next, nil
}

// Job returns one of p's jobs with its result, or any of the tenant's for an
// admin.
func (s *QuestionStore) Job(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Job, error) {
	var j schema.Job
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		j, err = loadJob(ctx, tx, p, id, "")
		return err
	})
	return j, store.Wrap(err, "job %s", id)
}

func loadJob(ctx context.Context, tx pgx.Tx, p schema.Principal, id uuid.UUID, lock string) (schema.Job, error) {
	rows, err := tx.Query(ctx, jobSQL+` AND id = $5`+lock, askedBy(p, id)...)
	if err != nil {
		return schema.Job{}, err
	}
	j, err := pgx.CollectExactlyOneRow(rows, scanJob)
	if err != nil || j.State != schema.JobAnswered {
		return j, err
	}
	result, err := ReadAnswer(ctx, tx, p, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return j, nil
	}
	j.Result = &result
	return j, err
}

// CancelJob cancels one of p's jobs, or any of the tenant's for an admin. A cancelled job stays as
// it is. The error is schema.ErrConflict for a job that was answered or failed.
func (s *QuestionStore) CancelJob(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Job, error) {
	var j schema.Job
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		if j, err = loadJob(ctx, tx, p, id, ` FOR UPDATE`); err != nil || j.State == schema.JobCancelled {
			return err
		}
		if j.State.Final() {
			return fmt.Errorf("it has ended already: it is %s: %w", j.State, schema.ErrConflict)
		}
		in := wire.QuestionInput{Tenant: p.Tenant, Question: id}
		var trace string
		if err := tx.QueryRow(ctx, `SELECT attempt, coalesce(trace, '') FROM questions WHERE tenant_id = $1 AND id = $2`, p.Tenant, id).
			Scan(&in.Attempt, &trace); err != nil {
			return err
		}
		event := wire.QuestionEvent{Kind: wire.EventQuestionCancelled, State: schema.JobCancelled, Collection: j.Collection}
		if err := end(ctx, tx, in, event, true, trace); err != nil {
			return err
		}
		if err := store.Audit(ctx, tx, p.Tenant, p, "job.cancel", id.String(), nil); err != nil {
			return err
		}
		j, err = loadJob(ctx, tx, p, id, "")
		return err
	})
	return j, store.Wrap(err, "cancel job %s", id)
}
