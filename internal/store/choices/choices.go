// Package choices stores plan choices: the requests, the questions on which plans are measured, and
// the measured results.
package choices

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/evaluate/planchoice"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// ChoiceStore keeps the tenants' choices.
type ChoiceStore struct{ db *store.Store }

// New returns the ChoiceStore of a database.
func New(db *store.Store) *ChoiceStore { return &ChoiceStore{db} }

const (
	// keptChoices bounds the number of choices that a collection keeps: adding one deletes the
	// oldest.
	keptChoices = 50

	choiceColumns = `id, collection_id, state, stage, plans, dropped, left_out, question_limit, seconds, sources, questions, asked,
	notes, reason, result, every, recheck, recheck_at, applied, created_at, finished_at`

	insertChoiceSQL = `
INSERT INTO plan_choices (tenant_id, id, collection_id, key_id, groups, plans, current_plan, question_limit, seconds, labelled, every, recheck, alpha)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
ON CONFLICT (tenant_id, collection_id) WHERE state IN ('queued', 'running') DO NOTHING RETURNING id`

	forgetChoicesSQL = `
DELETE FROM plan_choices WHERE tenant_id = $1 AND collection_id = $2 AND state NOT IN ('queued', 'running') AND recheck_at IS NULL AND id NOT IN (
    SELECT id FROM plan_choices WHERE tenant_id = $1 AND collection_id = $2 ORDER BY id DESC LIMIT $3)`

	choiceSQL      = `SELECT ` + choiceColumns + ` FROM plan_choices WHERE tenant_id = $1 AND collection_id = $2 AND id = $3`
	listChoicesSQL = `SELECT ` + choiceColumns + ` FROM plan_choices WHERE tenant_id = $1 AND collection_id = $2 AND ($3::uuid IS NULL OR id < $3) ORDER BY id DESC LIMIT $4`

	cancelChoiceSQL = `
UPDATE plan_choices SET state = 'cancelled', stage = '', finished_at = now(), labelled = '[]', recheck_at = CASE WHEN recheck > 0 THEN now() + every * interval '1 day' END
WHERE tenant_id = $1 AND collection_id = $2 AND id = $3 AND state IN ('queued', 'running') RETURNING id`
)

func scanChoice(row pgx.CollectableRow) (schema.PlanChoice, error) {
	var c schema.PlanChoice
	var plans []planchoice.PlanText
	err := row.Scan(&c.ID, &c.CollectionID, &c.State, &c.Stage, &plans, &c.Dropped, &c.LeftOut, &c.Limit, &c.Seconds, &c.Sources, &c.Questions, &c.Asked,
		&c.Notes, &c.Reason, &c.Result, &c.Every, &c.Recheck, &c.NextAt, &c.Applied, &c.CreatedAt, &c.FinishedAt)
	for _, p := range plans {
		c.Plans = append(c.Plans, p.Name)
	}
	return c, err
}

// NewChoice is a choice to be started.
type NewChoice struct {
	Collection uuid.UUID
	Plans      []planchoice.PlanText
	Current    string // the collection's plan as it runs; empty: none
	Request    schema.NewPlanChoice
	Recheck    int
	Alpha      float64
}

// StartChoice stores a choice, which workers pick up. The error is schema.ErrConflict when the
// collection has an unfinished choice.
func (s *ChoiceStore) StartChoice(ctx context.Context, p schema.Principal, n NewChoice) (schema.PlanChoice, error) {
	var out schema.PlanChoice
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		out, err = start(ctx, tx, p, n)
		return err
	})
	return out, store.Wrap(err, "choose a plan")
}

