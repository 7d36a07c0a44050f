package corpus

// This file queues versions again that no worker processes any more. This, not acknowledgements,
// guarantees that every version ends as ready or failed.

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// lostLimit is how often a version may lose its worker before it fails.
	lostLimit = 20
	// From suspectLosses losses on a version is suspected of killing the workers. Suspects are
	// requeued one at a time, so that none drives others to the limit.
	suspectLosses = 5
)

// expiredSQL finds versions whose lease expired, or whose holder is dead: its session's advisory
// lock is gone, and it has not extended the lease for a while.
const expiredSQL = `
WITH dead AS MATERIALIZED (
    SELECT holder FROM (SELECT DISTINCT holder FROM leases WHERE kind = 'version') h
    WHERE NOT EXISTS (
        SELECT FROM pg_locks l
        WHERE l.locktype = 'advisory' AND l.classid = $3::int::oid AND l.objsubid = 2 AND l.granted
          AND l.objid = (hashtext(h.holder)::bigint & 4294967295)::oid
          AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
)
SELECT v.tenant_id, v.id, v.attempt, l.expires_at
FROM leases l JOIN versions v ON v.tenant_id = l.tenant_id AND v.id = l.subject_id
WHERE l.kind = 'version' AND v.state = 'processing'
  AND (l.expires_at < now() OR l.expires_at < now() + $2 AND l.holder IN (SELECT holder FROM dead))
  AND (v.losses < $4 OR NOT EXISTS (
      SELECT FROM versions u WHERE u.losses > 0 AND u.losses >= $4 AND u.state IN ('queued', 'processing') AND u.id < v.id))
ORDER BY v.id LIMIT $1`

// RequeueExpired queues at most limit versions whose lease has ended. ttl is the length of a lease,
// and grace is how long the lease of a dead holder stays valid after it was last extended. It
// returns how many versions were queued, and how many failed because their workers vanished too
// often.
func (s *CorpusStore) RequeueExpired(ctx context.Context, ttl, grace time.Duration, limit int) (queued, failed int, err error) {
	type ended struct {
		ids      []uuid.UUID
		attempts []int
		until    []time.Time
	}
	var found map[uuid.UUID]*ended
	err = s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		found = map[uuid.UUID]*ended{}
		rows, err := tx.Query(ctx, expiredSQL, limit, max(ttl-grace, 0), store.PresenceClass, suspectLosses)
		if err != nil {
			return err
		}
		var tenant, id uuid.UUID
		var attempt int
		var until time.Time
		_, err = pgx.ForEachRow(rows, []any{&tenant, &id, &attempt, &until}, func() error {
			e := found[tenant]
			if e == nil {
				e = &ended{}
				found[tenant] = e
			}
			e.ids, e.attempts, e.until = append(e.ids, id), append(e.attempts, attempt), append(e.until, until)
			return nil
		})
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("find ended leases: %w", err)
	}
	for tenant, e := range found {
		q, f, err := s.requeue(ctx, tenant, 1, `
			SELECT v.id FROM unnest($1::uuid[], $2::int[], $3::timestamptz[]) AS w(id, attempt, until)
			JOIN versions v ON v.id = ANY ($1) AND v.id = w.id AND v.attempt = w.attempt AND (v.state = 'processing') IS TRUE
			JOIN leases l ON l.subject_id = v.id AND l.expires_at = w.until
			ORDER BY v.id FOR UPDATE OF v SKIP LOCKED`, e.ids, e.attempts, e.until)
		queued, failed = queued+q, failed+f
		if err != nil {
			return queued, failed, err
		}
	}
	return queued, failed, nil
}

// Ordered as the index of unfinished versions, so that no statistics make a scan of all versions of
// a tenant look cheaper.
const strandedSQL = `
SELECT v.id FROM versions v
WHERE v.tenant_id = $2 AND v.state IN ('queued', 'processing') AND v.queued_at < $3
  AND NOT EXISTS (SELECT FROM leases l WHERE l.tenant_id = v.tenant_id AND l.subject_id = v.id)
ORDER BY v.queued_at LIMIT $1
FOR UPDATE SKIP LOCKED`

// RequeueStranded queues at most limit versions of a tenant that were queued before a time and that
// no worker holds, because their message or their lease was lost.
func (s *CorpusStore) RequeueStranded(ctx context.Context, tenant uuid.UUID, before time.Time, limit int) (int, error) {
	n, _, err := s.requeue(ctx, tenant, 0, strandedSQL, limit, tenant, before)
	return n, err
}

const requeueFoundSQL = `
UPDATE versions v SET
    attempt = v.attempt + 1,
    losses = v.losses + $3,
    state = CASE WHEN v.losses + $3 >= $4 THEN 'failed' ELSE 'queued' END,
    queued_at = CASE WHEN v.losses + $3 >= $4 THEN v.queued_at ELSE now() END,
    finished_at = CASE WHEN v.losses + $3 >= $4 THEN now() END,
    reason_code = CASE WHEN v.losses + $3 >= $4 THEN $5 END,
    reason = CASE WHEN v.losses + $3 >= $4 THEN $6 END
FROM documents d
WHERE v.tenant_id = $1 AND v.id = ANY($2) AND d.tenant_id = v.tenant_id AND d.id = v.document_id
RETURNING v.collection_id, v.document_id, v.id, v.attempt, v.bytes, coalesce(v.trace, ''), d.external_id, v.state`

