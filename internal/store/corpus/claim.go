package corpus

// This file keeps the leases of ingestion: which worker processes which version. The attempt is the
// fencing token: it rises whenever a version is queued, and nothing is done or written for an older
// one.

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// The statements of a batch find each row by its primary key, whatever the planner believes of the
// tables' sizes: they read rows in a LATERAL subquery with a LIMIT, which is run for each id, and
// change them by arrays, in which array_position finds a row's values. Joins would be planned as
// comparisons of all of a tenant's rows, or of all of the batch's, with each other.
const claimSQL = `
WITH wanted AS MATERIALIZED (
    SELECT v.*, d.external_id, CASE WHEN d.gone THEN 'cancelled' ELSE 'processing' END AS state
    FROM (SELECT * FROM unnest($1::uuid[], $2::int[]) AS w(id, attempt) ORDER BY id) w
    CROSS JOIN LATERAL (
        SELECT tenant_id, id, attempt, document_id, collection_id, trace FROM versions
        WHERE id = w.id AND attempt = w.attempt AND (state = 'queued') IS TRUE LIMIT 1 FOR UPDATE) v
    CROSS JOIN LATERAL (
        SELECT external_id, deleted_at IS NOT NULL OR EXISTS (
            SELECT FROM collections c WHERE c.tenant_id = v.tenant_id AND c.id = v.collection_id AND c.deleted_at IS NOT NULL) AS gone
        FROM documents WHERE id = v.document_id LIMIT 1) d
), moved AS (
    UPDATE versions
    SET (state, finished_at) = (
        SELECT CASE WHEN gone THEN 'cancelled' ELSE 'processing' END, CASE WHEN gone THEN now() END
        FROM (SELECT id = ANY (ARRAY(SELECT id FROM wanted WHERE state = 'cancelled')) AS gone) g)
    WHERE id = ANY (ARRAY(SELECT id FROM wanted))
), leased AS (
    INSERT INTO leases (tenant_id, subject_id, kind, attempt, holder, expires_at)
    SELECT tenant_id, id, 'version', attempt, $3, now() + $4 FROM wanted WHERE state = 'processing'
    ON CONFLICT (tenant_id, subject_id) DO UPDATE
    SET attempt = excluded.attempt, holder = excluded.holder, expires_at = excluded.expires_at
)
SELECT id, attempt, document_id, collection_id, external_id, state, coalesce(trace, '') FROM wanted ORDER BY id`

// asyncCommitSQL lets a transaction commit without waiting for the disk: claims, leases and notes
// that a crash of the database undoes are detected and repeated. Plans are made once, as for
// bulkSQL, because planning these statements takes longer than running them.
const asyncCommitSQL = `
SELECT ` + notFlushedSQL + `, ` + store.OnePlanSQL

// ClaimVersions claims queued versions for processing under a lease, and returns those that it got:
// the others run under another attempt, have ended, or were deleted, and need no work.
func (s *CorpusStore) ClaimVersions(ctx context.Context, tenant uuid.UUID, items []wire.Attempt, l batch.Lease) ([]wire.Attempt, error) {
	var claimed []wire.Attempt
	ids, attempts := split(items)
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		claimed = nil
		var events []change
		b := &pgx.Batch{}
		b.Queue(asyncCommitSQL)
		b.Queue(claimSQL, ids, attempts, l.Holder, l.TTL).Query(func(rows pgx.Rows) error {
			var c change
			_, err := pgx.ForEachRow(rows, []any{&c.Version, &c.attempt, &c.Document, &c.Collection, &c.ExternalID, &c.State, &c.trace}, func() error {
				if c.State == schema.StateProcessing {
					claimed = append(claimed, wire.Attempt{Version: c.Version, Attempt: c.attempt})
				}
				events = append(events, c)
				return nil
			})
			return err
		})
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		return insertChanges(ctx, tx, tenant, events)
	})
	return claimed, err
}

