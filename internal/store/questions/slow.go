package questions

// This file keeps which searches and questions took long: the newest ones of a tenant, for some
// days.

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	insertSlowSQL = `
INSERT INTO slow_queries (tenant_id, id, kind, collection_id, question, plan, millis, stages, code, trace)
VALUES ($1, $2, 'search', $3, $4, $5, $6, $7, $8, $9)`

	// All data of a question is in the store already. A traceparent is "00-<trace>-<span>-<flags>".
	insertSlowQuestionSQL = `
INSERT INTO slow_queries (tenant_id, id, kind, collection_id, question, plan, millis, stages, code, trace)
SELECT q.tenant_id, q.id, CASE WHEN q.async THEN 'job' ELSE 'ask' END, q.collection_id, coalesce(q.asked, q.question), q.plan,
       extract(epoch FROM q.finished_at - q.created_at) * 1000,
       coalesce((SELECT jsonb_agg(jsonb_build_object('stage', e.v->'stage', 'ms', e.v->'ms') ORDER BY e.n)
                 FROM answers a, jsonb_array_elements(a.trace) WITH ORDINALITY AS e (v, n)
                 WHERE a.tenant_id = q.tenant_id AND a.question_id = q.id), '[]'),
       coalesce(q.reason_code, ''), split_part(coalesce(q.trace, ''), '-', 2)
FROM questions q
WHERE q.tenant_id = $1 AND q.id = $2 AND q.state IN ('answered', 'failed') AND q.finished_at - q.created_at >= $3
ON CONFLICT DO NOTHING`

	// The newest of a tenant are kept, separately for each kind: questions take longer than
	// searches, and must not displace these.
	boundSlowSQL = `
DELETE FROM slow_queries WHERE tenant_id = $1 AND id IN (
    SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY kind ORDER BY at DESC, id DESC) AS n FROM slow_queries WHERE tenant_id = $1) AS ranked
    WHERE n > $2)`

	dropSlowSQL = `DELETE FROM slow_queries WHERE at < now() - $1::interval`

	slowestSQL = `
SELECT id, tenant_id, kind, collection_id, question, plan, millis, stages, code, trace, at
FROM (SELECT *, row_number() OVER (PARTITION BY kind ORDER BY millis DESC, id) AS n FROM slow_queries
      WHERE tenant_id = $1 AND at >= now() - interval '24 hours') AS ranked
WHERE n <= $2 ORDER BY millis DESC, id`
	slowestOfAllSQL = `
SELECT id, tenant_id, kind, plan, millis, stages, code, trace, at
FROM (SELECT tenant_id, id, kind, plan, millis, stages, code, trace, at, row_number() OVER (PARTITION BY kind ORDER BY millis DESC, id) AS n
      FROM slow_queries WHERE at >= now() - interval '24 hours') AS ranked
WHERE n <= $1 ORDER BY millis DESC, id`
)

const (
	maxSlow     = 200                // of a tenant and kind
	keepSlowFor = 7 * 24 * time.Hour // days
	slowShown   = 10                 // of a kind
)

// KeepSlowSearch stores a search of a tenant that took long.
func (s *QuestionStore) KeepSlowSearch(ctx context.Context, q answer.SlowSearch) error {
	times := make([]schema.StageTime, len(q.Stages))
	for i, st := range q.Stages {
		times[i] = schema.StageTime{Stage: st.Stage, Millis: st.Millis}
	}
	stages, err := json.Marshal(times)
	if err != nil {
		return fmt.Errorf("encode the times of stages: %w", err)
	}
	if q.Plan == "" {
		q.Plan = q.Query.Plan
	}
	tenant := q.Query.Principal.Tenant
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insertSlowSQL, tenant, schema.NewID(), q.Query.Collection, q.Query.Original(), q.Plan,
			float64(q.Took.Microseconds())/1000, stages, q.Code, q.Trace); err != nil {
			return err
		}
		return boundSlow(ctx, tx, tenant)
	})
	return store.Wrap(err, "keep a slow search of tenant %s", tenant)
}

// KeepSlowQuestion stores an ended question if it took at least minTime.
func (s *QuestionStore) KeepSlowQuestion(ctx context.Context, tenant, question uuid.UUID, minTime time.Duration) error {
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, insertSlowQuestionSQL, tenant, question, minTime)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return boundSlow(ctx, tx, tenant)
	})
	return store.Wrap(err, "keep slow question %s", question)
}

func boundSlow(ctx context.Context, tx pgx.Tx, tenant uuid.UUID) error {
	_, err := tx.Exec(ctx, boundSlowSQL, tenant, maxSlow)
	return err
}

// DropSlowQueries deletes those that are too old, of all tenants.
func (s *QuestionStore) DropSlowQueries(ctx context.Context) error {
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, dropSlowSQL, keepSlowFor)
		return err
	})
	return store.Wrap(err, "forget old slow queries")
}

// SlowQueries returns the slowest queries of p's tenant in the last 24 hours.
func (s *QuestionStore) SlowQueries(ctx context.Context, p schema.Principal) ([]schema.SlowQuery, error) {
	var out []schema.SlowQuery
	err := s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, slowestSQL, p.Tenant, slowShown)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[schema.SlowQuery])
		return err
	})
	return store.EmptyNotNull(out), store.Wrap(err, "list slow queries of tenant %s", p.Tenant)
}

// SystemSlowQueries returns the slowest queries of all tenants in the last 24 hours, without their
// text and their collection. Its callers hold the operator scope.
func (s *QuestionStore) SystemSlowQueries(ctx context.Context) ([]schema.SlowQuery, error) {
	var out []schema.SlowQuery
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, slowestOfAllSQL, slowShown)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (schema.SlowQuery, error) {
			var q schema.SlowQuery
			err := row.Scan(&q.ID, &q.Tenant, &q.Kind, &q.Plan, &q.Millis, &q.Stages, &q.Code, &q.Trace, &q.At)
			return q, err
		})
		return err
	})
	return store.EmptyNotNull(out), store.Wrap(err, "list slow queries")
}
