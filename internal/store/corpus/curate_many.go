package corpus

// This file finds the work that is due for many collections at once.

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/curate/due"
	"github.com/sluice-rag/sluice/internal/store"
)

// A collection with versions that have no entry in the lexical index does not count as small,
// whatever its size. All versions are looked up for small collections only.
const workDueSQL = `
SELECT c.id,
    CASE WHEN c.deleted_at IS NOT NULL OR l.passages > $4 THEN false ELSE
        NOT EXISTS (SELECT FROM versions v WHERE v.tenant_id = $1 AND v.collection_id = c.id AND v.unencoded AND v.state = 'ready')
        AND NOT EXISTS (SELECT FROM generations g WHERE g.tenant_id = $1 AND g.collection_id = c.id AND g.state = 'building')
        AND NOT EXISTS (SELECT FROM vector_shards h WHERE h.tenant_id = $1 AND h.collection_id = c.id)
        AND NOT EXISTS (
            SELECT FROM versions v WHERE v.tenant_id = $1 AND v.collection_id = c.id AND v.state = 'ready' AND NOT EXISTS (
                SELECT FROM lexical_entries e WHERE e.tenant_id = $1 AND e.version_id = v.id AND e.generation = c.generation AND NOT e.dead)) END,
    EXISTS (SELECT FROM versions v WHERE v.tenant_id = $1 AND v.collection_id = c.id AND NOT v.curated AND v.state IN ('ready', 'superseded'))
        OR EXISTS (SELECT FROM reclusterings r WHERE r.tenant_id = $1 AND r.collection_id = c.id),
    EXISTS (SELECT FROM lexical_entries e WHERE e.tenant_id = $1 AND e.collection_id = c.id AND e.generation = c.generation AND e.dead),
    EXISTS (SELECT FROM lexical_segments s WHERE s.tenant_id = $1 AND s.collection_id = c.id AND s.merged_at < now() - $3::interval)
        OR EXISTS (SELECT FROM generations g WHERE g.tenant_id = $1 AND g.collection_id = c.id
                   AND g.state IN ('retired', 'cancelled', 'failed') AND g.removed_at IS NULL AND g.finished_at < now() - $3::interval),
    l.segments
FROM collections c CROSS JOIN LATERAL (
    SELECT count(*) AS segments, coalesce(sum(s.passages), 0) AS passages FROM lexical_segments s
    WHERE s.tenant_id = $1 AND s.collection_id = c.id AND s.generation = c.generation AND s.merged_at IS NULL) l
WHERE c.tenant_id = $1 AND c.id = ANY ($2)`

// WorkDue returns the work that is due for collections of a tenant; a collection that does not
// exist is missing from the result. What was replaced is swept once it is older than keep.
func (s *CorpusStore) WorkDue(ctx context.Context, tenant uuid.UUID, collections []uuid.UUID, keep time.Duration) (map[uuid.UUID]due.Work, error) {
	var out map[uuid.UUID]due.Work
	err := s.db.AskTenant(ctx, tenant, workDueSQL, []any{tenant, collections, keep, min(due.SmallPassages, int64(s.db.Options().OwnVectorsAbove))}, func(rows pgx.Rows) error {
		out = make(map[uuid.UUID]due.Work, len(collections))
		var id uuid.UUID
		var w due.Work
		var dead bool
		var segments int64
		_, err := pgx.ForEachRow(rows, []any{&id, &w.Small, &w.Cluster, &dead, &w.Sweep, &segments}, func() error {
			w.Merge = dead || segments >= due.MergeFan
			out[id] = w
			return nil
		})
		return err
	})
	return out, store.Wrap(err, "see what is due for %d collections", len(collections))
}
