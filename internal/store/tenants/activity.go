package tenants

// This file shows the current and recent activity of ingestion and questions: of one tenant as that
// tenant, of all tenants as the system, which sees numbers and no text.

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// In each statement, $1 is the tenant, or null for all.
const (
	ingestMinutesSQL = `
SELECT date_trunc('minute', finished_at), count(*) FILTER (WHERE state = 'ready'), coalesce(sum(bytes) FILTER (WHERE state = 'ready'), 0)::bigint,
       count(*) FILTER (WHERE state = 'failed')
FROM versions
WHERE state IN ('ready', 'failed') AND finished_at >= date_trunc('minute', now()) - interval '59 minutes' AND ($1::uuid IS NULL OR tenant_id = $1)
GROUP BY 1`

	waitingVersionsSQL = `
SELECT state, count(*), min(queued_at) FROM versions
WHERE state IN ('received', 'queued', 'processing') AND ($1::uuid IS NULL OR tenant_id = $1)
GROUP BY state`

	waitingJobsSQL = `
SELECT state, count(*), min(queued_at) FROM questions
WHERE async AND state IN ('queued', 'running') AND ($1::uuid IS NULL OR tenant_id = $1)
GROUP BY state`

	// A question's id begins with the time at which it was asked. A question may have been asked up
	// to an hour before it failed; those asked more than a day ago do not matter.
	failuresSQL = `
SELECT 'document', reason_code, count(*) FROM versions
WHERE state = 'failed' AND finished_at >= now() - interval '24 hours' AND ($1::uuid IS NULL OR tenant_id = $1)
GROUP BY reason_code
UNION ALL
SELECT 'question', q.reason_code, count(*) FROM tenants t
JOIN questions q ON q.tenant_id = t.id AND q.id >= $2
WHERE q.state = 'failed' AND ($1::uuid IS NULL OR t.id = $1)
GROUP BY q.reason_code
ORDER BY 3 DESC, 1, 2`

	busyTenantsSQL = `
WITH done AS (
    SELECT tenant_id, count(*) FILTER (WHERE state = 'ready') AS documents, coalesce(sum(bytes) FILTER (WHERE state = 'ready'), 0)::bigint AS bytes,
           count(*) FILTER (WHERE state = 'failed') AS failed
    FROM versions WHERE state IN ('ready', 'failed') AND finished_at >= now() - interval '1 hour' GROUP BY tenant_id
), waits AS (
    SELECT tenant_id, count(*) AS waiting FROM versions WHERE state IN ('received', 'queued', 'processing') GROUP BY tenant_id
)
SELECT t.id, t.name, coalesce(w.waiting, 0) AS waiting, coalesce(d.documents, 0) AS documents, coalesce(d.bytes, 0), coalesce(d.failed, 0) AS failed
FROM tenants t LEFT JOIN done d ON d.tenant_id = t.id LEFT JOIN waits w ON w.tenant_id = t.id
WHERE w.tenant_id IS NOT NULL OR d.tenant_id IS NOT NULL
ORDER BY waiting DESC, documents + failed DESC, t.name LIMIT $1`

	outboxStateSQL = `SELECT count(*), min(created_at) FROM outbox`
)

const (
	ingestMinutes = 60
	// busyTenants bounds the tenants with the most activity that are shown.
	busyTenants = 20
)

// Activity returns the activity in p's tenant.
func (s *TenantStore) Activity(ctx context.Context, p schema.Principal) (schema.Activity, error) {
	var out schema.Activity
	err := s.db.ReadTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		out, err = activity(ctx, tx, &p.Tenant)
		return err
	})
	return out, store.Wrap(err, "read what happens in tenant %s", p.Tenant)
}

// SystemActivity returns the activity in all tenants together, in the busiest of them, and the
// state of the outbox. Its callers hold the operator scope.
func (s *TenantStore) SystemActivity(ctx context.Context) (schema.Activity, []schema.TenantActivity, schema.OutboxState, error) {
	var out schema.Activity
	var tenants []schema.TenantActivity
	var outbox schema.OutboxState
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		if out, err = activity(ctx, tx, nil); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, busyTenantsSQL, busyTenants)
		if err != nil {
			return err
		}
		if tenants, err = pgx.CollectRows(rows, pgx.RowToStructByPos[schema.TenantActivity]); err != nil {
			return fmt.Errorf("count what tenants do: %w", err)
		}
		return tx.QueryRow(ctx, outboxStateSQL).Scan(&outbox.Messages, &outbox.Oldest)
	})
	return out, store.EmptyNotNull(tenants), outbox, store.Wrap(err, "read what happens")
}

// activity reads the activity in a tenant, or in all.
func activity(ctx context.Context, tx pgx.Tx, tenant *uuid.UUID) (schema.Activity, error) {
	out := schema.Activity{Waiting: map[schema.State]int64{}, Jobs: map[schema.JobState]int64{}, Failures: []schema.FailureCount{}}
	if err := tx.QueryRow(ctx, `SELECT now()`).Scan(&out.At); err != nil {
		return out, err
	}
	out.At = out.At.UTC()
	first := out.At.Truncate(time.Minute).Add(-(ingestMinutes - 1) * time.Minute)
	for i := range ingestMinutes {
		out.Minutes = append(out.Minutes, schema.IngestMinute{At: first.Add(time.Duration(i) * time.Minute)})
	}
	b := &pgx.Batch{}
	store.Each(b, ingestMinutesSQL, []any{tenant}, func(rows pgx.Rows) error {
		var m schema.IngestMinute
		_, err := pgx.ForEachRow(rows, []any{&m.At, &m.Documents, &m.Bytes, &m.Failed}, func() error {
			if i := int(m.At.Sub(first) / time.Minute); i >= 0 && i < ingestMinutes {
				m.At = out.Minutes[i].At
				out.Minutes[i] = m
			}
			return nil
		})
		return err
	})
	store.Each(b, waitingVersionsSQL, []any{tenant}, func(rows pgx.Rows) error { return countStates(rows, out.Waiting, &out.WaitingSince) })
	store.Each(b, waitingJobsSQL, []any{tenant}, func(rows pgx.Rows) error { return countStates(rows, out.Jobs, &out.JobsSince) })
	store.Each(b, failuresSQL, []any{tenant, firstIDAt(out.At.Add(-24 * time.Hour))}, func(rows pgx.Rows) (err error) {
		out.Failures, err = pgx.CollectRows(rows, pgx.RowToStructByPos[schema.FailureCount])
		return err
	})
	return out, tx.SendBatch(ctx, b).Close()
}

// countStates reads counts by state, and since when the oldest entry of all has waited.
func countStates[S ~string](rows pgx.Rows, counts map[S]int64, since **time.Time) error {
	var state S
	var n int64
	var oldest *time.Time
	_, err := pgx.ForEachRow(rows, []any{&state, &n, &oldest}, func() error {
		counts[state] = n
		if oldest != nil && (*since == nil || oldest.Before(**since)) {
			at := *oldest
			*since = &at
		}
		return nil
	})
	return err
}

// firstIDAt returns an id that is not after any id that schema.NewID makes from at on.
func firstIDAt(at time.Time) uuid.UUID {
	var id uuid.UUID
	for i, ms := 5, at.UnixMilli(); i >= 0; i-- {
		id[i] = byte(ms)
		ms >>= 8
	}
	return id
}
