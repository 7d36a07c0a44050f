package questions

// This file keeps which questions the language model answers correctly without retrieval, and which
// are still to be asked that way (FIT-RAG). What is known of a question is used for its own tenant
// only, and is deleted with its row in questions.

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pgvector/pgvector-go"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// Skips a question whose collection is deleted; FOR SHARE waits for a deletion in progress.
	sampleQuestionSQL = `
INSERT INTO known_questions (tenant_id, question_id)
SELECT q.tenant_id, q.id FROM questions q JOIN collections c ON c.tenant_id = q.tenant_id AND c.id = q.collection_id
WHERE q.tenant_id = $1 AND q.id = $2 AND c.deleted_at IS NULL FOR SHARE OF c
ON CONFLICT DO NOTHING`
)

// Sample implements answer.Store: the question is to be asked without retrieval as well.
func (s *QuestionStore) Sample(ctx context.Context, in wire.QuestionInput) error {
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sampleQuestionSQL, in.Tenant, in.Question)
		return err
	})
	return store.Wrap(err, "sample question %s", in.Question)
}

// maxShadowTries is how often asking a question without retrieval is tried.
const maxShadowTries = 3

// ClaimSampled claims up to limit ended questions, of any tenant, that are to be asked without
// retrieval. Each is due again after again, unless Learn or Forget was called for it by then.
func (s *QuestionStore) ClaimSampled(ctx context.Context, limit int, again time.Duration) ([]wire.QuestionInput, error) {
	var out []wire.QuestionInput
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			UPDATE known_questions SET tries = tries + 1, due_at = now() + $2
			WHERE (tenant_id, question_id) IN (
			    SELECT k.tenant_id, k.question_id FROM known_questions k
			    JOIN questions q ON q.tenant_id = k.tenant_id AND q.id = k.question_id
			    WHERE k.known IS NULL AND k.due_at <= now() AND k.tries < $3 AND q.state IN ('answered', 'failed', 'cancelled')
			    ORDER BY k.due_at LIMIT $1 FOR UPDATE OF k SKIP LOCKED)
			RETURNING tenant_id, question_id`, limit, again, maxShadowTries)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (in wire.QuestionInput, err error) {
			in.Attempt = 1
			err = row.Scan(&in.Tenant, &in.Question)
			return in, err
		})
		return err
	})
	return out, store.Wrap(err, "take questions to ask without retrieval")
}

// Learn records whether a question was answered correctly without retrieval, with its vector.
func (s *QuestionStore) Learn(ctx context.Context, in wire.QuestionInput, space string, vector []float32, known bool) error {
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE known_questions SET known = $3, space = $4, vector = $5 WHERE tenant_id = $1 AND question_id = $2 AND known IS NULL`,
			in.Tenant, in.Question, known, space, pgvector.NewVector(vector))
		return err
	})
	return store.Wrap(err, "note what is known of question %s", in.Question)
}

// Forget removes a question that is still to be asked without retrieval.
func (s *QuestionStore) Forget(ctx context.Context, in wire.QuestionInput) error {
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM known_questions WHERE tenant_id = $1 AND question_id = $2 AND known IS NULL`, in.Tenant, in.Question)
		return err
	})
	return store.Wrap(err, "forget what was to be known of question %s", in.Question)
}
