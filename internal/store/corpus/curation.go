package corpus

// This file finds the collections that need curation, and removes what remains of ended generations
// and of deleted collections.

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/curate/due"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/clusters"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// Steps from collection to collection, since each may have any number of versions.
	changedSQL = `
WITH RECURSIVE walk AS (
    (SELECT collection_id, tenant_id FROM versions
     WHERE NOT curated AND state IN ('ready', 'superseded') AND collection_id > $1 ORDER BY collection_id LIMIT 1)
    UNION ALL
    SELECT n.* FROM walk w, LATERAL (
        SELECT v.collection_id, v.tenant_id FROM versions v
        WHERE NOT v.curated AND v.state IN ('ready', 'superseded') AND v.collection_id > w.collection_id
        ORDER BY v.collection_id LIMIT 1) n
)
(SELECT w.tenant_id, w.collection_id FROM walk w
 WHERE EXISTS (SELECT FROM versions v WHERE v.collection_id = w.collection_id AND NOT v.curated AND v.state IN ('ready', 'superseded')
               AND coalesce(v.retired_at, v.finished_at, '-infinity') < now() - $2::interval)
 LIMIT $4)
UNION
(SELECT tenant_id, collection_id FROM lexical_segments
 WHERE merged_at < now() - $3::interval AND collection_id > $1 GROUP BY 1, 2 ORDER BY 2 LIMIT $4)
UNION
(SELECT tenant_id, collection_id FROM generations
 WHERE state IN ('retired', 'cancelled', 'failed') AND removed_at IS NULL AND finished_at < now() - $3::interval AND collection_id > $1
 GROUP BY 1, 2 ORDER BY 2 LIMIT $4)
UNION
(SELECT tenant_id, collection_id FROM vector_shards
 WHERE indexed IS NULL AND retired_at IS NULL AND created_at < now() - $2::interval AND collection_id > $1 ORDER BY 2 LIMIT $4)
UNION
(SELECT tenant_id, collection_id FROM reclusterings
 WHERE asked_at < now() - $2::interval AND collection_id > $1 ORDER BY 2 LIMIT $4)`
	uncuratedChangesSQL = changedSQL + inOrderSQL

	// Finds what is due for a merge when the workflow was lost after the step that marks versions.
	// MergeFan segments of one tier are certainly due; a merge takes eight of them, or four of the
	// largest tier (due.Merge). A collection has few, but this counts those of all collections.
	toCurateSQL = changedSQL + `
UNION
(SELECT tenant_id, collection_id FROM lexical_segments s
 WHERE merged_at IS NULL AND bytes < 33554432 AND created_at < now() - $2::interval AND collection_id > $1 AND NOT EXISTS (
     SELECT FROM generations g WHERE g.tenant_id = s.tenant_id AND g.collection_id = s.collection_id AND g.number = s.generation AND g.state <> 'live')
 GROUP BY tenant_id, collection_id, generation, width_bucket(bytes, '{1048576,8388608}'::bigint[])
 HAVING count(*) >= $5 ORDER BY 2 LIMIT $4)` + inOrderSQL
	inOrderSQL = `
ORDER BY 2 LIMIT $4`

	removableSQL = `
SELECT number, state = 'retired', coalesce(removed_to, '00000000-0000-0000-0000-000000000000') FROM generations
WHERE tenant_id = $1 AND collection_id = $2 AND state IN ('retired', 'cancelled', 'failed') AND removed_at IS NULL
  AND finished_at < now() - $3::interval
ORDER BY number LIMIT 1 FOR UPDATE`
	removePageSQL = `
SELECT id FROM versions WHERE tenant_id = $1 AND collection_id = $2 AND id > $3 AND state IN ('ready', 'superseded') ORDER BY id LIMIT $4`
	removePassagesSQL = `
DELETE FROM passages WHERE tenant_id = $1 AND generation = $3
  AND section_id = ANY (ARRAY(SELECT id FROM sections WHERE tenant_id = $1 AND version_id = ANY ($2)))`
	// passage_count counts the passages of the live generation.
	recountSQL = `
UPDATE versions v SET passage_count = n.passages
FROM (SELECT p.version_id, count(*)::int AS passages FROM passages p WHERE p.tenant_id = $1
        AND p.section_id = ANY (ARRAY(SELECT id FROM sections WHERE tenant_id = $1 AND version_id = ANY ($2)))
        AND p.generation = (SELECT generation FROM collections WHERE tenant_id = $1 AND id = $3) GROUP BY p.version_id) n
WHERE v.tenant_id = $1 AND v.id = n.version_id AND v.passage_count <> n.passages`
	removedToSQL = `UPDATE generations SET removed_to = $4 WHERE tenant_id = $1 AND collection_id = $2 AND number = $3`
	removedSQL   = `UPDATE generations SET removed_at = now() WHERE tenant_id = $1 AND collection_id = $2 AND number = $3`
)

// Uncurated lists up to limit collections of all tenants after one, in the order of their ids, that
// have been in need of curation for longer than age: they have new or ended versions, segments to
// merge, a shard without an index, or clusters to rebuild. It also lists those with something that
// was replaced longer than keep ago.
func (s *CorpusStore) Uncurated(ctx context.Context, after uuid.UUID, age, keep time.Duration, limit int) ([]wire.Curation, error) {
	return s.toCurate(ctx, toCurateSQL, after, age, keep, limit, due.MergeFan)
}

