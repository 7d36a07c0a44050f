package sources

// This file is what workers read and write of a source. Each write locks the source and checks its
// attempt: a worker that lost the source writes nothing.

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/source/follow"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/access"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

var _ follow.Store = (*SourceStore)(nil)

// maxKeptRuns bounds the runs that are kept of a source.
const maxKeptRuns = 50

const dueSQL = `SELECT tenant_id, id FROM sources WHERE due_at <= now() ORDER BY due_at LIMIT $1`

// DueSources lists sources of all tenants that are due.
func (s *SourceStore) DueSources(ctx context.Context, limit int) ([]wire.SourceSync, error) {
	var out []wire.SourceSync
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, dueSQL, limit)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (in wire.SourceSync, err error) {
			err = row.Scan(&in.Tenant, &in.Source)
			return in, err
		})
		return err
	})
	return out, store.Wrap(err, "list sources that are due")
}

const (
	jobSQL = `
SELECT s.tenant_id, s.id, s.collection_id, s.name, s.driver, s.settings, s.secrets, s.include, s.exclude, s.labels, s.max_bytes, s.state, s.keep_documents,
       s.tries, coalesce(s.run_id, '00000000-0000-0000-0000-000000000000'), s.attempt, coalesce(r.phase, ''), coalesce(r.cursor, ''),
       a.source_id IS NOT NULL, coalesce(a.listed_run = s.run_id, false), coalesce(a.pushed, 0)
FROM sources s LEFT JOIN source_runs r ON r.tenant_id = s.tenant_id AND r.id = s.run_id
LEFT JOIN source_access a ON a.tenant_id = s.tenant_id AND a.source_id = s.id
WHERE s.tenant_id = $1 AND s.id = $2`
	// Waits for uploads of earlier attempts; those that come later fail.
	lockDueSQL = `
SELECT s.due_at <= now(), s.state, s.run_id, s.changes, c.deleted_at IS NOT NULL
FROM sources s JOIN collections c ON c.tenant_id = s.tenant_id AND c.id = s.collection_id
WHERE s.tenant_id = $1 AND s.id = $2 FOR UPDATE OF s`
	beginRunSQL = `
INSERT INTO source_runs (tenant_id, id, source_id, whole, cursor, before)
SELECT $1, $2, $3, $4 = '', $4, count(*) FROM source_items WHERE tenant_id = $1 AND source_id = $3 AND pending <> 'delete'`
	forgetRunsSQL = `
DELETE FROM source_runs WHERE tenant_id = $1 AND source_id = $2 AND id NOT IN (
    SELECT id FROM source_runs WHERE tenant_id = $1 AND source_id = $2 ORDER BY id DESC LIMIT $3)`
	forgetSkippedSQL = `DELETE FROM source_skipped WHERE tenant_id = $1 AND source_id = $2 AND run_id <> $3`
	acquireSQL       = `
UPDATE sources SET run_id = $3, attempt = attempt + 1, due_at = now() + $4::interval, state = CASE WHEN state = 'waiting' THEN 'running' ELSE state END
WHERE tenant_id = $1 AND id = $2`
)

func job(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID) (j follow.SourceJob, err error) {
	err = tx.QueryRow(ctx, jobSQL, tenant, id).Scan(&j.Tenant, &j.ID, &j.Collection, &j.Name, &j.Driver, &j.Settings, &j.Sealed, &j.Include, &j.Exclude, &j.Labels,
		&j.MaxBytes, &j.State, &j.KeepDocuments, &j.Tries, &j.Run, &j.Attempt, &j.Phase, &j.Cursor, &j.Permissions, &j.PrincipalsListed, &j.Pushed)
	return j, store.Named(err, "source", id)
}

// SourceJob implements follow.Store.
func (s *SourceStore) SourceJob(ctx context.Context, tenant, id uuid.UUID) (j follow.SourceJob, err error) {
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) (err error) {
		j, err = job(ctx, tx, tenant, id)
		return err
	})
	return j, store.Wrap(err, "read source %s", id)
}

// AcquireSource implements follow.Store.
func (s *SourceStore) AcquireSource(ctx context.Context, tenant, id uuid.UUID, lease time.Duration) (j follow.SourceJob, err error) {
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		var due *bool
		var state schema.SourceState
		var run *uuid.UUID
		var changes string
		var collectionDeleted bool
		if err := tx.QueryRow(ctx, lockDueSQL, tenant, id).Scan(&due, &state, &run, &changes, &collectionDeleted); err != nil {
			return store.Named(err, "source", id)
		}
		if due == nil || !*due {
			return fmt.Errorf("source %s is not due: %w", id, schema.ErrLostLease)
		}
		if collectionDeleted && state != schema.SourceRemoving { // its documents are deleted with the collection
			return drop(ctx, tx, tenant, id)
		}
		if run == nil && state != schema.SourceRemoving {
			newRun := schema.NewID()
			run = &newRun
			if _, err := tx.Exec(ctx, beginRunSQL, tenant, newRun, id, changes); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, forgetRunsSQL, tenant, id, maxKeptRuns); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, forgetSkippedSQL, tenant, id, newRun); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, acquireSQL, tenant, id, run, lease); err != nil {
			return err
		}
		j, err = job(ctx, tx, tenant, id)
		return err
	})
	if err == nil && j.ID == uuid.Nil {
		err = fmt.Errorf("its collection is gone: %w", schema.ErrLostLease)
	}
	return j, store.Wrap(err, "take source %s", id)
}

