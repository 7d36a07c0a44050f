package questions

// This file shows questions, synchronous or not, to those who asked them. For a caller, another
// key's question does not exist, unless the caller is an admin of the tenant.

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// askedBySQL is the condition that a caller may see a question; askedBy returns its parameters and
// the tenant.
const askedBySQL = `($2 OR key_id = $3 AND person = $4)`

// askedBy returns the first parameters of statements with askedBySQL, followed by more. A key that
// asks on behalf of people sees the questions of the person that it names, and its own when it
// names none.
func askedBy(p schema.Principal, more ...any) []any {
	return append([]any{p.Tenant, p.Has(schema.ScopeAdmin) && p.Person == "", p.Key, p.Person}, more...)
}

const askedSQL = `
SELECT id, collection_id, coalesce(asked, question), choices, plan, plan_text, filter, k, async, state, stage, reason_code, reason, created_at, finished_at, key_id, person
FROM questions WHERE tenant_id = $1 AND ` + askedBySQL

func scanAsked(row pgx.CollectableRow) (schema.AskedQuestion, error) {
	var q schema.AskedQuestion
	var code, reason *string
	err := row.Scan(&q.ID, &q.Collection, &q.Question, &q.Choices, &q.Plan, &q.PlanText, &q.Filter, &q.K, &q.Async, &q.State, &q.Stage,
		&code, &reason, &q.CreatedAt, &q.FinishedAt, &q.Key, &q.Person)
	q.Reason = store.ReasonOf(code, reason)
	return q, err
}

// AskedQuestions returns a page of the questions that p asked, or of all of the tenant's for an
// admin, newest first and without answers, and the next cursor. Unless collection is uuid.Nil, only
// its questions are listed.
func (s *QuestionStore) AskedQuestions(ctx context.Context, p schema.Principal, collection uuid.UUID, q schema.PageQuery) ([]schema.AskedQuestion, string, error) {
	pg, err := store.PageOf(q)
	if err != nil {
		return nil, "", err
	}
	var of *uuid.UUID
	if collection != uuid.Nil {
		of = &collection
	}
	var out []schema.AskedQuestion
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, askedSQL+` AND ($5::uuid IS NULL OR collection_id = $5) AND ($6::uuid IS NULL OR id < $6) ORDER BY id DESC LIMIT $7`,
			askedBy(p, of, pg.After, pg.Limit+1)...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, scanAsked)
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list questions: %w", err)
	}
	out, next := store.Cut(pg, out, func(q schema.AskedQuestion) uuid.UUID { return q.ID })
	return out, next, nil
}

// AskedQuestion returns one of p's questions with its answer, or any of the tenant's for an admin.
func (s *QuestionStore) AskedQuestion(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.AskedQuestion, error) {
	var q schema.AskedQuestion
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, askedSQL+` AND id = $5`, askedBy(p, id)...)
		if err != nil {
			return err
		}
		if q, err = pgx.CollectExactlyOneRow(rows, scanAsked); err != nil || q.State != schema.JobAnswered {
			return store.Named(err, "question", id)
		}
		result, err := ReadAnswer(ctx, tx, p, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		q.Result = &result
		return err
	})
	return q, store.Wrap(err, "read question")
}