// UncuratedChanges lists the same collections, except those that only have segments to merge: it
// reads what changed, while Uncurated reads about every collection.
func (s *CorpusStore) UncuratedChanges(ctx context.Context, after uuid.UUID, age, keep time.Duration, limit int) ([]wire.Curation, error) {
	return s.toCurate(ctx, uncuratedChangesSQL, after, age, keep, limit)
}

func (s *CorpusStore) toCurate(ctx context.Context, sql string, args ...any) ([]wire.Curation, error) {
	var out []wire.Curation
	err := s.db.AsSystem(ctx, func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[wire.Curation])
		return err
	})
	return out, store.Wrap(err, "list collections to curate")
}

// RemoveGenerations removes part of a generation of a collection that ended longer than age ago:
// the passages and vectors of up to limit versions, and after the last of them its index and
// clusters. It returns the number of versions it processed, and whether there is more.
func (s *CorpusStore) RemoveGenerations(ctx context.Context, tenant, collection uuid.UUID, age time.Duration, limit int) (removed int, more bool, err error) {
	var number int
	last := false
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		removed, more, last = 0, false, false
		var retired bool
		var after uuid.UUID
		err := tx.QueryRow(ctx, removableSQL, tenant, collection, age).Scan(&number, &retired, &after)
		if store.IsNoRows(err) {
			return nil
		}
		if err != nil {
			return err
		}
		more = true
		versions, err := store.IDs(tx.Query(ctx, removePageSQL, tenant, collection, after, limit))
		if err != nil {
			return fmt.Errorf("find its versions: %w", err)
		}
		if len(versions) == 0 {
			last = true
			return nil
		}
		vectors, err := s.db.VectorTables(ctx, tx)
		if err != nil {
			return err
		}
		commands := &pgx.Batch{}
		for _, table := range vectors {
			// Rows in the generation's own partitions are removed with these.
			commands.Queue(`DELETE FROM `+pgx.Identifier{table}.Sanitize()+
				` WHERE `+vectorsOfVersionsSQL+` AND generation = $3 AND shard = `+store.SharedShard, tenant, versions, number)
		}
		commands.Queue(removePassagesSQL, tenant, versions, number)
		commands.Queue(removePassageLinksSQL, tenant, versions, number)
		if retired {
			commands.Queue(recountSQL, tenant, versions, collection)
		}
		commands.Queue(removedToSQL, tenant, collection, number, versions[len(versions)-1])
		removed = len(versions)
		return tx.SendBatch(ctx, commands).Close()
	})
	if err == nil && last {
		err = s.removeDerived(ctx, tenant, collection, number)
	}
	if err != nil {
		return 0, false, fmt.Errorf("remove a generation of collection %s: %w", collection, err)
	}
	return removed, more, nil
}

// removeDerived removes the index and the clusters of a generation whose passages are removed, and
// records that nothing is left of it.
func (s *CorpusStore) removeDerived(ctx context.Context, tenant, collection uuid.UUID, number int) error {
	if err := s.DropLexicalGeneration(ctx, tenant, collection, number); err != nil {
		return err
	}
	return s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		if err := clusters.DropClusterings(ctx, tx, tenant, collection, &number); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, removedSQL, tenant, collection, number)
		return err
	})
}

// purgedTables are the tables with rows of a collection other than its versions, each with the key
// by which a limited number of rows is selected.
var purgedTables = []struct{ table, key string }{
	{"cluster_members", "section_id"}, {"clusters", "id"}, {"clusterings", "generation"}, {"reclusterings", "collection_id"},
	{"lexical_complete", "collection_id"},
	{"links", "version_id"}, {"lexical_entries", "id"}, {"generations", "number"},
	{"reparsed_documents", "document_id"}, {"reparses", "number"},
}

// PurgeCollection removes the index of a deleted collection, and up to limit rows of each kind
// other than its versions.
func (s *CorpusStore) PurgeCollection(ctx context.Context, tenant, collection uuid.UUID, limit int) (removed int, more bool, err error) {
	deleted := false
	err = s.db.AsTenant(ctx, tenant, func(ctx context.Context, tx pgx.Tx) error {
		removed, more = 0, false
		err := tx.QueryRow(ctx, `SELECT deleted_at IS NOT NULL FROM collections WHERE tenant_id = $1 AND id = $2`, tenant, collection).Scan(&deleted)
		if store.IsNoRows(err) || err == nil && !deleted {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, cancelGenerationSQL, tenant, collection); err != nil {
			return fmt.Errorf("cancel its rebuild: %w", err)
		}
		for _, t := range purgedTables {
			table, key := pgx.Identifier{t.table}.Sanitize(), pgx.Identifier{t.key}.Sanitize()
			tag, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE tenant_id = $1 AND collection_id = $2 AND `+key+` IN (
				SELECT `+key+` FROM `+table+` WHERE tenant_id = $1 AND collection_id = $2 LIMIT $3)`, tenant, collection, limit)
			if err != nil {
				return fmt.Errorf("purge %s: %w", t.table, err)
			}
			n := int(tag.RowsAffected())
			removed += n
			more = more || n >= limit
		}
		return nil
	})
	if err == nil && deleted {
		var segments int
		segments, err = s.dropSegments(ctx, tenant, lockCollectionSegmentsSQL, tenant, collection)
		removed += segments
	}
	if err != nil {
		return removed, false, fmt.Errorf("purge collection %s: %w", collection, err)
	}
	return removed, more, nil
}

const lockCollectionSegmentsSQL = `
SELECT id FROM lexical_segments WHERE tenant_id = $1 AND collection_id = $2 ORDER BY id LIMIT $3 FOR UPDATE`
