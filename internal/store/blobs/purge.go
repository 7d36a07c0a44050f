package blobs

// This file deletes objects that no row names any more. The transaction that deletes the row adds
// the object to the list of loose objects; deletion of those is retried until it succeeds.

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	dueLooseSQL = `SELECT tenant_id, object FROM loose_objects WHERE due_at <= now() ORDER BY due_at LIMIT $1`
	// An object is doomed before it is deleted: no row can name it from then on. It is due again
	// soon, in case this process ends in between.
	doomLooseSQL = `
UPDATE loose_objects SET doomed = true, due_at = now() + interval '1 minute'
WHERE tenant_id = $1 AND object = ANY ($2) AND due_at <= now() RETURNING object, sha256`
	// A running backup may still have to copy the objects.
	noBackupSQL    = `SELECT pg_try_advisory_xact_lock_shared($1)`
	forgetLooseSQL = `DELETE FROM loose_objects WHERE tenant_id = $1 AND object = ANY ($2)`
)

// PurgeObjects deletes up to limit objects that no row names, and returns how many it deleted.
// Several processes may call it at once.
func (s *BlobStore) PurgeObjects(ctx context.Context, limit int) (int, error) {
	if s.objects == nil {
		return 0, nil
	}
	due := map[uuid.UUID][]uuid.UUID{}
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		clear(due)
		rows, err := tx.Query(ctx, dueLooseSQL, limit)
		if err != nil {
			return err
		}
		var tenant, object uuid.UUID
		_, err = pgx.ForEachRow(rows, []any{&tenant, &object}, func() error {
			due[tenant] = append(due[tenant], object)
			return nil
		})
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("find objects to delete: %w", err)
	}
	done := 0
	var problems []error
	for tenant, ids := range due {
		n, err := s.purgeObjects(ctx, tenant, ids)
		if done += n; err != nil {
			problems = append(problems, fmt.Errorf("delete objects of tenant %s: %w", tenant, err))
		}
	}
	return done, errors.Join(problems...)
}

func (s *BlobStore) purgeObjects(ctx context.Context, tenant uuid.UUID, ids []uuid.UUID) (int, error) {
	var doomed []store.Object
	err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		doomed = nil
		var may bool
		if err := tx.QueryRow(ctx, noBackupSQL, store.ObjectsLock).Scan(&may); err != nil || !may {
			return err
		}
		rows, err := tx.Query(ctx, doomLooseSQL, tenant, ids)
		if err != nil {
			return err
		}
		doomed, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Object, error) {
			o := store.Object{Tenant: tenant}
			err := row.Scan(&o.ID, &o.SHA256)
			return o, err
		})
		return err
	})
	if err != nil {
		return 0, err
	}
	var deleted []uuid.UUID
	var problems []error
	for _, o := range doomed {
		if err := s.objects.Delete(ctx, o); err != nil {
			problems = append(problems, err)
			if errors.Is(err, schema.ErrUnavailable) || ctx.Err() != nil {
				break // the others would fail the same way
			}
			continue
		}
		deleted = append(deleted, o.ID)
	}
	if len(deleted) > 0 {
		err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, forgetLooseSQL, tenant, deleted)
			return err
		})
	}
	return len(deleted), errors.Join(append(problems, err)...)
}
