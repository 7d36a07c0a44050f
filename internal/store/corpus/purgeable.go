package corpus

// This file finds what is to be purged. It runs every half minute whether or not anything happened,
// so its cost depends on what changed, not on what is stored.

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
)

const (
	// Cancelled versions, superseded ones after some time, and failed ones that a newer live
	// version has made pointless to retry. Versions that another process is purging are locked, and
	// are skipped.
	purgeableSQL = retiredSQL + `
    SELECT tenant_id, id, passage_count, finished_at AS since FROM versions f
    WHERE state = 'failed' AND purged_at IS NULL AND EXISTS (` + newerReadySQL + `)
    ORDER BY finished_at LIMIT $1 FOR UPDATE SKIP LOCKED` + purgeableOrderSQL

	// Of the failed versions, only those that failed or became pointless to retry since $3: a
	// document that failed and was never repaired stays for years. Limits make each join a lookup
	// by primary key, whatever the statistics say.
	purgeableSinceSQL = retiredSQL + `
    SELECT v.* FROM (
        SELECT f.tenant_id, f.id FROM versions f
        WHERE f.state = 'failed' AND f.purged_at IS NULL AND f.finished_at >= $3 AND (` + newerReadySQL + ` LIMIT 1) IS NOT NULL
        UNION
        SELECT f.tenant_id, f.id FROM versions n CROSS JOIN LATERAL (
            SELECT tenant_id, id, state, purged_at FROM versions o
            WHERE o.tenant_id = n.tenant_id AND o.document_id = n.document_id AND o.number < n.number
            ORDER BY o.number DESC LIMIT 1000) f
        WHERE n.state = 'ready' AND n.finished_at >= $3 AND n.number > 1 AND f.state = 'failed' AND f.purged_at IS NULL
        LIMIT $1) k CROSS JOIN LATERAL (
        SELECT tenant_id, id, passage_count, finished_at AS since FROM versions o
        WHERE o.tenant_id = k.tenant_id AND o.id = k.id AND o.state = 'failed' AND o.purged_at IS NULL
        LIMIT 1 FOR UPDATE SKIP LOCKED) v` + purgeableOrderSQL

	retiredSQL = `
WITH retired AS (
    SELECT tenant_id, id, passage_count, retired_at AS since FROM versions
    WHERE state IN ('superseded', 'cancelled') AND purged_at IS NULL AND (state = 'cancelled' OR retired_at < now() - $2::interval)
    ORDER BY retired_at LIMIT $1 FOR UPDATE SKIP LOCKED
), failed AS (`
	newerReadySQL = `
        SELECT 1 FROM versions n
        WHERE n.tenant_id = f.tenant_id AND n.document_id = f.document_id AND n.number > f.number AND n.state = 'ready'`
	purgeableOrderSQL = `
)
SELECT * FROM retired UNION ALL SELECT * FROM failed ORDER BY since LIMIT $1`

	// The age is checked twice, because only the outer condition is checked again after a wait for
	// a request that claims an expired key.
	purgeRepeatsSQL = `
DELETE FROM idempotency WHERE created_at < now() - $1::interval AND (tenant_id, key) IN (
    SELECT tenant_id, key FROM idempotency WHERE created_at < now() - $1::interval ORDER BY created_at LIMIT $2)`

	maxPurgedPassages = 20_000 // of one transaction, unless a single version has more

	// allFailedEvery is how often all failed versions are checked, to find those whose change was
	// missed.
	allFailedEvery = time.Hour
	// lateCommit bounds how long before a check a change may have begun without the check seeing
	// it.
	lateCommit = time.Minute
)

// purgeable is the result of one check.
type purgeable struct {
	replies  int // removed at once
	tenants  []uuid.UUID
	versions map[uuid.UUID][]uuid.UUID // by tenant
	all      bool                      // no version was left out
	check    failedCheck
}

// failedChecks remembers when failed versions were last checked.
type failedChecks struct {
	mu   sync.Mutex
	last failedCheck
}

// failedCheck is one check of failed versions.
type failedCheck struct {
	began time.Time // by the database's clock
	whole time.Time // when all of them were last checked; zero: never
}

// next reports whether the next check reads all failed versions, and otherwise since when changes
// are considered.
func (f *failedChecks) next(now time.Time) (check failedCheck, since time.Time, whole bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last.whole.IsZero() || now.Sub(f.last.whole) >= allFailedEvery {
		return failedCheck{began: now, whole: now}, time.Time{}, true
	}
	return failedCheck{began: now, whole: f.last.whole}, f.last.began.Add(-lateCommit), false
}

// record records that everything that a check found was purged.
func (f *failedChecks) record(check failedCheck) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if check.began.After(f.last.began) {
		f.last = check
	}
}

// findPurgeable finds up to limit versions to purge, and removes up to limit expired idempotency
// replies.
func (s *CorpusStore) findPurgeable(ctx context.Context, limit int) (out purgeable, err error) {
	err = s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		out = purgeable{versions: map[uuid.UUID][]uuid.UUID{}}
		tag, err := tx.Exec(ctx, purgeRepeatsSQL, store.KeepReplies, limit)
		if err != nil {
			return fmt.Errorf("purge replies: %w", err)
		}
		out.replies = int(tag.RowsAffected())
		var now time.Time
		if err := tx.QueryRow(ctx, `SELECT now()`).Scan(&now); err != nil {
			return err
		}
		sql, args := purgeableSQL, []any{limit, max(s.db.Options().KeepSuperseded, 0)}
		check, since, whole := s.failed.next(now)
		if out.check = check; !whole {
			sql, args = purgeableSinceSQL, append(args, since)
		}
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		var tenant, version uuid.UUID
		var passages, total, taken, found int
		_, err = pgx.ForEachRow(rows, []any{&tenant, &version, &passages, nil}, func() error {
			found++
			if total += passages; total > maxPurgedPassages && taken > 0 {
				return nil
			}
			taken++
			if out.versions[tenant] == nil {
				out.tenants = append(out.tenants, tenant)
			}
			out.versions[tenant] = append(out.versions[tenant], version)
			return nil
		})
		out.all = taken == found && found < limit
		return err
	})
	return out, err
}