// ReleaseVersions returns claimed versions to the queue unprocessed, in the same attempt, so that
// their messages may be delivered again. It emits no event: nothing was done since the event that
// queued them, and the next claim emits one.
func (s *CorpusStore) ReleaseVersions(ctx context.Context, tenant uuid.UUID, items []wire.Attempt) error {
	ids, attempts := split(items)
	return s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `
			UPDATE versions v SET state = 'queued'
			FROM unnest($1::uuid[], $2::int[]) AS w(id, attempt)
			WHERE v.id = ANY ($1) AND v.id = w.id AND v.attempt = w.attempt AND (v.state = 'processing') IS TRUE`, ids, attempts); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			DELETE FROM leases l USING unnest($1::uuid[], $2::int[]) AS w(id, attempt)
			WHERE l.subject_id = w.id AND l.attempt = w.attempt AND l.kind = 'version'`, ids, attempts)
		return err
	})
}

// A lease that its holder took or extended just now is left as it is, because stages follow each
// other within moments.
const extendSQL = `
WITH current AS MATERIALIZED (
    SELECT l.subject_id, l.fresh FROM unnest($1::uuid[], $2::int[]) AS w(id, attempt)
    CROSS JOIN LATERAL (
        SELECT FROM versions WHERE id = w.id AND attempt = w.attempt AND (state = 'processing') IS TRUE LIMIT 1) v
    CROSS JOIN LATERAL (
        SELECT subject_id, holder = $3 AND expires_at > now() + $4::interval * 0.875 AS fresh
        FROM leases WHERE subject_id = w.id AND attempt = w.attempt AND kind = 'version' LIMIT 1) l
), extended AS (
    UPDATE leases SET holder = $3, expires_at = now() + $4::interval
    WHERE subject_id = ANY (ARRAY(SELECT subject_id FROM current WHERE NOT fresh))
      AND attempt = ($2::int[])[array_position($1::uuid[], subject_id)] AND kind = 'version'
    RETURNING subject_id
)
SELECT subject_id FROM current WHERE fresh UNION ALL SELECT subject_id FROM extended`

// ExtendLeases takes over and extends the leases of the attempts that are still
// current, and returns their versions.
func (s *CorpusStore) ExtendLeases(ctx context.Context, tenant uuid.UUID, items []wire.Attempt, l batch.Lease) ([]uuid.UUID, error) {
	var current []uuid.UUID
	ids, attempts := split(items)
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(asyncCommitSQL)
		b.Queue(extendSQL, ids, attempts, l.Holder, l.TTL).Query(func(rows pgx.Rows) (err error) {
			current, err = store.IDs(rows, nil)
			return err
		})
		return tx.SendBatch(ctx, b).Close()
	})
	return current, err
}

// FailVersions marks versions as failed with their reasons, unless another attempt owns them by
// now.
func (s *CorpusStore) FailVersions(ctx context.Context, tenant uuid.UUID, failures []batch.Failure) error {
	return s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		return failVersions(ctx, tx, tenant, failures)
	})
}

const failVersionsSQL = `
WITH locked AS (
    SELECT v.id, w.code, w.message FROM versions v
    JOIN unnest($1::uuid[], $2::int[], $3::text[], $4::text[]) AS w(id, attempt, code, message)
    ON v.id = w.id AND v.attempt = w.attempt
    WHERE v.id = ANY ($1) AND (v.state = 'processing') IS TRUE
    ORDER BY v.id FOR UPDATE OF v
)
UPDATE versions v
SET state = 'failed', reason_code = w.code, reason = w.message, finished_at = now()
FROM locked w, documents d
WHERE v.id = w.id AND d.id = v.document_id
RETURNING v.id, v.document_id, v.collection_id, d.external_id, coalesce(v.trace, '')`

func failVersions(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, failures []batch.Failure) error {
	items := make([]wire.Attempt, len(failures))
	codes, messages := make([]string, len(failures)), make([]string, len(failures))
	reasons := make(map[uuid.UUID]*schema.Reason, len(failures))
	for i, f := range failures {
		items[i], codes[i], messages[i] = f.Attempt, f.Reason.Code, f.Reason.Message
		reasons[f.Version] = &failures[i].Reason
	}
	ids, attempts := split(items)
	rows, err := tx.Query(ctx, failVersionsSQL, ids, attempts, codes, messages)
	if err != nil {
		return err
	}
	var events []change
	c := change{Event: wire.Event{State: schema.StateFailed}}
	_, err = pgx.ForEachRow(rows, []any{&c.Version, &c.Document, &c.Collection, &c.ExternalID, &c.trace}, func() error {
		c.Reason = reasons[c.Version]
		events = append(events, c)
		return nil
	})
	if err != nil || len(events) == 0 {
		return err
	}
	if err := forgetWork(ctx, tx, versionsOf(events)); err != nil {
		return err
	}
	return insertChanges(ctx, tx, tenant, events)
}

// forgetWork removes the leases and artifacts of versions whose processing has ended.
func forgetWork(ctx context.Context, tx pgx.Tx, versions []uuid.UUID) error {
	b := &pgx.Batch{}
	queueForgetWork(b, versions)
	return tx.SendBatch(ctx, b).Close()
}

func queueForgetWork(b *pgx.Batch, versions []uuid.UUID) {
	b.Queue(`DELETE FROM leases WHERE subject_id = ANY($1) AND kind = 'version'`, versions)
	b.Queue(`DELETE FROM artifacts WHERE version_id = ANY($1)`, versions)
}

// change is a change of a version's state that becomes an event.
type change struct {
	wire.Event
	attempt int
	trace   string
}

func versionsOf(changes []change) []uuid.UUID {
	out := make([]uuid.UUID, len(changes))
	for i, c := range changes {
		out[i] = c.Version
	}
	return out
}

// insertChanges writes one message per change to the outbox, in the transaction that makes the
// changes.
func insertChanges(ctx context.Context, tx pgx.Tx, tenant uuid.UUID, changes []change) error {
	out, err := changeRows(tenant, changes)
	if err != nil {
		return err
	}
	return out.Write(ctx, tx)
}

// changeRows returns the outbox messages that announce changes.
func changeRows(tenant uuid.UUID, changes []change) (out store.Outbox, err error) {
	for _, c := range changes {
		c.Tenant, c.Kind = tenant, "version."+string(c.State)
		if err := out.Event(c.Event, c.trace); err != nil {
			return out, err
		}
	}
	return out, nil
}

func split(items []wire.Attempt) (ids []uuid.UUID, attempts []int) {
	ids, attempts = make([]uuid.UUID, len(items)), make([]int, len(items))
	for i, a := range items {
		ids[i], attempts[i] = a.Version, a.Attempt
	}
	return ids, attempts
}