// renewLeaseSQL locks the source for the worker that holds it, and extends its lease.
const renewLeaseSQL = `
UPDATE sources SET due_at = greatest(due_at, now() + $5::interval)
WHERE tenant_id = $1 AND id = $2 AND attempt = $3 AND run_id IS NOT DISTINCT FROM $4 AND due_at IS NOT NULL RETURNING true`

// lockSQL is renewLeaseSQL without extending the lease.
const lockSQL = `
SELECT true FROM sources WHERE tenant_id = $1 AND id = $2 AND attempt = $3 AND run_id IS NOT DISTINCT FROM $4 AND due_at IS NOT NULL FOR NO KEY UPDATE`

// runOf returns nil for a source without a run.
func runOf(in wire.SourceSync) *uuid.UUID {
	if in.Run == uuid.Nil {
		return nil
	}
	return &in.Run
}

func lostLeaseError(err error, in wire.SourceSync) error {
	if store.IsNoRows(err) {
		return fmt.Errorf("source %s is not attempt %d's any more: %w", in.Source, in.Attempt, schema.ErrLostLease)
	}
	return err
}

// RenewSource implements follow.Store.
func (s *SourceStore) RenewSource(ctx context.Context, in wire.SourceSync, lease time.Duration) (j follow.SourceJob, err error) {
	err = s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		var ok bool
		if err := tx.QueryRow(ctx, renewLeaseSQL, in.Tenant, in.Source, in.Attempt, runOf(in), lease).Scan(&ok); err != nil {
			return lostLeaseError(err, in)
		}
		j, err = job(ctx, tx, in.Tenant, in.Source)
		return err
	})
	return j, store.Wrap(err, "hold source %s", in.Source)
}

// withLock runs write in a transaction that locks the source.
func (s *SourceStore) withLock(ctx context.Context, in wire.SourceSync, doing string, write func(ctx context.Context, tx pgx.Tx) error) error {
	return store.Wrap(s.db.AsTenant(ctx, in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		var ok bool
		if err := tx.QueryRow(ctx, lockSQL, in.Tenant, in.Source, in.Attempt, runOf(in)).Scan(&ok); err != nil {
			return lostLeaseError(err, in)
		}
		return write(ctx, tx)
	}), "%s of source %s", doing, in.Source)
}

// DelaySource implements follow.Store.
func (s *SourceStore) DelaySource(ctx context.Context, in wire.SourceSync, state schema.SourceState, problem string, after time.Duration) error {
	return s.withLock(ctx, in, "note a failure", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE sources SET state = $3, problem = $4, problem_at = coalesce(problem_at, now()), tries = tries + 1, due_at = now() + $5::interval, attempt = attempt + 1
			WHERE tenant_id = $1 AND id = $2`, in.Tenant, in.Source, string(state), problem, after)
		return err
	})
}

// StopSource implements follow.Store.
func (s *SourceStore) StopSource(ctx context.Context, in wire.SourceSync, state schema.SourceState, problem string) error {
	return s.withLock(ctx, in, "stop a run", func(ctx context.Context, tx pgx.Tx) error {
		if err := endRun(ctx, tx, in.Tenant, in.Source, string(state), problem); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE sources SET state = $3, problem = $4, problem_at = now(), due_at = NULL WHERE tenant_id = $1 AND id = $2`,
			in.Tenant, in.Source, string(state), problem)
		return err
	})
}

// recoveredSQL records that the remote system answers.
const recoveredSQL = `
UPDATE sources SET state = 'running', problem = '', problem_at = NULL, tries = 0
WHERE tenant_id = $1 AND id = $2 AND (tries > 0 OR state <> 'running') AND state <> 'removing'`

