package documents

// This file empties deleted collections in the background, some documents per transaction, so that
// it can be interrupted.

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/corpus"
)

const (
	toEmptySQL = `
SELECT tenant_id, id FROM collections WHERE deleted_at IS NOT NULL AND emptied_at IS NULL ORDER BY deleted_at LIMIT $1`
	lockToEmptySQL = `
SELECT id FROM documents WHERE tenant_id = $1 AND collection_id = $2 AND deleted_at IS NULL ORDER BY id LIMIT $3 FOR UPDATE`
	emptiedSQL = `UPDATE collections SET emptied_at = now() WHERE tenant_id = $1 AND id = $2`

	// emptyBatch bounds the collections that one call processes, each by one step.
	emptyBatch = 20
)

// EmptyCollections processes some deleted collections: it hides up to limit documents of each, and
// removes the other data of a collection without documents. It returns the number of steps it took,
// 0 when nothing is left to do. Several processes may call it at once.
func (s *DocumentStore) EmptyCollections(ctx context.Context, limit int) (int, error) {
	type deleted struct{ Tenant, ID uuid.UUID }
	var list []deleted
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, toEmptySQL, emptyBatch)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[deleted])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("find deleted collections: %w", err)
	}
	var problems []error
	steps := 0
	for _, c := range list {
		if err := s.empty(ctx, c.Tenant, c.ID, limit); err != nil {
			problems = append(problems, fmt.Errorf("empty collection %s of tenant %s: %w", c.ID, c.Tenant, err))
			continue
		}
		steps++
	}
	return steps, errors.Join(problems...)
}

// empty takes one step for one collection.
func (s *DocumentStore) empty(ctx context.Context, tenant, collection uuid.UUID, limit int) error {
	// The index first: deleted documents need not be marked in it then.
	_, more, err := corpus.New(s.db).PurgeCollection(ctx, tenant, collection, limit)
	if err != nil || more {
		return err
	}
	return s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		documents, err := store.IDs(tx.Query(ctx, lockToEmptySQL, tenant, collection, limit))
		if err != nil {
			return fmt.Errorf("lock documents: %w", err)
		}
		if len(documents) > 0 {
			return hideDocuments(ctx, tx, tenant, documents)
		}
		for _, sql := range []string{forgetKnownSQL, forgetTaughtSQL, forgetImportedSQL, forgetLabelsSQL, forgetPreferencesSQL, emptiedSQL} {
			if _, err := tx.Exec(ctx, sql, tenant, collection); err != nil {
				return fmt.Errorf("forget what is known of its questions: %w", err)
			}
		}
		return nil
	})
}
