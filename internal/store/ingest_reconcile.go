package store

// This file queues again what no one works on any more. That, and no
// acknowledgement, is what guarantees that every version comes to an end.

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// expiredSQL finds versions whose lease ran out, or whose holder is dead: its
// session's advisory lock is gone, and it has not extended the lease for a while.
const expiredSQL = `
WITH dead AS MATERIALIZED (
    SELECT holder FROM (SELECT DISTINCT holder FROM leases WHERE kind = 'version') h
    WHERE NOT EXISTS (
        SELECT FROM pg_locks l
        WHERE l.locktype = 'advisory' AND l.classid = $3::int::oid AND l.objsubid = 2 AND l.granted
          AND l.objid = (hashtext(h.holder)::bigint & 4294967295)::oid
          AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))
)
SELECT v.tenant_id, v.id
FROM leases l JOIN versions v ON v.tenant_id = l.tenant_id AND v.id = l.subject_id
WHERE l.kind = 'version' AND v.state = 'processing'
  AND (l.expires_at < now() OR l.expires_at < now() + $2 AND l.holder IN (SELECT holder FROM dead))
ORDER BY v.id LIMIT $1
FOR UPDATE OF v SKIP LOCKED`

// RequeueExpired queues at most limit versions whose lease has ended: ttl is the
// length of a lease, grace how long a dead holder's lease stays valid after it
// was last extended. It returns how many were queued.
func (s *Store) RequeueExpired(ctx context.Context, ttl, grace time.Duration, limit int) (int, error) {
	return s.requeue(ctx, expiredSQL, limit, max(ttl-grace, 0), presenceClass)
}

// RequeueStranded queues at most limit versions of a tenant that were queued
// before a time and that no one holds: their message is gone, or their lease.
func (s *Store) RequeueStranded(ctx context.Context, tenant uuid.UUID, before time.Time, limit int) (int, error) {
	return s.requeue(ctx, `
		SELECT v.tenant_id, v.id FROM versions v
		WHERE v.tenant_id = $2 AND v.state IN ('queued', 'processing') AND v.queued_at < $3
		  AND NOT EXISTS (SELECT FROM leases l WHERE l.tenant_id = v.tenant_id AND l.subject_id = v.id)
		ORDER BY v.id LIMIT $1
		FOR UPDATE SKIP LOCKED`, limit, tenant, before)
}

// requeue raises the attempt of the versions that query finds, and queues them
// in the same transaction.
func (s *Store) requeue(ctx context.Context, query string, args ...any) (int, error) {
	var n int
	err := s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		n = 0
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return fmt.Errorf("find versions that no one works on: %w", err)
		}
		var tenants, ids []uuid.UUID
		var tenant, id uuid.UUID
		if _, err := pgx.ForEachRow(rows, []any{&tenant, &id}, func() error {
			tenants, ids = append(tenants, tenant), append(ids, id)
			return nil
		}); err != nil || len(ids) == 0 {
			return err
		}
		rows, err = tx.Query(ctx, `
			UPDATE versions v SET attempt = attempt + 1, state = 'queued', queued_at = now()
			FROM unnest($1::uuid[], $2::uuid[]) AS w(tenant, id)
			WHERE v.tenant_id = w.tenant AND v.id = w.id
			RETURNING v.tenant_id, v.collection_id, v.document_id, v.id, v.attempt, v.bytes, coalesce(v.trace, '')`, tenants, ids)
		if err != nil {
			return fmt.Errorf("queue versions again: %w", err)
		}
		out := outboxRows{}
		var m wire.IngestMessage
		if _, err := pgx.ForEachRow(rows, []any{&m.Tenant, &m.Collection, &m.Document, &m.Version, &m.Attempt, &m.Bytes, &m.Trace}, func() error {
			m.Envelope = wire.Header()
			n++
			return out.addQueued(m)
		}); err != nil {
			return err
		}
		for _, table := range []string{
			`DELETE FROM leases t USING unnest($1::uuid[], $2::uuid[]) AS w(tenant, id) WHERE t.tenant_id = w.tenant AND t.subject_id = w.id`,
			`DELETE FROM artifacts t USING unnest($1::uuid[], $2::uuid[]) AS w(tenant, id) WHERE t.tenant_id = w.tenant AND t.version_id = w.id`,
		} {
			if _, err := tx.Exec(ctx, table, tenants, ids); err != nil {
				return fmt.Errorf("forget the work on versions: %w", err)
			}
		}
		return out.insert(ctx, tx)
	})
	return n, err
}

// addQueued adds what queues a version: its message and its event.
func (o *outboxRows) addQueued(m wire.IngestMessage) error {
	if err := o.add(m.Tenant, wire.IngestSubject(m.Tenant), wire.IngestMessageID(m.Version, m.Attempt), m, m.Trace); err != nil {
		return err
	}
	e := wire.Event{
		Envelope: wire.Header(), ID: schema.NewID(), Kind: "version." + string(schema.StateQueued), State: schema.StateQueued,
		Tenant: m.Tenant, Collection: m.Collection, Document: m.Document, Version: m.Version, At: time.Now().UTC(),
	}
	return o.add(m.Tenant, wire.EventSubject(m.Tenant, e.Kind), e.ID.String(), e, m.Trace)
}

// Backlogs lists the tenants that have versions queued or processing since
// before a time, and the age of the oldest such version.
func (s *Store) Backlogs(ctx context.Context, before time.Time) (tenants []batch.Backlog, oldest time.Time, err error) {
	err = s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
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
		rows, err = tx.Query(ctx, `
			SELECT s.subject, o.created_at
			FROM unnest($1::text[]) AS s(subject),
			     LATERAL (SELECT created_at FROM outbox WHERE outbox.subject = s.subject ORDER BY id LIMIT 1) o`, subjects)
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

// SweepArtifacts deletes artifacts of versions that no one will work on: those
// left behind when the work of an old attempt ended after the version did.
func (s *Store) SweepArtifacts(ctx context.Context, olderThan time.Duration, limit int) error {
	return s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			DELETE FROM artifacts a WHERE (a.tenant_id, a.version_id, a.attempt, a.stage) IN (
			    SELECT a.tenant_id, a.version_id, a.attempt, a.stage FROM artifacts a
			    LEFT JOIN versions v ON v.tenant_id = a.tenant_id AND v.id = a.version_id
			    WHERE a.created_at < now() - $1::interval
			      AND (v.id IS NULL OR v.attempt <> a.attempt OR v.state NOT IN ('queued', 'processing'))
			    LIMIT $2)`, olderThan, limit)
		return err
	})
}
