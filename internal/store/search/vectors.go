package search

// This file reads vectors for searches in memory.

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
	// Whether every live version with passages has an entry in the index.
	indexedGenerationSQL = `
SELECT c.generation, NOT EXISTS (
    SELECT FROM documents d
    CROSS JOIN LATERAL (SELECT id FROM versions WHERE tenant_id = $1 AND id = d.live_version_id AND (passage_count > 0) IS TRUE LIMIT 1) v
    WHERE d.tenant_id = $1 AND d.collection_id = $2 AND d.deleted_at IS NULL AND NOT EXISTS (
        SELECT FROM lexical_entries e
        WHERE e.tenant_id = $1 AND e.version_id = v.id AND e.generation = c.generation AND NOT e.dead OFFSET 0))
FROM collections c WHERE c.tenant_id = $1 AND c.id = $2 AND c.deleted_at IS NULL`

	segmentGenerationsSQL = `
SELECT count(*), coalesce(min(generation), 0), coalesce(max(generation), 0) FROM lexical_segments
WHERE tenant_id = $1 AND collection_id = $2 AND id = ANY ($3)`

	// Whether some versions still wait for the second encoder: their vectors are zero, and are
	// replaced without a new segment.
	someUnencodedSQL = `SELECT EXISTS (SELECT FROM versions WHERE tenant_id = $1 AND id = ANY ($2) AND unencoded)`

	// The vectors of versions, in the order of their passages.
	versionVectorsSQL = `
SELECT w.id, p.id, v.embedding
FROM unnest($2::uuid[]) AS w(id)
CROSS JOIN LATERAL (SELECT id, ordinal FROM sections WHERE tenant_id = $1 AND version_id = w.id OFFSET 0) s
CROSS JOIN LATERAL (SELECT id, ordinal FROM passages WHERE tenant_id = $1 AND section_id = s.id AND generation = $3 OFFSET 0) p
CROSS JOIN LATERAL (
    SELECT embedding FROM %s WHERE tenant_id = $1 AND passage_id = p.id AND shard = ANY ($4::uuid[]) AND (space_id = $5) IS TRUE OFFSET 0) v
ORDER BY w.id, s.ordinal, p.ordinal`
)

// IndexedGeneration implements dense.VectorStore.
func (s *SearchStore) IndexedGeneration(ctx context.Context, tenant, collection uuid.UUID) (generation int, indexed bool, err error) {
	err = s.read(ctx, tenant, collection, func(ctx context.Context, tx pgx.Tx) error {
		err := tx.QueryRow(ctx, indexedGenerationSQL, tenant, collection).Scan(&generation, &indexed)
		if errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("collection %s: %w", collection, schema.ErrNotFound)
		}
		return err
	})
	return generation, indexed, err
}

// ReadVectors implements dense.VectorStore.
func (s *SearchStore) ReadVectors(ctx context.Context, tenant, collection uuid.UUID, segments []uuid.UUID,
	wanted func(space string, generation, dimension int) []uuid.UUID,
	each func(version, passage uuid.UUID, vector []uint16)) (read bool, err error) {
	err = s.read(ctx, tenant, collection, func(ctx context.Context, tx pgx.Tx) error {
		read = false
		place, space, err := locateVectors(ctx, tx, tenant, collection)
		if err != nil {
			return err
		}
		var n, lowest, highest int
		if err := tx.QueryRow(ctx, segmentGenerationsSQL, tenant, collection, segments).Scan(&n, &lowest, &highest); err != nil {
			return fmt.Errorf("read the segments' generation: %w", err)
		}
		if place == nil || n != len(segments) || lowest != place.generation || highest != place.generation {
			return nil
		}
		versions := wanted(space, place.generation, place.dimension)
		if len(versions) == 0 {
			read = true
			return nil
		}
		var unencoded bool
		if err := tx.QueryRow(ctx, someUnencodedSQL, tenant, versions).Scan(&unencoded); err != nil {
			return fmt.Errorf("check that the versions are encoded: %w", err)
		}
		if unencoded {
			return nil
		}
		read = true
		shards := place.shards()
		rows, err := tx.Query(ctx, fmt.Sprintf(versionVectorsSQL, store.VectorTable(place.dimension)), tenant, versions, place.generation, shards, place.spaceID)
		if err != nil {
			return err
		}
		var version, passage uuid.UUID
		var embedding store.HalfRow
		_, err = pgx.ForEachRow(rows, []any{&version, &passage, &embedding}, func() error {
			each(version, passage, embedding)
			return nil
		})
		return store.Wrap(err, "read vectors")
	})
	return read, err
}
