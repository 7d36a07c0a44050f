package store

// This file says who works on an asynchronous question and until when, and
// queues again, or ends, what no one works on any more.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// ClaimQuestion takes, or extends, the lease on an unfinished question's
// attempt. It reports false when there is nothing to do: the question has ended
// or another attempt owns it.
func (s *Store) ClaimQuestion(ctx context.Context, in wire.QuestionInput, holder string, ttl time.Duration) (bool, error) {
	claimed := false
	err := s.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
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
	return claimed, wrap(err, "claim question %s", in.Question)
}

// maxAttempts bounds how often a question is queued.
const maxAttempts = 5

// RequeueQuestions queues at most limit asynchronous questions whose lease ran
// out, or that were queued before a while and never claimed: their message is
// gone, or their workflow. The attempt rises with the message. A question that
// was lost too often fails. It returns how many it moved.
func (s *Store) RequeueQuestions(ctx context.Context, waiting time.Duration, limit int) (int, error) {
	n := 0
	err := s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		n = 0
		rows, err := tx.Query(ctx, `
			SELECT q.tenant_id, q.id, q.collection_id, q.attempt, coalesce(q.trace, '')
			FROM questions q
			LEFT JOIN leases l ON l.tenant_id = q.tenant_id AND l.subject_id = q.id
			WHERE q.async AND q.state IN ('queued', 'running')
			  AND (l.expires_at < now() OR l.subject_id IS NULL AND q.queued_at < now() - $1::interval)
			  AND NOT EXISTS (SELECT FROM outbox o WHERE o.subject = 'sluice.questions.' || q.tenant_id AND o.message_id = q.id || '.' || q.attempt)
			ORDER BY q.queued_at LIMIT $2
			FOR UPDATE OF q SKIP LOCKED`, waiting, limit)
		if err != nil {
			return err
		}
		type stuck struct {
			tenant, id, collection uuid.UUID
			attempt                int
			trace                  string
		}
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (stuck, error) {
			var q stuck
			err := row.Scan(&q.tenant, &q.id, &q.collection, &q.attempt, &q.trace)
			return q, err
		})
		if err != nil {
			return err
		}
		out := outboxRows{}
		for _, q := range found {
			if q.attempt >= maxAttempts {
				reason := schema.Reason{Code: string(schema.CodeInternal),
					Message: fmt.Sprintf("the work on it was lost %d times; the workers' logs say why", q.attempt)}
				e := wire.QuestionEvent{Kind: wire.EventQuestionFailed, State: schema.JobFailed, Collection: q.collection, Reason: &reason}
				if err := end(ctx, tx, wire.QuestionInput{Tenant: q.tenant, Question: q.id, Attempt: q.attempt}, e, true, q.trace); err != nil {
					return err
				}
				continue
			}
			if _, err := tx.Exec(ctx, `
				UPDATE questions SET attempt = $3, state = 'queued', stage = '', queued_at = now() WHERE tenant_id = $1 AND id = $2`,
				q.tenant, q.id, q.attempt+1); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, `DELETE FROM leases WHERE tenant_id = $1 AND subject_id = $2`, q.tenant, q.id); err != nil {
				return err
			}
			if err := out.addQuestion(q.tenant, q.collection, q.id, q.attempt+1, q.trace); err != nil {
				return err
			}
		}
		n = len(found)
		return out.insert(ctx, tx)
	})
	return n, wrap(err, "queue questions again")
}

// FailAbandoned ends synchronous questions that are unfinished after a while:
// whoever answered them is gone. It returns how many.
func (s *Store) FailAbandoned(ctx context.Context, after time.Duration) (int64, error) {
	var n int64
	err := s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `
			UPDATE questions SET state = 'failed', reason_code = $2, reason = $3, finished_at = now()
			WHERE NOT async AND state IN ('queued', 'running') AND created_at < now() - $1::interval`,
			after, string(schema.CodeUnavailable), "the worker that answered it ended; ask again")
		n = tag.RowsAffected()
		return err
	})
	return n, wrap(err, "end abandoned questions")
}
