package questions

// This file keeps the leases on asynchronous questions, and queues again, or fails, questions that
// no worker processes any more.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// ClaimQuestion takes, or extends, the lease on an unfinished question's attempt. It reports false
// when there is nothing to do, because the question has ended or another attempt owns it.
func (s *QuestionStore) ClaimQuestion(ctx context.Context, in wire.QuestionInput, holder string, ttl time.Duration) (bool, error) {
	claimed := false
	err := s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		claimed = false
		_, _, _, err := own(ctx, tx, in)
		if errors.Is(err, schema.ErrLostLease) {
			return nil
		}
		if err != nil {
			return err
		}
		claimed = true
		_, err = tx.Exec(ctx, `
			INSERT INTO leases (tenant_id, subject_id, kind, attempt, holder, expires_at) VALUES ($1, $2, 'question', $3, $4, now() + $5)
			ON CONFLICT (tenant_id, subject_id) DO UPDATE
			SET attempt = excluded.attempt, holder = excluded.holder, expires_at = excluded.expires_at`,
			in.Tenant, in.Question, in.Attempt, holder, ttl)
		return err
	})
	return claimed, store.Wrap(err, "claim question %s", in.Question)
}

// ExpiredQuestions lists up to limit unfinished questions whose lease expired.
func (s *QuestionStore) ExpiredQuestions(ctx context.Context, limit int) ([]wire.QuestionInput, error) {
	return s.unfinished(ctx, `
		SELECT q.tenant_id, q.id, q.attempt
		FROM leases l JOIN questions q ON q.tenant_id = l.tenant_id AND q.id = l.subject_id
		WHERE l.kind = 'question' AND l.expires_at < now() AND q.async AND q.state IN ('queued', 'running')
		ORDER BY l.expires_at LIMIT $1`, limit)
}

// StrandedQuestions lists up to limit questions of a tenant that were queued before a time, whose
// message was published, and that no worker claimed.
func (s *QuestionStore) StrandedQuestions(ctx context.Context, tenant uuid.UUID, before time.Time, limit int) ([]wire.QuestionInput, error) {
	return s.unfinished(ctx, `
		SELECT q.tenant_id, q.id, q.attempt FROM questions q
		WHERE q.tenant_id = $2 AND q.async AND q.state IN ('queued', 'running') AND q.queued_at < $3
		  AND NOT EXISTS (SELECT FROM leases l WHERE l.tenant_id = q.tenant_id AND l.subject_id = q.id)
		  AND NOT EXISTS (SELECT FROM outbox o WHERE o.subject = $4 AND o.message_id = q.id || '.' || q.attempt)
		ORDER BY q.queued_at LIMIT $1`, limit, tenant, before, wire.QuestionsSubject(tenant))
}

func (s *QuestionStore) unfinished(ctx context.Context, query string, args ...any) ([]wire.QuestionInput, error) {
	var out []wire.QuestionInput
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[wire.QuestionInput])
		return err
	})
	return out, store.Wrap(err, "find questions that no one works on")
}

// WaitingTenants lists the tenants with questions that were queued before a time and that no worker
// claimed.
func (s *QuestionStore) WaitingTenants(ctx context.Context, before time.Time) ([]uuid.UUID, error) {
	var out []uuid.UUID
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT DISTINCT q.tenant_id FROM questions q
			WHERE q.async AND q.state IN ('queued', 'running') AND q.queued_at < $1
			  AND NOT EXISTS (SELECT FROM leases l WHERE l.tenant_id = q.tenant_id AND l.subject_id = q.id)`, before)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	})
	return out, store.Wrap(err, "find tenants with waiting questions")
}

// maxAttempts bounds how often a question is queued.
const maxAttempts = 5

// RequeueQuestion queues a question whose worker was lost in another attempt, or fails it after
// maxAttempts. It reports false when the question has moved on meanwhile.
func (s *QuestionStore) RequeueQuestion(ctx context.Context, in wire.QuestionInput) (bool, error) {
	moved := false
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		moved = false
		collection, _, trace, err := own(ctx, tx, in)
		if errors.Is(err, schema.ErrLostLease) {
			return nil
		}
		if err != nil {
			return err
		}
		var leased bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM leases WHERE tenant_id = $1 AND subject_id = $2 AND expires_at > now())`,
			in.Tenant, in.Question).Scan(&leased); err != nil || leased {
			return err
		}
		moved = true
		if in.Attempt >= maxAttempts {
			reason := schema.Reason{Code: string(schema.CodeInternal),
				Message: fmt.Sprintf("the work on it was lost %d times; the workers' logs say why", in.Attempt)}
			return end(ctx, tx, in, wire.QuestionEvent{Kind: wire.EventQuestionFailed, State: schema.JobFailed, Collection: collection, Reason: &reason}, true, trace)
		}
		if _, err := tx.Exec(ctx, `
			UPDATE questions SET attempt = $3, state = 'queued', stage = '', queued_at = now() WHERE tenant_id = $1 AND id = $2`,
			in.Tenant, in.Question, in.Attempt+1); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM leases WHERE tenant_id = $1 AND subject_id = $2`, in.Tenant, in.Question); err != nil {
			return err
		}
		var out store.Outbox
		if err := out.Question(in.Tenant, collection, in.Question, in.Attempt+1, trace); err != nil {
			return err
		}
		return out.Write(ctx, tx)
	})
	return moved, store.Wrap(err, "queue question %s again", in.Question)
}

// FailAbandoned fails synchronous questions that are unfinished although their asker stopped
// waiting more than grace ago: the process that should end them is gone. A question fails in any
// case when it is older than after, as it is not always known how long its asker waits. It returns
// their number.
func (s *QuestionStore) FailAbandoned(ctx context.Context, grace, after time.Duration) (int64, error) {
	var n int64
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		n = 0
		reason := schema.Reason{Code: string(schema.CodeUnavailable), Message: "the worker that answered it ended; ask again"}
		rows, err := tx.Query(ctx, `
			UPDATE questions SET state = 'failed', reason_code = $2, reason = $3, finished_at = now()
			WHERE NOT async AND state IN ('queued', 'running')
			  AND (created_at < now() - $1::interval OR waited_until < now() - $4::interval)
			RETURNING tenant_id, collection_id, id, attempt, coalesce(trace, '')`,
			after, reason.Code, reason.Message, grace)
		if err != nil {
			return err
		}
		out := store.Outbox{NoWebhooks: true} // webhooks are only notified of jobs
		e := wire.QuestionEvent{Kind: wire.EventQuestionFailed, State: schema.JobFailed, Reason: &reason}
		var trace string
		if _, err := pgx.ForEachRow(rows, []any{&e.Tenant, &e.Collection, &e.Question, &e.Attempt, &trace}, func() error {
			n++
			return out.QuestionEvent(e, trace)
		}); err != nil {
			return err
		}
		return out.Write(ctx, tx)
	})
	return n, store.Wrap(err, "end abandoned questions")
}