// requeue raises the attempt of those of a tenant's versions that query finds and locks, and queues
// them in the same transaction. It adds lost to their losses; at lostLimit they fail.
func (s *CorpusStore) requeue(ctx context.Context, tenant uuid.UUID, lost int, query string, args ...any) (queued, failed int, err error) {
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		queued, failed = 0, 0
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return fmt.Errorf("find versions that no one works on: %w", err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if err != nil || len(ids) == 0 {
			return err
		}
		if lost > 0 {
			if _, err := tx.Exec(ctx, diedParsingSQL, ids, store.PresenceClass); err != nil {
				return fmt.Errorf("count deaths over versions: %w", err)
			}
		}
		reason := schema.Reason{Code: schema.ReasonCrashed,
			Message: fmt.Sprintf("the worker that had it vanished %d times; the workers' logs may say why", lostLimit)}
		rows, err = tx.Query(ctx, requeueFoundSQL, tenant, ids, lost, lostLimit, reason.Code, reason.Message)
		if err != nil {
			return fmt.Errorf("queue versions again: %w", err)
		}
		var out store.Outbox
		m := wire.IngestMessage{Tenant: tenant}
		e := wire.Event{Tenant: tenant}
		if _, err := pgx.ForEachRow(rows, []any{&m.Collection, &m.Document, &m.Version, &m.Attempt, &m.Bytes, &m.Trace, &e.ExternalID, &e.State}, func() error {
			e.Collection, e.Document, e.Version = m.Collection, m.Document, m.Version
			e.Kind, e.Reason = "version."+string(e.State), nil
			if e.State == schema.StateFailed {
				failed++
				e.Reason = &reason
			} else {
				queued++
				if err := out.Ingest(m); err != nil {
					return err
				}
			}
			return out.Event(e, m.Trace)
		}); err != nil {
			return err
		}
		if err := forgetWork(ctx, tx, ids); err != nil {
			return fmt.Errorf("forget the work on versions: %w", err)
		}
		return out.Write(ctx, tx)
	})
	return queued, failed, err
}

// oldestUnpublishedSQL reads the first row of each subject. With an equality and the order of the
// ids the planner might walk through the rows of other subjects.
const oldestUnpublishedSQL = `
SELECT s.subject, o.created_at
FROM unnest($1::text[]) AS s (subject), LATERAL (
    SELECT o.created_at FROM outbox o WHERE o.subject >= s.subject AND o.subject <= s.subject ORDER BY o.subject, o.id LIMIT 1
) o`

// Backlogs lists the tenants with versions that have been queued or processing since before a time,
// and returns when the oldest of these was queued.
func (s *CorpusStore) Backlogs(ctx context.Context, before time.Time) (tenants []batch.Backlog, oldest time.Time, err error) {
	err = s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tenants, oldest = nil, time.Time{}
		rows, err := tx.Query(ctx, `
			SELECT tenant_id, min(queued_at) FROM versions
			WHERE state IN ('queued', 'processing') AND queued_at < $1 GROUP BY tenant_id`, before)
		if err != nil {
			return fmt.Errorf("find tenants with unfinished versions: %w", err)
		}
		var tenant uuid.UUID
		var since time.Time
		if _, err := pgx.ForEachRow(rows, []any{&tenant, &since}, func() error {
			tenants = append(tenants, batch.Backlog{Tenant: tenant})
			if oldest.IsZero() || since.Before(oldest) {
				oldest = since
			}
			return nil
		}); err != nil || len(tenants) == 0 {
			return err
		}
		subjects := make([]string, len(tenants))
		index := make(map[string]int, len(tenants))
		for i, t := range tenants {
			subjects[i] = wire.IngestSubject(t.Tenant)
			index[subjects[i]] = i
		}
		rows, err = tx.Query(ctx, oldestUnpublishedSQL, subjects)
		if err != nil {
			return fmt.Errorf("find the oldest unpublished messages: %w", err)
		}
		var subject string
		var at time.Time
		_, err = pgx.ForEachRow(rows, []any{&subject, &at}, func() error {
			tenants[index[subject]].Outbox = at
			return nil
		})
		return err
	})
	return tenants, oldest, err
}

// SweepArtifacts deletes artifacts of versions that no worker will process: those written by an old
// attempt after the version ended. It also deletes the claims of relays that died.
func (s *CorpusStore) SweepArtifacts(ctx context.Context, olderThan time.Duration, limit int) error {
	return s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			DELETE FROM artifacts a WHERE (a.tenant_id, a.version_id, a.attempt, a.stage) IN (
			    SELECT a.tenant_id, a.version_id, a.attempt, a.stage FROM artifacts a
			    LEFT JOIN versions v ON v.tenant_id = a.tenant_id AND v.id = a.version_id
			    WHERE a.created_at < now() - $1::interval
			      AND (v.id IS NULL OR v.attempt <> a.attempt OR v.state NOT IN ('queued', 'processing'))
			    LIMIT $2)`, olderThan, limit)
		if err != nil {
			return err
		}
		// Claims of dead relays on subjects without messages since.
		_, err = tx.Exec(ctx, `DELETE FROM outbox_claims WHERE until < now() - $1::interval`, olderThan)
		return err
	})
}