func start(ctx context.Context, tx pgx.Tx, p schema.Principal, n NewChoice) (out schema.PlanChoice, err error) {
	if err := store.CollectionExists(ctx, tx, p.Tenant, n.Collection); err != nil {
		return out, err
	}
	labelled := n.Request.Questions
	if len(labelled) == 0 {
		if labelled, err = storedQuestions(ctx, tx, p, n.Collection); err != nil {
			return out, err
		}
	}
	id := schema.NewID()
	err = tx.QueryRow(ctx, insertChoiceSQL, p.Tenant, id, n.Collection, p.Key, p.OwnGroups(), n.Plans, n.Current, n.Request.Limit,
		n.Request.Seconds, store.EmptyNotNull(labelled), n.Request.Every, n.Recheck, n.Alpha).Scan(&id)
	if store.IsNoRows(err) {
		return out, fmt.Errorf("a choice of this collection's plan is under way; wait for it, or cancel it: %w", schema.ErrConflict)
	}
	if err != nil {
		return out, err
	}
	if n.Request.Every > 0 {
		if _, err := tx.Exec(ctx, unscheduleSQL, p.Tenant, n.Collection); err != nil {
			return out, fmt.Errorf("take back the repetition of an earlier choice: %w", err)
		}
	}
	if _, err := tx.Exec(ctx, forgetChoicesSQL, p.Tenant, n.Collection, keptChoices); err != nil {
		return out, fmt.Errorf("forget old choices: %w", err)
	}
	if err := store.Audit(ctx, tx, p.Tenant, p, "plan_choice.start", id.String(), map[string]any{"collection": n.Collection}); err != nil {
		return out, err
	}
	return one(ctx, tx, p.Tenant, n.Collection, id)
}

// storedQuestionsSQL selects the labelled questions of the newest choice that had some.
const storedQuestionsSQL = `
SELECT question, documents, answers, contains FROM plan_choice_questions
WHERE tenant_id = $1 AND source = 'labelled' AND choice_id = (
    SELECT c.id FROM plan_choices c WHERE c.tenant_id = $1 AND c.collection_id = $2 AND EXISTS (
        SELECT FROM plan_choice_questions q WHERE q.tenant_id = $1 AND q.choice_id = c.id AND q.source = 'labelled')
    ORDER BY c.id DESC LIMIT 1)
ORDER BY number`

// storedQuestions returns the labelled questions of an earlier choice of the collection. Those
// about documents that p may not see are left out when the questions are asked.
func storedQuestions(ctx context.Context, tx pgx.Tx, p schema.Principal, collection uuid.UUID) ([]schema.LabelledQuestion, error) {
	rows, err := tx.Query(ctx, storedQuestionsSQL, p.Tenant, collection)
	if err != nil {
		return nil, fmt.Errorf("read the labelled questions that are stored: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (q schema.LabelledQuestion, err error) {
		err = row.Scan(&q.Question, &q.Documents, &q.Answers, &q.Contains)
		return q, err
	})
}

func one(ctx context.Context, tx pgx.Tx, tenant, collection, id uuid.UUID) (schema.PlanChoice, error) {
	rows, err := tx.Query(ctx, choiceSQL, tenant, collection, id)
	if err != nil {
		return schema.PlanChoice{}, err
	}
	out, err := pgx.CollectExactlyOneRow(rows, scanChoice)
	return out, store.Named(err, "choice of a plan", id)
}

// Choice returns a choice of a collection.
func (s *ChoiceStore) Choice(ctx context.Context, p schema.Principal, collection, id uuid.UUID) (schema.PlanChoice, error) {
	var out schema.PlanChoice
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		out, err = one(ctx, tx, p.Tenant, collection, id)
		return err
	})
	return out, store.Wrap(err, "show a choice of a plan")
}

// Choices lists a page of a collection's choices, newest first, and returns the next cursor.
func (s *ChoiceStore) Choices(ctx context.Context, p schema.Principal, collection uuid.UUID, q schema.PageQuery) ([]schema.PlanChoice, string, error) {
	pg, err := store.PageOf(q)
	if err != nil {
		return nil, "", err
	}
	var out []schema.PlanChoice
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, listChoicesSQL, p.Tenant, collection, pg.After, pg.Limit+1)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, scanChoice)
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("list choices of a plan: %w", err)
	}
	out, next := store.Cut(pg, out, func(c schema.PlanChoice) uuid.UUID { return c.ID })
	return out, next, nil
}

