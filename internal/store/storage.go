package store

// This file counts what a tenant has stored, for its quotas. Triggers on documents and blobs write
// changes as rows (migration 191), which readers add to the sums of earlier changes: the total is
// exact at any time, even while they are added up.

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	storedSQL = `
SELECT coalesce(c.counted_at IS NOT NULL, false), coalesce(c.documents, 0) + n.documents, coalesce(c.bytes, 0) + n.bytes
FROM (SELECT coalesce(sum(documents), 0)::bigint AS documents, coalesce(sum(bytes), 0)::bigint AS bytes FROM tenant_changes WHERE tenant_id = $1) n
LEFT JOIN tenant_counts c ON c.tenant_id = $1`

	// Both are read in one snapshot, so that any difference is an error of the counts.
	recountSQL = `
WITH stored AS (
    SELECT (SELECT coalesce(sum(n.documents), 0)::bigint FROM collections c CROSS JOIN LATERAL (
                SELECT count(*) AS documents FROM documents d WHERE d.tenant_id = $1 AND d.collection_id = c.id AND d.deleted_at IS NULL) n
            WHERE c.tenant_id = $1) AS documents,
           (SELECT coalesce(sum(bytes), 0)::bigint FROM blobs WHERE tenant_id = $1) AS bytes
), known (counted, documents, bytes) AS (` + storedSQL + `), wrong AS (
    SELECT s.documents - k.documents AS documents, s.bytes - k.bytes AS bytes FROM stored s, known k
), repaired AS (
    INSERT INTO tenant_counts AS c (tenant_id, documents, bytes, counted_at) SELECT $1, documents, bytes, now() FROM wrong
    ON CONFLICT (tenant_id) DO UPDATE
    SET documents = c.documents + excluded.documents, bytes = c.bytes + excluded.bytes, counted_at = excluded.counted_at
)
SELECT s.documents, s.bytes, k.counted AND (w.documents <> 0 OR w.bytes <> 0) FROM stored s, known k, wrong w`

	// Without the lock, two concurrent recounts would correct the same error twice.
	lockRecountSQL = `SELECT pg_advisory_xact_lock(hashtextextended('sluice recount ' || $1::text, 0))`

	// LockStoredSQL serializes transactions of a tenant that must know exactly what it has stored.
	LockStoredSQL = `SELECT pg_advisory_xact_lock(hashtextextended('sluice quota ' || $1::text, 0))`

	addUpStoredSQL = `
WITH next AS (
    SELECT tenant_id, id FROM tenant_changes ORDER BY tenant_id, id LIMIT $1 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM tenant_changes c USING next WHERE c.tenant_id = next.tenant_id AND c.id = next.id
    RETURNING c.tenant_id, c.documents, c.bytes
), added AS (
    INSERT INTO tenant_counts AS c (tenant_id, documents, bytes)
    SELECT tenant_id, sum(documents), sum(bytes) FROM gone GROUP BY tenant_id ORDER BY tenant_id
    ON CONFLICT (tenant_id) DO UPDATE SET documents = c.documents + excluded.documents, bytes = c.bytes + excluded.bytes
)
SELECT count(*) FROM gone`

	uncountedSQL = `
SELECT t.id FROM tenants t LEFT JOIN tenant_counts c ON c.tenant_id = t.id
WHERE c.counted_at IS NULL OR c.counted_at < now() - $1::interval
ORDER BY c.counted_at NULLS FIRST LIMIT $2`
)

// Stored returns how many documents and bytes a tenant has, without scanning them. counted is false
// for a tenant that was never counted in full: see Recount.
func Stored(ctx context.Context, tx pgx.Tx, tenant uuid.UUID) (documents, bytes int64, counted bool, err error) {
	if err := tx.QueryRow(ctx, storedSQL, tenant).Scan(&counted, &documents, &bytes); err != nil {
		return 0, 0, false, fmt.Errorf("read what the tenant has stored: %w", err)
	}
	return documents, bytes, counted, nil
}

// Recount counts a tenant's documents and bytes by scanning them, and corrects the stored counts.
// It blocks no transaction that changes them. wrong reports whether the counts were wrong.
func Recount(ctx context.Context, tx pgx.Tx, tenant uuid.UUID) (documents, bytes int64, wrong bool, err error) {
	if _, err := tx.Exec(ctx, lockRecountSQL, tenant); err != nil {
		return 0, 0, false, fmt.Errorf("lock the counts of what the tenant has stored: %w", err)
	}
	if err := tx.QueryRow(ctx, recountSQL, tenant).Scan(&documents, &bytes, &wrong); err != nil {
		return 0, 0, false, fmt.Errorf("count what the tenant has stored: %w", err)
	}
	return documents, bytes, wrong, nil
}

// AddUpStored adds all changes to the tenants' counts.
func (s *Store) AddUpStored(ctx context.Context) error {
	for n := addUpMost; n == addUpMost; {
		err := s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return tx.QueryRow(ctx, addUpStoredSQL, addUpMost).Scan(&n)
		})
		if err != nil {
			return Wrap(err, "add up what tenants have stored")
		}
	}
	return nil
}

// RecountStored recounts up to limit tenants that were not counted in full for longer than age, and
// returns how many of the counts were wrong.
func (s *Store) RecountStored(ctx context.Context, age time.Duration, limit int) (wrong int, err error) {
	var tenants []uuid.UUID
	err = s.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		tenants, err = IDs(tx.Query(ctx, uncountedSQL, age, limit))
		return err
	})
	if err != nil {
		return 0, Wrap(err, "find tenants to count")
	}
	for _, tenant := range tenants {
		var off bool
		err := s.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
			_, _, off, err = Recount(ctx, tx, tenant)
			return err
		})
		if err != nil {
			return wrong, Wrap(err, "count what tenant %s has stored", tenant)
		}
		if off {
			wrong++
			slog.WarnContext(ctx, "corrected a tenant's storage usage, which was counted wrong", "tenant", tenant)
		}
	}
	return wrong, nil
}
