package questions

// This file deletes old questions, and old cached replies of language models, also of tenants that
// do not ask any more.

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// QuestionRetention is how many days questions are kept. 0 keeps them for ever.
type QuestionRetention struct {
	Questions  int // with answers and citations
	Retrievals int // their search results, once they have ended
}

// Check returns a FieldError if a value is out of bounds. ledger is how many days the ledger keeps
// the calls of questions. A question must be kept as long as its calls: the purge of a document
// finds replies made from it through the question.
func (r QuestionRetention) Check(ledger int) error {
	for name, days := range map[string]int{"SLUICE_KEEP_QUESTIONS": r.Questions, "SLUICE_KEEP_RETRIEVALS": r.Retrievals} {
		if days < 0 || days > schema.MaxKeepDays {
			return schema.Invalid(name, "%d: needs a number of days, at most %d; 0 for ever", days, schema.MaxKeepDays)
		}
	}
	switch {
	case r.Questions > 0 && ledger == 0:
		return schema.Invalid("SLUICE_KEEP_QUESTIONS", "%d: a question must be kept as long as its calls are in the ledger, which is for ever: "+
			"set SLUICE_KEEP_LLM_CALLS to at most as many days", r.Questions)
	case r.Questions > 0 && r.Questions < ledger:
		return schema.Invalid("SLUICE_KEEP_QUESTIONS", "%d: a question must be kept as long as its calls are in the ledger, %d days: "+
			"set SLUICE_KEEP_LLM_CALLS to at most as many days", r.Questions, ledger)
	}
	return nil
}

const (
	// Keeps questions that are rated, of which the ledger has calls, or of which a webhook is still
	// to be notified. The rows are locked first: transactions that refer to one of them from then
	// on wait, so the statement after this sees all references.
	oldQuestionsSQL = `
SELECT tenant_id, id FROM questions q
WHERE created_at < now() - make_interval(days => $1) AND state IN ('answered', 'failed', 'cancelled')` + unneededSQL + `
ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED`
	forgetQuestionsSQL = `
DELETE FROM questions q USING unnest($1::uuid[], $2::uuid[]) AS old (tenant_id, id)
WHERE q.tenant_id = old.tenant_id AND q.id = old.id AND state IN ('answered', 'failed', 'cancelled')` + unneededSQL
	unneededSQL = `
  AND NOT EXISTS (SELECT FROM ratings r WHERE r.tenant_id = q.tenant_id AND r.question_id = q.id)
  AND NOT EXISTS (SELECT FROM llm_calls c WHERE c.tenant_id = q.tenant_id AND c.question_id = q.id)
  AND NOT EXISTS (SELECT FROM leases l WHERE l.tenant_id = q.tenant_id AND l.subject_id = q.id)
  AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.tenant_id = q.tenant_id AND d.subject_id = q.id AND d.state = 'waiting')`

	// The versions that were retrieved stay known: the purge of a document also removes the answers
	// that were made from it.
	emptyRetrievalsSQL = `
UPDATE retrievals SET candidates = '[]', trace = '[]', pool = NULL, emptied_at = now() WHERE (tenant_id, question_id, round) IN (
    SELECT r.tenant_id, r.question_id, r.round FROM retrievals r JOIN questions q ON q.tenant_id = r.tenant_id AND q.id = r.question_id
    WHERE r.created_at < now() - make_interval(days => $1) AND r.emptied_at IS NULL AND q.state IN ('answered', 'failed', 'cancelled')
    ORDER BY r.created_at LIMIT $2 FOR UPDATE OF r SKIP LOCKED)`

	// Tenant by tenant, so that the index is used.
	forgetCachedSQL = `
DELETE FROM llm_cache WHERE (tenant_id, key) IN (
    SELECT old.tenant_id, old.key FROM tenants t CROSS JOIN LATERAL (
        SELECT c.tenant_id, c.key FROM llm_cache c WHERE c.tenant_id = t.id AND c.created_at <= now() - $1::interval ORDER BY c.created_at LIMIT $2) old
    LIMIT $2)`
)

// ForgetQuestions removes up to limit questions, of all tenants, that are older than they are kept
// and that nothing needs, and empties up to limit retrievals. It returns their number, 0 when
// nothing is left to do now. Several processes may call it at once.
func (s *QuestionStore) ForgetQuestions(ctx context.Context, r QuestionRetention, limit int) (int, error) {
	emptied, forgotten := 0, 0
	if r.Retrievals > 0 {
		err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, emptyRetrievalsSQL, r.Retrievals, limit)
			emptied = int(tag.RowsAffected())
			return err
		})
		if err != nil {
			return 0, fmt.Errorf("empty what was retrieved more than %d days ago: %w", r.Retrievals, err)
		}
	}
	if r.Questions > 0 {
		err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			forgotten, err = forgetQuestions(ctx, tx, r.Questions, limit)
			return err
		})
		if err != nil {
			return emptied, fmt.Errorf("forget questions older than %d days: %w", r.Questions, err)
		}
	}
	return emptied + forgotten, nil
}

func forgetQuestions(ctx context.Context, tx pgx.Tx, days, limit int) (int, error) {
	rows, err := tx.Query(ctx, oldQuestionsSQL, days, limit)
	if err != nil {
		return 0, err
	}
	var tenants, questions []uuid.UUID
	var tenant, question uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&tenant, &question}, func() error {
		tenants, questions = append(tenants, tenant), append(questions, question)
		return nil
	}); err != nil || len(questions) == 0 {
		return 0, err
	}
	tag, err := tx.Exec(ctx, forgetQuestionsSQL, tenants, questions)
	return int(tag.RowsAffected()), err
}

// ForgetCached removes up to limit replies, of all tenants, that have been cached for longer than
// age. It returns their number, 0 when nothing is left to do now.
func (s *QuestionStore) ForgetCached(ctx context.Context, age time.Duration, limit int) (int, error) {
	var n int64
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, forgetCachedSQL, age, limit)
		n = tag.RowsAffected()
		return err
	})
	return int(n), store.Wrap(err, "forget cached replies older than %s", age)
}
