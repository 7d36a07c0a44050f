package store

// This file is what all parts of the store need of a collection: whether it exists, and its counts.
// Triggers on versions write changes of the counts as rows (migration 82), which readers add to the
// sums of earlier changes: the total is right at any time, even while they are added up.

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/schema"
)

// addUpMost bounds the changes that one statement adds up: more than the versions that one call of
// curation takes, or the changes that it makes.
const addUpMost = 5000

// It skips the changes that another transaction is adding up.
const addUpSQL = `
WITH next AS (
    SELECT collection_id, id FROM collection_changes WHERE tenant_id = $1 AND collection_id = $2 ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM collection_changes c USING next
    WHERE c.tenant_id = $1 AND c.collection_id = next.collection_id AND c.id = next.id
    RETURNING c.state, c.documents, c.bytes, c.passages, c.uncurated, c.changed_at
), added AS (
    INSERT INTO collection_counts AS c (tenant_id, collection_id, state, documents, bytes, passages, uncurated, changed_at)
    SELECT $1, $2, state, sum(documents), sum(bytes), sum(passages), sum(uncurated), max(changed_at) FROM gone GROUP BY state ORDER BY state
    ON CONFLICT (collection_id, state, tenant_id) DO UPDATE
    SET documents = c.documents + excluded.documents, bytes = c.bytes + excluded.bytes, passages = c.passages + excluded.passages,
        uncurated = c.uncurated + excluded.uncurated, changed_at = greatest(c.changed_at, excluded.changed_at)
)
SELECT count(*) FROM gone`

// AddUpCounts adds all changes of a collection to its counts.
func (s *Store) AddUpCounts(ctx context.Context, tenant, collection uuid.UUID) error {
	for {
		if more, err := s.AddUpSomeCounts(ctx, tenant, collection); err != nil || !more {
			return err
		}
	}
}

// AddUpSomeCounts adds some changes of a collection to its counts, and reports whether there may be
// more.
func (s *Store) AddUpSomeCounts(ctx context.Context, tenant, collection uuid.UUID) (more bool, err error) {
	n := 0
	err = s.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, addUpSQL, tenant, collection, addUpMost).Scan(&n)
	})
	return n == addUpMost, Wrap(err, "add up what changed in collection %s", collection)
}

const livePassagesSQL = `
SELECT coalesce((SELECT sum(passages) FROM collection_counts WHERE tenant_id = $1 AND collection_id = $2), 0)
     + coalesce((SELECT sum(c.passages) FROM (
           SELECT passages FROM collection_changes WHERE tenant_id = $1 AND collection_id = $2 ORDER BY id DESC LIMIT $3) c), 0)`

// LivePassages returns about how many live passages a collection has: the sum of earlier changes,
// and the newest changes, which are all there are where curation keeps up.
func LivePassages(ctx context.Context, tx pgx.Tx, tenant, collection uuid.UUID) (n int64, err error) {
	err = tx.QueryRow(ctx, livePassagesSQL, tenant, collection, addUpMost).Scan(&n)
	return max(n, 0), Wrap(err, "read how many passages collection %s has", collection)
}

const collectionExistsSQL = `SELECT EXISTS (SELECT 1 FROM collections WHERE tenant_id = $1 AND id = $2 AND deleted_at IS NULL)`

// CollectionExists returns schema.ErrNotFound when the tenant has no such collection.
func CollectionExists(ctx context.Context, tx pgx.Tx, tenant, collection uuid.UUID) error {
	var exists bool
	if err := tx.QueryRow(ctx, collectionExistsSQL, tenant, collection).Scan(&exists); err != nil {
		return err
	}
	if !exists {
		return fmt.Errorf("no collection %s: %w", collection, schema.ErrNotFound)
	}
	return nil
}
