package corpus

// This file removes lexical segments that no query reads any more.

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
)

const (
	// Segments are locked first. A concurrent merge that replaces one of them either commits
	// before, and the next round finds its result, or comes after, and finds nothing.
	lockMergedSQL = `
SELECT id FROM lexical_segments
WHERE tenant_id = $1 AND collection_id = $2 AND merged_at < now() - $3::interval ORDER BY id LIMIT $4 FOR UPDATE`
	lockGenerationSegmentsSQL = `
SELECT id FROM lexical_segments
WHERE tenant_id = $1 AND collection_id = $2 AND generation = $3 ORDER BY id LIMIT $4 FOR UPDATE`

	dropPagesSQL    = `DELETE FROM lexical_pages WHERE tenant_id = $1 AND segment_id = ANY ($2)`
	dropSegmentsSQL = `DELETE FROM lexical_segments WHERE tenant_id = $1 AND id = ANY ($2)`

	dropGenerationEntriesSQL = `
DELETE FROM lexical_entries WHERE tenant_id = $1 AND collection_id = $2 AND generation = $3`

	dropRun = 16 // segments of one transaction
)

// KeepMerged is how long a merged segment stays readable.
const KeepMerged = 10 * time.Minute

// DropMerged removes the segments of a collection that were merged into others more than age ago,
// and returns their number.
func (s *CorpusStore) DropMerged(ctx context.Context, tenant, collection uuid.UUID, age time.Duration) (int, error) {
	n, err := s.dropSegments(ctx, tenant, lockMergedSQL, tenant, collection, age)
	return n, store.Wrap(err, "drop merged segments of collection %s", collection)
}

// DropLexicalGeneration removes the index of a generation that is not live.
func (s *CorpusStore) DropLexicalGeneration(ctx context.Context, tenant, collection uuid.UUID, generation int) error {
	_, err := s.dropSegments(ctx, tenant, lockGenerationSegmentsSQL, tenant, collection, generation)
	if err == nil {
		err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, dropGenerationEntriesSQL, tenant, collection, generation)
			return err
		})
	}
	return store.Wrap(err, "drop the index of generation %d of collection %s", generation, collection)
}

// dropSegments removes the segments that sql locks, dropRun at a time, until none is left, and
// returns their number.
func (s *CorpusStore) dropSegments(ctx context.Context, tenant uuid.UUID, sql string, args ...any) (int, error) {
	for total := 0; ; {
		n := 0
		err := s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
			segments, err := store.IDs(tx.Query(ctx, sql, append(args, dropRun)...))
			if n = len(segments); err != nil || n == 0 {
				return err
			}
			b := &pgx.Batch{}
			b.Queue(dropPagesSQL, tenant, segments)
			b.Queue(dropSegmentsSQL, tenant, segments)
			return tx.SendBatch(ctx, b).Close()
		})
		if err != nil || n == 0 {
			return total, err
		}
		total += n
	}
}
