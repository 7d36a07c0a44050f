package questions

// This file keeps ratings of answers. A key that may see a question may rate its answer: the one
// that asked it, and admins of the tenant.

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	// maxComment bounds a comment in bytes.
	maxComment = 8000

	ratingColumns = `r.id, r.question_id, r.key_id, r.rating, r.comment, r.created_at, r.updated_at`

	// The answer is locked, so that a purge either comes before, and there is no answer, or also
	// removes the rating. Repeating a rating changes nothing.
	rateSQL = `
WITH rated AS (
    SELECT q.tenant_id, q.id FROM questions q JOIN answers a ON a.tenant_id = q.tenant_id AND a.question_id = q.id
    WHERE q.tenant_id = $1 AND q.id = $2 AND ($3 OR q.key_id = $4 AND q.person = $8) AND a.purged_at IS NULL FOR SHARE OF a)
INSERT INTO ratings AS r (tenant_id, id, question_id, key_id, rating, comment) SELECT tenant_id, $5, id, $4, $6, $7 FROM rated
ON CONFLICT (tenant_id, question_id, key_id) DO UPDATE SET rating = excluded.rating, comment = excluded.comment,
    updated_at = CASE WHEN r.rating = excluded.rating AND r.comment = excluded.comment THEN r.updated_at ELSE now() END
RETURNING ` + ratingColumns

	unrateSQL = `
DELETE FROM ratings r USING questions q
WHERE r.tenant_id = $1 AND r.question_id = $2 AND r.key_id = $3 AND q.tenant_id = $1 AND q.id = $2 AND ($4::text IS NULL OR q.person = $4)`

	listRatingsSQL = `
SELECT ` + ratingColumns + `, q.collection_id, coalesce(q.asked, q.question), CASE WHEN q.asked IS NULL THEN '' ELSE q.question END, q.choices, a.plan, a.answer, a.supported, a.choice
FROM ratings r
JOIN questions q ON q.tenant_id = r.tenant_id AND q.id = r.question_id
JOIN answers a ON a.tenant_id = r.tenant_id AND a.question_id = r.question_id
WHERE r.tenant_id = $1 AND ($2::uuid IS NULL OR r.key_id = $2 AND ($8::text IS NULL OR q.person = $8)) AND ($3 = '' OR r.rating = $3)
  AND ($4::uuid IS NULL OR q.collection_id = $4) AND ($5::uuid IS NULL OR r.question_id = $5) AND ($6::uuid IS NULL OR r.id < $6)
ORDER BY r.id DESC LIMIT $7`

	ratedCitationsSQL = `SELECT question_id, ` + citationColumns + ` FROM citations WHERE tenant_id = $1 AND question_id = ANY ($2) ORDER BY question_id, ordinal`
)

func ratingFields(r *schema.Rating) []any {
	return []any{&r.ID, &r.Question, &r.Key, &r.Rating, &r.Comment, &r.CreatedAt, &r.UpdatedAt}
}

// personOf returns the person whose questions p may rate; nil: p is an admin, who may rate all.
func personOf(p schema.Principal) *string {
	if p.Has(schema.ScopeAdmin) && p.Person == "" {
		return nil
	}
	return &p.Person
}

// Rate sets the rating of p's key for the answer of a question; a key has one rating of each
// answer. The error is schema.ErrConflict for a question without an answer, and schema.ErrNotFound
// for one of another key, unless p is an admin.
func (s *QuestionStore) Rate(ctx context.Context, p schema.Principal, question uuid.UUID, opinion schema.Opinion, comment string) (schema.Rating, error) {
	if opinion != schema.ThumbsUp && opinion != schema.ThumbsDown {
		return schema.Rating{}, schema.Invalid("rating", "%q is neither up nor down", opinion)
	}
	if err := schema.CheckLength("comment", comment, 0, maxComment); err != nil {
		return schema.Rating{}, err
	}
	var r schema.Rating
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, rateSQL, p.Tenant, question, p.Has(schema.ScopeAdmin) && p.Person == "", p.Key, schema.NewID(), opinion, comment, p.Person).Scan(ratingFields(&r)...)
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		var state schema.JobState
		if err := tx.QueryRow(ctx, `SELECT state FROM questions WHERE tenant_id = $1 AND `+askedBySQL+` AND id = $5`, askedBy(p, question)...).Scan(&state); err != nil {
			return store.Named(err, "question", question)
		}
		if state == schema.JobAnswered {
			return fmt.Errorf("its answer was removed with a document: %w", schema.ErrConflict)
		}
		return fmt.Errorf("it has no answer, it is %s: %w", state, schema.ErrConflict)
	})
	return r, store.Wrap(err, "rate question %s", question)
}

// Unrate removes the rating of p's key for an answer.
func (s *QuestionStore) Unrate(ctx context.Context, p schema.Principal, question uuid.UUID) error {
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, unrateSQL, p.Tenant, question, p.Key, personOf(p))
		if err == nil && tag.RowsAffected() == 0 {
			return fmt.Errorf("this key has not rated question %s: %w", question, schema.ErrNotFound)
		}
		return err
	})
	return store.Wrap(err, "take a rating back")
}

// Ratings lists a page of the ratings of p's key, or of all keys of the tenant for an admin, newest
// first, with the rated answers, and the next cursor.
func (s *QuestionStore) Ratings(ctx context.Context, p schema.Principal, q schema.RatingQuery) ([]schema.RatedAnswer, string, error) {
	pg, err := store.PageOf(q.PageQuery)
	if err != nil {
		return nil, "", err
	}
	var key *uuid.UUID
	if q.Own || !p.Has(schema.ScopeAdmin) || p.Person != "" {
		key = &p.Key
	}
	var out []schema.RatedAnswer
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, listRatingsSQL, p.Tenant, key, q.Rating, unlessZero(q.Collection), unlessZero(q.Question), pg.After, pg.Limit+1, personOf(p))
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (schema.RatedAnswer, error) {
			r := schema.RatedAnswer{Citations: []schema.Citation{}}
			err := row.Scan(append(ratingFields(&r.Rating), &r.Collection, &r.Text, &r.Standalone, &r.Choices, &r.Plan, &r.Answer, &r.Supported, &r.Choice)...)
			return r, err
		})
		if err != nil {
			return err
		}
		if err := citations(ctx, tx, p.Tenant, out); err != nil {
			return err
		}
		return withhold(ctx, tx, p, out)
	})
	if err != nil {
		return nil, "", fmt.Errorf("list ratings: %w", err)
	}
	out, next := store.Cut(pg, out, func(r schema.RatedAnswer) uuid.UUID { return r.ID })
	return out, next, nil
}

// citations sets the citations of rated answers.
func citations(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, rated []schema.RatedAnswer) error {
	questions := make([]uuid.UUID, len(rated))
	for i, r := range rated {
		questions[i] = r.Question
	}
	rows, err := tx.Query(ctx, ratedCitationsSQL, tenant, questions)
	if err != nil {
		return err
	}
	found := map[uuid.UUID][]schema.Citation{}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) {
		var question uuid.UUID
		c, err := scanCitation(row, &question)
		found[question] = append(found[question], c)
		return struct{}{}, err
	})
	for i := range rated {
		if of := found[rated[i].Question]; of != nil {
			rated[i].Citations = of
		}
	}
	return err
}

// unlessZero returns an id, or nil, NULL in SQL, for uuid.Nil.
func unlessZero(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}