// CancelChoice ends an unfinished choice; its measurements stay unused. A finished choice stays as
// it is.
func (s *ChoiceStore) CancelChoice(ctx context.Context, p schema.Principal, collection, id uuid.UUID) (schema.PlanChoice, error) {
	var out schema.PlanChoice
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		var cancelled uuid.UUID
		err := tx.QueryRow(ctx, cancelChoiceSQL, p.Tenant, collection, id).Scan(&cancelled)
		if err != nil && !store.IsNoRows(err) {
			return err
		}
		ended := err != nil
		if out, err = one(ctx, tx, p.Tenant, collection, id); err != nil {
			return err
		}
		if ended {
			return nil
		}
		return store.Audit(ctx, tx, p.Tenant, p, "plan_choice.cancel", id.String(), nil)
	})
	return out, store.Wrap(err, "cancel a choice of a plan")
}

const applySQL = `
WITH applied AS (
    UPDATE plan_choices SET applied = $4 WHERE tenant_id = $1 AND collection_id = $2 AND id = $3 AND state = 'done' RETURNING id)
UPDATE collections SET plan = $4 WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL AND EXISTS (SELECT FROM applied) RETURNING id`

// ApplyChoice sets the collection's plan to one of a finished choice.
func (s *ChoiceStore) ApplyChoice(ctx context.Context, p schema.Principal, collection, id uuid.UUID, plan string) (schema.PlanChoice, error) {
	var out schema.PlanChoice
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		out, err = apply(ctx, tx, p, collection, id, plan)
		return err
	})
	return out, store.Wrap(err, "apply a choice of a plan")
}

func apply(ctx context.Context, tx pgx.Tx, p schema.Principal, collection, id uuid.UUID, plan string) (schema.PlanChoice, error) {
	var of uuid.UUID
	err := tx.QueryRow(ctx, applySQL, p.Tenant, collection, id, plan).Scan(&of)
	if store.IsNoRows(err) {
		have, err := one(ctx, tx, p.Tenant, collection, id)
		if err == nil {
			err = fmt.Errorf("it is %s, and proposes nothing: %w", have.State, schema.ErrConflict)
		}
		return have, err
	}
	if err != nil {
		return schema.PlanChoice{}, err
	}
	if err := store.Audit(ctx, tx, p.Tenant, p, "plan_choice.apply", id.String(), map[string]any{"collection": collection, "plan": plan}); err != nil {
		return schema.PlanChoice{}, err
	}
	return one(ctx, tx, p.Tenant, collection, id)
}

// shownSQL selects the questions of a choice whose documents the caller may all see now.
var shownSQL = `
SELECT q.number, q.source, q.question, q.documents, q.answers, q.contains, q.evidence FROM plan_choice_questions q
WHERE q.tenant_id = $1 AND q.choice_id = $2 AND q.number > $4 AND NOT EXISTS (
    SELECT FROM unnest(q.document_ids) AS of (id) WHERE NOT EXISTS (
        SELECT FROM documents d WHERE d.tenant_id = $1 AND d.id = of.id AND d.deleted_at IS NULL AND d.live_version_id IS NOT NULL
          AND ` + fmt.Sprintf(store.VisibleSQL, "d.live_version_id", "$3") + `))
ORDER BY q.number LIMIT $5`

// ShownQuestions lists up to limit questions of a choice with numbers above after. Those made from
// documents that p may not see are left out.
func (s *ChoiceStore) ShownQuestions(ctx context.Context, p schema.Principal, collection, id uuid.UUID, after, limit int) ([]schema.ChoiceQuestion, error) {
	var out []schema.ChoiceQuestion
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := one(ctx, tx, p.Tenant, collection, id); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, shownSQL, p.Tenant, id, store.GroupsOf(p), after, limit)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, scanQuestion)
		return err
	})
	return out, store.Wrap(err, "list the questions of a choice")
}

func scanQuestion(row pgx.CollectableRow) (schema.ChoiceQuestion, error) {
	var q schema.ChoiceQuestion
	err := row.Scan(&q.Number, &q.Source, &q.Question, &q.Documents, &q.Answers, &q.Contains, &q.Evidence)
	return q, err
}

// startedAt returns when a choice began, or the zero time.
func startedAt(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

var errOver = errors.Join(errors.New("the choice has ended"), schema.ErrLostLease)