// RestartListing implements follow.Store.
func (s *SourceStore) RestartListing(ctx context.Context, in wire.SourceSync) error {
	return s.withLock(ctx, in, "begin the listing anew", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE source_runs SET cursor = '', whole = true, phase = 'list' WHERE tenant_id = $1 AND id = $2`, in.Tenant, in.Run)
		return err
	})
}

const (
	unseenSQL        = `SELECT count(*) FROM source_items WHERE tenant_id = $1 AND source_id = $2 AND run_id <> $3 AND pending <> 'delete'`
	listingCountsSQL = `
SELECT r.whole, r.before, r.seen, s.max_shorter FROM source_runs r JOIN sources s ON s.tenant_id = r.tenant_id AND s.id = r.source_id
WHERE r.tenant_id = $1 AND r.id = $2`
)

// EndListing implements follow.Store.
func (s *SourceStore) EndListing(ctx context.Context, in wire.SourceSync) (next string, err error) {
	err = s.withLock(ctx, in, "end the listing", func(ctx context.Context, tx pgx.Tx) error {
		next = ""
		var whole bool
		var before, seen, unseen, maxShorter int64
		if err := tx.QueryRow(ctx, listingCountsSQL, in.Tenant, in.Run).Scan(&whole, &before, &seen, &maxShorter); err != nil {
			return err
		}
		if whole {
			if err := tx.QueryRow(ctx, unseenSQL, in.Tenant, in.Source, in.Run).Scan(&unseen); err != nil {
				return err
			}
		}
		switch {
		case unseen == 0:
			ended, err := finish(ctx, tx, in, whole)
			if !ended {
				next = wire.ActivitySourceFollow
			}
			return err
		case maxShorter < 100 && (before-seen)*100 >= maxShorter*before:
			_, err := tx.Exec(ctx, `
				UPDATE sources SET state = 'asking', problem = $3, problem_at = now(), due_at = NULL, tries = 0, attempt = attempt + 1
				WHERE tenant_id = $1 AND id = $2`, in.Tenant, in.Source,
				fmt.Sprintf("the source lists %d items, where there were %d before: %d would be deleted here, too. "+
					"Confirm this if they are really gone, or run the source again to list once more", seen, before, unseen))
			return err
		}
		next = wire.ActivitySourceDelete
		return deleteUnseen(ctx, tx, in.Tenant, in.Source, in.Run)
	})
	return next, err
}

// deleteUnseen marks the items that a run did not see for deletion.
func deleteUnseen(ctx context.Context, tx pgx.Tx, tenant, id, run uuid.UUID) error {
	if _, err := tx.Exec(ctx, `UPDATE source_items SET pending = 'delete' WHERE tenant_id = $1 AND source_id = $2 AND run_id <> $3`, tenant, id, run); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE source_runs SET phase = 'delete' WHERE tenant_id = $1 AND id = $2`, tenant, run)
	return err
}

const finishSQL = `
UPDATE sources SET run_id = NULL, state = 'waiting', problem = '', problem_at = NULL, tries = 0, attempt = attempt + 1,
       changes = (SELECT r.changes FROM source_runs r WHERE r.tenant_id = $1 AND r.id = $3),
       due_at = CASE WHEN every > 0 THEN now() + every * interval '1 minute' END
WHERE tenant_id = $1 AND id = $2`

// finish ends a run, unless documents wait for another label. After a complete listing it deletes
// the folders that the listing did not report. A push that is stored later finds the source
// waiting, and makes it due.
func finish(ctx context.Context, tx pgx.Tx, in wire.SourceSync, whole bool) (ended bool, err error) {
	if whole {
		if err := access.ForgetUnseen(ctx, tx, in.Tenant, in.Source, in.Run); err != nil {
			return false, err
		}
	}
	if stale, err := staleItems(ctx, tx, in.Tenant, in.Source, 1); err != nil || len(stale) > 0 {
		return false, err
	}
	if _, err := tx.Exec(ctx, finishSQL, in.Tenant, in.Source, in.Run); err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, endRunSQL, in.Tenant, in.Run, "done", "")
	return true, err
}

// FinishRun implements follow.Store.
func (s *SourceStore) FinishRun(ctx context.Context, in wire.SourceSync) (ended bool, err error) {
	err = s.withLock(ctx, in, "end the run", func(ctx context.Context, tx pgx.Tx) error {
		var whole bool
		if err := tx.QueryRow(ctx, `SELECT whole FROM source_runs WHERE tenant_id = $1 AND id = $2`, in.Tenant, in.Run).Scan(&whole); err != nil {
			return err
		}
		ended, err = finish(ctx, tx, in, whole)
		return err
	})
	return ended, err
}

// RemainingItems implements follow.Store.
func (s *SourceStore) RemainingItems(ctx context.Context, in wire.SourceSync, limit int) (out []follow.Item, err error) {
	err = s.withLock(ctx, in, "list the documents", func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT item, path, document_id FROM source_items WHERE tenant_id = $1 AND source_id = $2 ORDER BY item LIMIT $3`, in.Tenant, in.Source, limit)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (i follow.Item, err error) {
			err = row.Scan(&i.ID, &i.Path, &i.Document)
			return i, err
		})
		return err
	})
	return out, err
}

// ForgetItems implements follow.Store.
func (s *SourceStore) ForgetItems(ctx context.Context, in wire.SourceSync, items []string) error {
	return s.withLock(ctx, in, "forget items", func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM source_items WHERE tenant_id = $1 AND source_id = $2 AND item = ANY ($3)`, in.Tenant, in.Source, items)
		return err
	})
}

// DropSource implements follow.Store.
func (s *SourceStore) DropSource(ctx context.Context, in wire.SourceSync) error {
	return s.withLock(ctx, in, "remove what is left", func(ctx context.Context, tx pgx.Tx) error {
		return drop(ctx, tx, in.Tenant, in.Source)
	})
}

// drop removes a source and its permissions.
func drop(ctx context.Context, tx pgx.Tx, tenant, id uuid.UUID) error {
	if _, err := tx.Exec(ctx, `DELETE FROM sources WHERE tenant_id = $1 AND id = $2`, tenant, id); err != nil {
		return err
	}
	return access.Drop(ctx, tx, tenant, id)
}
